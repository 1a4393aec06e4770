"""Farthest point sampling: a subset that covers the cloud."""

from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int64
from numba import njit
from torch import Tensor

from purgegate.kernels.parallel import over_clouds
from purgegate.typing import Points

# What brings a cloud of too few points to the asked number: "repeat" its points, or "zero", as released.
PADDINGS = ("repeat", "zero")


def farthest_points(
    points: Points, count: int, *, start: Int64[Tensor, " B"] | int = 0
) -> Int64[Tensor, "B m"]:
    """Indices of `count` points, each the farthest from those before it, the first being `start`.

    The first index wins a tie. A cloud with fewer points than asked repeats them in that order, never zeros.
    """
    if count < 1:
        raise ValueError(f"farthest point sampling needs a count of at least 1; got {count}")
    batch, available, _ = points.shape
    first = torch.as_tensor(start, device=points.device).expand(batch)
    if not ((first >= 0) & (first < available)).all():
        raise ValueError(f"start must lie in [0, {available}), the number of points; got {start}")
    distinct = min(count, available)
    sample = _on_cpu if points.device.type == "cpu" else farthest_points_reference
    index = sample(points.detach(), distinct, first)
    return index[:, torch.arange(count, device=points.device) % distinct]


def random_starts(points: Points, *, generator: torch.Generator) -> Int64[Tensor, " B"]:
    """Draw one start index a cloud."""
    draws = torch.randint(points.shape[1], (points.shape[0],), generator=generator, device=generator.device)
    return draws.to(points.device)


def resample(
    points: Points, count: int, *, start: Int64[Tensor, " B"] | int = 0, padding: str = "repeat"
) -> Float[Tensor, "B m 3"]:
    """Clouds of exactly `count` points; clouds that have them already are left as they are.

    Too few points come in the order of the sampling: all of them again and again, or once, with points
    (0, 0, 0) behind them.
    """
    if padding not in PADDINGS:
        raise ValueError(f"padding must be one of {', '.join(PADDINGS)}; got {padding!r}")
    available = points.shape[1]
    if available == count:
        return points
    view = take(points, farthest_points(points, count, start=start))
    if padding == "zero":
        view[:, available:] = 0
    return view


def take(points: Points, index: Int64[Tensor, "B m"]) -> Float[Tensor, "B m 3"]:
    """The points at these places of each cloud."""
    return points.gather(1, index[..., None].expand(-1, -1, 3))


def random_view(
    points: Points, count: int, *, generator: torch.Generator, padding: str = "repeat"
) -> Float[Tensor, "B m 3"]:
    """Clouds of `count` points with a random start first; clouds of that size only swap two points."""
    start = random_starts(points, generator=generator)
    view = resample(points, count, start=start, padding=padding)
    if points.shape[1] != count:
        return view
    rows, view = torch.arange(len(points), device=points.device), points.clone()
    view[:, 0], view[rows, start] = points[rows, start], points[:, 0]
    return view


def farthest_points_reference(points: Points, count: int, start: Int64[Tensor, " B"]) -> Int64[Tensor, "B m"]:
    """Plain torch version: the one for other devices, and what the compiled one must equal."""
    rows = torch.arange(len(points), device=points.device)
    nearest = torch.full(points.shape[:2], torch.inf, dtype=points.dtype, device=points.device)
    index = torch.empty(len(points), count, dtype=torch.long, device=points.device)
    last = start
    for step in range(count):
        index[:, step] = last
        offset = points - points[rows, last][:, None]
        x, y, z = (offset * offset).unbind(-1)
        nearest = torch.minimum(nearest, x + y + z)
        last = nearest.argmax(dim=1)
    return index


def _on_cpu(points: Points, count: int, start: Int64[Tensor, " B"]) -> Int64[Tensor, "B m"]:
    # Coordinates apart, so that the inner loop reads whole vector registers.
    axes = np.ascontiguousarray(points.numpy().transpose(0, 2, 1))
    index = np.empty((len(axes), count), dtype=np.int64)
    over_clouds(_sample, axes, start.numpy(), index)
    return torch.from_numpy(index)


# nnan, nsz: let the maximum be vectorised. Nothing that reorders or fuses the sum: indices must agree.
@no_type_check
@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def _sample(axes: np.ndarray, starts: np.ndarray, index: np.ndarray) -> None:
    total = axes.shape[2]
    nearest = np.empty(total, dtype=axes.dtype)
    for cloud in range(axes.shape[0]):
        x, y, z = axes[cloud, 0], axes[cloud, 1], axes[cloud, 2]
        nearest[:] = np.inf
        last = starts[cloud]
        for step in range(index.shape[1]):
            index[cloud, step] = last
            px, py, pz = x[last], y[last], z[last]
            farthest = axes.dtype.type(-1)
            for i in range(total):
                dx, dy, dz = x[i] - px, y[i] - py, z[i] - pz
                distance = min(nearest[i], dx * dx + dy * dy + dz * dz)
                nearest[i] = distance
                farthest = max(farthest, distance)
            last = 0
            while last < total - 1 and nearest[last] != farthest:
                last += 1
