"""Where BatchNorm takes its statistics: from the source, the batch, both, or all of a stream so far."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from purgegate.pools import Pool
from purgegate.twins import held_modules

NORMS = ("batch", "source", "blend", "pool")

Norm = str | Pool | dict[str, Any]  # one of NORMS, or a pool of another prior or memory
Moments = tuple[Float[Tensor, " D"], Float[Tensor, " D"]]  # mean and variance per channel
Rule = Callable[[_BatchNorm, Tensor, Tensor], Moments]  # from those of the batch to those to normalise with

# A blend trusts a batch as much as the source at about this many clouds: not at all at one, whose own
# statistics say little of its domain, to 98 % at 32.
BLEND_EVEN = 8


def blend_share(clouds: int) -> float:
    """Trust in the statistics of a batch of so many clouds, from 0 at a single one towards 1."""
    return (clouds**3 - 1) / (clouds**3 - 1 + BLEND_EVEN**3)


@contextmanager
def statistics_from(
    model: object | list[_BatchNorm], norm: str, *, clouds: int | None = None, pool: Pool | None = None
) -> Iterator[None]:
    """Let every BatchNorm of a model normalise with `norm` statistics; the running ones stay untouched.

    The model, or a list of its layers, is the caller's own, such as a twin: they change for a while. "blend"
    and "pool" depend on the number of clouds in the batch. A pool takes the batch in when the block ends
    without error.
    """
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}; got {norm!r}")
    if norm in ("blend", "pool") and clouds is None:
        raise ValueError(f"norm='{norm}' needs the number of clouds in the batch: give clouds=")
    if norm == "pool" and pool is None:
        raise ValueError("norm='pool' needs the pool of its stream: give pool=Pool()")
    alone = norm == "blend" and clouds == 1  # which has the source's statistics, to the last digit
    found = model if isinstance(model, list) else batch_norms(model)
    layers = [] if norm == "source" or alone else found
    for place, layer in enumerate(layers):
        rule = partial(pool.join, place, clouds or 1) if pool else _blended(norm, clouds)
        layer.rule, layer.forward = rule, partial(_normalise, layer)
    try:
        yield
        if pool:
            pool.take_in()
    finally:
        if pool:
            pool.forget_pending()
        for layer in layers:
            del layer.rule, layer.forward


def batch_norms(model: object) -> list[_BatchNorm]:
    """Every BatchNorm of a model, in a fixed order."""
    return [layer for layer in held_modules(model) if isinstance(layer, _BatchNorm)]


def needs_batch(layer: _BatchNorm) -> bool:
    """Whether the layer looks at the statistics of what comes in."""
    return layer.running_mean is None or hasattr(layer, "rule")


def scale_and_shift(layer: _BatchNorm, mean: Tensor, var: Tensor, count: int) -> Moments:
    """The affine map that `layer` amounts to on a batch of `count` values per channel with these moments."""
    _check_count(layer, count)
    if layer.running_mean is not None:
        rule: Rule = getattr(layer, "rule", _running)
        mean, var = rule(layer, mean, var)
    scale = torch.rsqrt(var + layer.eps)
    if not layer.affine:
        return scale, -mean * scale
    scale = scale * layer.weight
    return scale, layer.bias - mean * scale


def _running(layer: _BatchNorm, mean: Tensor, var: Tensor) -> Moments:
    return layer.running_mean, layer.running_var  # type: ignore[return-value]


def _batch(layer: _BatchNorm, mean: Tensor, var: Tensor) -> Moments:
    return mean, var


def _share(share: float, layer: _BatchNorm, mean: Tensor, var: Tensor) -> Moments:
    known = _running(layer, mean, var)
    return share * mean + (1 - share) * known[0], share * var + (1 - share) * known[1]


def _blended(norm: str, clouds: int | None) -> Rule:
    return _batch if norm == "batch" else partial(_share, blend_share(clouds or 1))


def _check_count(layer: _BatchNorm, count: int) -> None:
    alone = layer.running_mean is None or getattr(layer, "rule", None) is _batch
    if alone and count < 2:
        raise ValueError(
            "norm='batch' needs a batch of at least 2: one cloud has no variance in the head; "
            "use norm='blend', norm='pool' or norm='source'"
        )


def _normalise(layer: _BatchNorm, x: Tensor) -> Tensor:
    """The layer's forward under the statistics that `statistics_from` asked for."""
    count = x.numel() // x.shape[1]
    if layer.running_mean is None or layer.rule is _batch:
        _check_count(layer, count)
        return F.batch_norm(x, None, None, layer.weight, layer.bias, training=True, eps=layer.eps)
    var, mean = torch.var_mean(x, dim=[axis for axis in range(x.ndim) if axis != 1], correction=0)
    scale, shift = scale_and_shift(layer, mean, var, count)
    shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
    return x * scale.view(shape) + shift.view(shape)


@contextmanager
def momentum(model: object, value: float) -> Iterator[None]:
    """Running BatchNorm statistics of a model in training move by this momentum for a while; 0 holds them."""
    with attribute(batch_norms(model), "momentum", value):
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode for a while; every module's own mode is restored."""
    with attribute(list(model.modules()), "training", False):
        yield


@contextmanager
def attribute(owners: Sequence[Any], name: str, value: float | bool) -> Iterator[None]:
    """An attribute of modules, or of anything, for a while; each gets its own back."""
    kept = [getattr(owner, name) for owner in owners]
    for owner in owners:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, own in zip(owners, kept, strict=True):
            setattr(owner, name, own)
