"""Maxima over the points of a patch whose gradients go only to the points that won."""

import math
from functools import partial
from typing import Any, no_type_check

import numpy as np
import torch
from jaxtyping import Float
from numba import njit
from torch import Tensor

from purgegate.kernels.linear import learned_product, linear
from purgegate.kernels.parallel import over_clouds

# The gradient of the weights is summed over this many shares of the patches, if they divide so: a fixed
# number, so that rounding does not depend on the number of threads.
SHARES = 16


def patch_max(x: Float[Tensor, "P K D"]) -> Float[Tensor, "P D"]:
    """The greatest value over a patch's points, a channel; the first point on ties has the gradient."""
    return _PatchMax.apply(x) if _compiled(x) else x.max(dim=1).values


def linear_max(
    x: Float[Tensor, "P K M"], weight: Float[Tensor, "D M"], bias: Float[Tensor, " D"]
) -> Float[Tensor, "P D"]:
    """A linear layer on every point, then `patch_max`.

    Only one point in K of each channel has a gradient, so two of the three large products are left out.
    """
    if _compiled(x):
        return _LinearMax.apply(x, weight) + bias
    return patch_max(linear(x, weight)) + bias


def _compiled(x: Tensor) -> bool:
    """Whether compiled code can take these numbers: on a CPU, and of a precision that NumPy has too."""
    precise = x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")
    return x.device.type == "cpu" and precise


class _PatchMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        greatest, ctx.place = _winners(x)
        ctx.shape = x.shape
        return greatest

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        into = grad.new_zeros(ctx.shape)
        over_clouds(_scatter, _array(grad), ctx.place, into.numpy())
        return into


class _LinearMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        greatest, ctx.place = _winners(learned_product(x, weight))
        ctx.save_for_backward(x, weight)
        return greatest

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        shares = math.gcd(len(x), SHARES)
        into_x = torch.zeros_like(x, memory_format=torch.contiguous_format)
        into_weight = weight.new_zeros(shares, *weight.shape)
        split = [
            a.reshape(shares, -1, *a.shape[1:]) for a in (_array(grad), ctx.place, _array(x), into_x.numpy())
        ]
        over_clouds(partial(_scatter_products, _array(weight)), *split, into_weight.numpy())
        return into_x, into_weight.sum(dim=0)


def _winners(x: Tensor) -> tuple[Tensor, np.ndarray]:
    """The greatest values over the points and which point has each."""
    values = _array(x)
    greatest = np.empty((x.shape[0], x.shape[2]), dtype=values.dtype)
    place = np.empty(greatest.shape, dtype=np.int32)
    over_clouds(_find_winners, values, greatest, place)
    return torch.from_numpy(greatest), place


def _array(x: Tensor) -> np.ndarray:
    return np.ascontiguousarray(x.detach().numpy())


@no_type_check
@njit(nogil=True, cache=True)
def _find_winners(x: np.ndarray, greatest: np.ndarray, place: np.ndarray) -> None:
    patches, size, width = x.shape
    for patch in range(patches):
        best, where = greatest[patch], place[patch]
        best[:] = x[patch, 0]
        where[:] = 0
        for point in range(1, size):
            row = x[patch, point]
            for d in range(width):
                wins = row[d] > best[d]
                where[d] = point if wins else where[d]
                best[d] = row[d] if wins else best[d]


@no_type_check
@njit(nogil=True, cache=True)
def _scatter(grad: np.ndarray, place: np.ndarray, into: np.ndarray) -> None:
    patches, width = grad.shape
    for patch in range(patches):
        for d in range(width):
            into[patch, place[patch, d], d] = grad[patch, d]


@no_type_check
@njit(nogil=True, cache=True, fastmath={"contract"})
def _scatter_products(
    weight: np.ndarray,
    grad: np.ndarray,
    place: np.ndarray,
    x: np.ndarray,
    into_x: np.ndarray,
    into_weight: np.ndarray,
) -> None:
    shares, patches, width = grad.shape
    channels = x.shape[3]
    for share in range(shares):
        for patch in range(patches):
            for d in range(width):
                slope, point = grad[share, patch, d], place[share, patch, d]
                row, into_row = x[share, patch, point], into_x[share, patch, point]
                factor, into_factor = weight[d], into_weight[share, d]
                for m in range(channels):
                    into_row[m] += slope * factor[m]
                    into_factor[m] += slope * row[m]
