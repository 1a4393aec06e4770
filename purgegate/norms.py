"""Where BatchNorm takes its statistics: from the source, from the batch, or from both."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

NORMS = ("batch", "source", "blend")

# A blend trusts a batch as much as the source at about this many clouds: not at all at one, whose own
# statistics say little of its domain, to 98 % at 32.
BLEND_EVEN = 8


def blend_share(clouds: int) -> float:
    """Trust in the statistics of a batch of so many clouds, from 0 at a single one towards 1."""
    return (clouds**3 - 1) / (clouds**3 - 1 + BLEND_EVEN**3)


@contextmanager
def statistics_from(model: object, norm: str, *, clouds: int | None = None) -> Iterator[None]:
    """Let every BatchNorm of the model normalise with `norm` statistics; the running ones stay untouched.

    A blend depends on the number of clouds in the batch.
    """
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}; got {norm!r}")
    if norm == "blend" and clouds is None:
        raise ValueError("norm='blend' needs the number of clouds in the batch: give clouds=")
    share = {"source": 0.0, "batch": 1.0, "blend": blend_share(clouds or 1)}[norm]
    layers = [layer for layer in _modules(model) if isinstance(layer, _BatchNorm)] if share > 0 else []
    for layer in layers:
        layer.share, layer.forward = share, partial(_normalise, layer)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.share, layer.forward


def scale_and_shift(
    layer: _BatchNorm, mean: Float[Tensor, " D"], var: Float[Tensor, " D"], count: int
) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
    """The affine map that `layer` amounts to on a batch of `count` values a channel with these moments."""
    share = batch_share(layer, count)
    if share < 1 and layer.running_mean is not None and layer.running_var is not None:
        mean = share * mean + (1 - share) * layer.running_mean
        var = share * var + (1 - share) * layer.running_var
    scale = torch.rsqrt(var + layer.eps)
    if not layer.affine:
        return scale, -mean * scale
    scale = scale * layer.weight
    return scale, layer.bias - mean * scale


def batch_share(layer: _BatchNorm, count: int) -> float:
    """Trust in a batch of `count` values a channel: 0 takes the source's statistics, 1 the batch's."""
    share = 1.0 if layer.running_mean is None else getattr(layer, "share", 0.0)
    if share == 1 and count < 2:
        raise ValueError(
            "norm='batch' needs a batch of at least 2: one cloud has no variance in the head; "
            "use norm='blend', or norm='source'"
        )
    return share


def _normalise(layer: _BatchNorm, x: Tensor) -> Tensor:
    """The layer's forward under the statistics that `statistics_from` asked for."""
    count = x.numel() // x.shape[1]
    if batch_share(layer, count) == 1:
        return F.batch_norm(x, None, None, layer.weight, layer.bias, training=True, eps=layer.eps)
    var, mean = torch.var_mean(x, dim=[axis for axis in range(x.ndim) if axis != 1], correction=0)
    scale, shift = scale_and_shift(layer, mean, var, count)
    shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
    return x * scale.view(shape) + shift.view(shape)


@contextmanager
def momentum(model: object, value: float) -> Iterator[None]:
    """Running BatchNorm statistics of a model in training move by this momentum for a while; 0 holds them."""
    layers = [layer for layer in _modules(model) if isinstance(layer, _BatchNorm)]
    with attribute(layers, "momentum", value):
        yield


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """The model in evaluation mode for a while; every module's own mode is restored."""
    with attribute(_modules(model), "training", False):
        yield


@contextmanager
def attribute(modules: Sequence[nn.Module], name: str, value: float | bool) -> Iterator[None]:
    """An attribute of the modules for a while; each gets its own back."""
    kept = [getattr(module, name) for module in modules]
    for module in modules:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, own in zip(modules, kept, strict=True):
            setattr(module, name, own)


def _modules(model: object) -> list[nn.Module]:
    """All modules of a model; of one that is none itself, those that it holds or whose methods it holds."""
    found: dict[nn.Module, None] = {}
    seen, waiting = set(), [model]
    while waiting:
        each = waiting.pop()
        if isinstance(each, nn.Module):
            found |= dict.fromkeys(each.modules())
        elif id(each) not in seen and not isinstance(each, (type, ModuleType)):
            seen.add(id(each))
            held = (
                each.values() if isinstance(each, dict) else each if isinstance(each, (list, tuple)) else ()
            )
            waiting += [*held, *getattr(each, "__dict__", {}).values(), getattr(each, "__self__", None)]
    return list(found)
