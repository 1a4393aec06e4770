"""What all our classifiers share, in ONNX operators: layers, the embedding of patches, the head."""

from collections.abc import Callable
from typing import Any

from onnx import TensorProto
from torch import nn

from purgegate.backbones.onnx.builder import Graph, Value
from purgegate.norms import scale_and_shift

NORMS = ("norms.0", "norms.1")  # the BatchNorms of the embedding
END = 2**62  # of an axis, however long

Mean = Callable[[Graph, str, str], str]


def linear(g: Graph, x: str, layer: Any) -> str:
    """A linear layer of every row."""
    y = g.MatMul(x, layer.weight.T)
    return y if layer.bias is None else g.Add(y, layer.bias)


def layer_norm(g: Graph, x: str, layer: nn.LayerNorm) -> str:
    """A layer normalisation of every row."""
    return g.LayerNormalization(x, layer.weight, layer.bias, axis=-1, epsilon=layer.eps)


def silu(g: Graph, x: str) -> str:
    """A value times its logistic function."""
    return g.Mul(x, g.Sigmoid(x))


def batch_norm_relu(g: Graph, x: str, layer: Any, *, name: str, mean: Mean, bias: Value | None = None) -> str:
    """BatchNorm of x and its bias, and ReLU; `share` is the batch's part in the statistics.

    The batch's moments are only taken where they have a part. They, the scale and the shift have names, by
    which the graph can be cut.
    """
    known_mean, known_var, weight, own_bias = (
        g.weight(f"{name}.{key}", getattr(layer, key))
        for key in ("running_mean", "running_var", "weight", "bias")
    )
    batch, source = Graph(g), Graph(g)
    added = None if bias is None else g.name_of(bias)
    own_mean, own_var = _moments(batch, x if added is None else batch.Add(x, added), name, mean)
    rate = batch.Reciprocal(batch.Sqrt(batch.Add(_blend(batch, own_var, known_var), float(layer.eps))))
    scale = batch.Mul(weight, rate)
    shift = batch.Sub(own_bias, batch.Mul(_blend(batch, own_mean, known_mean), scale))
    known = scale_and_shift(layer, layer.running_mean, layer.running_var, 2)
    scale, shift = g.If(
        g.Greater("share", 0.0),
        outputs=(f"{name}.scale", f"{name}.shift"),
        then_branch=batch.branch(scale, shift),
        else_branch=source.branch(*(source.Identity(value) for value in known)),
    )
    # The bias is added to the shift, which is far smaller than x.
    shift = shift if added is None else g.Add(g.Mul(added, scale), shift)
    return g.Relu(g.Add(g.Mul(x, scale), shift))


def embed_patches(g: Graph, patches: str, encoder: Any) -> None:
    """Patches (B, G, K, 3) to `features`; see `PatchEmbed` for why the mixing product is in two halves.

    What is added to every point of a patch is kept apart, `shared`, from what is each point's, `own`: each
    sum of all points is a pass through memory. So the widening layer's bias is moved behind both halves.
    """
    lift, lift_norm, _, widen = encoder.first_conv
    mix, norm, _, project = encoder.second_conv
    first, second = NORMS
    lifted = g.MatMul(patches, lift.weight.T)
    x = batch_norm_relu(g, lifted, lift_norm, name=first, mean=mean_of_points, bias=lift.bias)
    x = g.MatMul(x, widen.weight.T)
    whole, each = mix.weight.chunk(2, dim=1)
    greatest = g.ReduceMax(x, [2], keepdims=1)
    bias = mix.bias.double() + (whole + each).double() @ widen.bias.double()
    shared = g.Add(g.MatMul(greatest, whole.T), bias.float(), outputs=("shared",))
    own = g.MatMul(x, each.T, outputs=("own",))
    x = batch_norm_relu(g, own, norm, name=second, mean=mean_of_points, bias=shared)
    y = g.ReduceMax(g.MatMul(x, project.weight.T), [2], keepdims=0)
    g.Add(y, project.bias, outputs=("features",))


def embed_centers(g: Graph, centers: str, layers: Any) -> None:
    """Centres (B, G, 3) to `positions`."""
    first, _, second = layers
    hidden = g.Gelu(linear(g, centers, first))
    g.Add(g.MatMul(hidden, second.weight.T), second.bias, outputs=("positions",))


def classify(g: Graph, feature: str, head: Any) -> None:
    """A feature (B, F) to `logits`; weights keep their names, for the head is also read out of the file."""
    x = feature
    for place in (0, 4):
        x = batch_norm_relu(
            g,
            _head_layer(g, x, head, place),
            head[place + 1],
            name=f"class_head.{place + 1}",
            mean=mean_of_clouds,
        )
    _head_layer(g, x, head, 8, outputs=("logits",))


def _head_layer(g: Graph, x: str, head: Any, place: int, outputs: int | tuple[str, ...] = 1) -> str:
    weight, bias = (
        g.weight(f"class_head.{place}.{key}", getattr(head[place], key)) for key in ("weight", "bias")
    )
    return g.Gemm(x, weight, bias, transB=1, outputs=outputs)


def _moments(g: Graph, x: str, name: str, mean_of: Mean) -> tuple[str, str]:
    """Mean and variance of the batch."""
    mean = mean_of(g, x, f"{name}.batch_mean")
    shifted = g.Sub(x, mean)
    return mean, mean_of(g, g.Mul(shifted, shifted), f"{name}.batch_var")


def mean_of_points(g: Graph, x: str, name: str) -> str:
    """The mean over clouds, patches and points, in three sums: a long one in single precision loses digits.

    The second is no mean, for runtimes make one sum of three means in a row.
    """
    patches = g.ReduceMean(x, [2], keepdims=0)
    count = g.Cast(g.Shape(patches, start=1, end=2), to=TensorProto.FLOAT)
    return mean_of_clouds(g, g.Div(g.ReduceSum(patches, [1], keepdims=0), count), name)


def mean_of_clouds(g: Graph, x: str, name: str) -> str:
    """The mean over clouds."""
    return g.ReduceMean(x, [0], keepdims=0, outputs=(name,))


def _blend(g: Graph, own: str, known: str) -> str:
    return g.Add(g.Mul("share", own), g.Mul(g.Sub(1.0, "share"), known))
