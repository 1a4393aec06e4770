"""PointMamba's blocks in ONNX operators; the selective scan is a Scan of one token at a time."""

from collections.abc import Sequence
from typing import Any

import torch

from purgegate.backbones.mamba import KERNEL
from purgegate.backbones.onnx.builder import Graph
from purgegate.backbones.onnx.curves import along_curves
from purgegate.backbones.onnx.parts import END, layer_norm, linear, silu


def encode_point_mamba(g: Graph, model: Any) -> None:
    """From `features` and `positions` (B, G, D) and `centers` to `feature` (B, F): any number of tokens."""
    if model.bits == "auto":
        raise ValueError(
            "an exported PointMamba must have fixed bits of its curves; got bits='auto', which depend on the "
            "batch: load it with bits=7"
        )
    orders = g.Split(along_curves(g, "centers", bits=model.bits), axis=0, num_outputs=2, outputs=2)
    x = g.Add(_serialise(g, "features", orders, model), _serialise(g, "positions", orders))
    for block in model.blocks.layers:
        x = g.Add(x, _mix(g, layer_norm(g, x, block.norm), block.mixer))
    g.ReduceMean(layer_norm(g, x, model.blocks.norm_f), [1], keepdims=0, outputs=("feature",))


def _serialise(g: Graph, x: str, orders: Sequence[str], model: Any = None) -> str:
    """Rows along one curve and then along the other; features are scaled by which it is."""
    parts = [g.MatMul(g.Squeeze(order, [0]), x) for order in orders]
    if model is not None:
        first, second = parts
        first = g.Add(g.Mul(first, model.OrderScale_gamma_1), model.OrderScale_beta_1)
        second = g.Add(g.Mul(second, model.OrderScale_gamma_2), model.OrderScale_beta_2)
        parts = [first, second]
    return g.Concat(*parts, axis=1)


def _mix(g: Graph, x: str, mixer: Any) -> str:
    u, gate = g.Split(linear(g, x, mixer.in_proj), axis=-1, num_outputs=2, outputs=2)
    u = silu(g, _convolve(g, u, mixer.conv1d))
    step, b, c = g.Split(linear(g, u, mixer.x_proj), [*mixer.split], axis=-1, outputs=3)
    delta = g.Softplus(linear(g, step, mixer.dt_proj))
    y = g.Add(_scan(g, u, delta, b, c, -torch.exp(mixer.A_log)), g.Mul(u, mixer.D))
    return linear(g, g.Mul(y, silu(g, gate)), mixer.out_proj)


def _convolve(g: Graph, x: str, layer: Any) -> str:
    """The causal convolution as a sum of shifted copies."""
    padded = g.Pad(x, [0, KERNEL - 1, 0, 0, 0, 0])
    y = layer.bias
    for shift, tap in enumerate(layer.weight.squeeze(1).unbind(-1)):
        end = shift - KERNEL + 1
        y = g.Add(y, g.Mul(g.Slice(padded, [shift], [end or END], [1]), tap))
    return y


def _scan(g: Graph, u: str, delta: str, b: str, c: str, decay: torch.Tensor) -> str:
    """States (B, n, E) from token to token, and what is read out of them; see `selective_scan`."""
    body, names = Graph(g), [g.new_name(key) for key in ("state", "delta", "given", "write", "read")]
    state, now, given, write, read = names
    rate = g.weight(g.new_name("decay"), decay.T)
    kept = body.Exp(body.Mul(body.Unsqueeze(now, [-2]), rate))
    added = body.Mul(body.Unsqueeze(given, [-2]), body.Unsqueeze(write, [-1]))
    new = body.Add(body.Mul(kept, state), added)
    y = body.Squeeze(body.MatMul(body.Unsqueeze(read, [-2]), new), [-2])
    shape = g.Concat(g.Shape(u, start=0, end=1), [*decay.T.shape], axis=0)
    _, found = g.Scan(
        *(g.Expand(0.0, shape), delta, g.Mul(delta, u), b, c),
        outputs=2,
        body=body.branch(new, y, inputs=names),
        num_scan_inputs=4,
        scan_input_axes=[1, 1, 1, 1],
        scan_output_axes=[1],
    )
    return found
