"""Farthest point sampling: a subset that covers the cloud."""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from purgegate.kernels.farthest import farthest_points_reference, fill_farthest
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
    if points.ndim != 3 or 0 in points.shape or points.shape[2] != 3:
        raise ValueError(f"clouds must have the shape (B, N, 3), with points; got {tuple(points.shape)}")
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


def spread_sample(cloud: Float[np.ndarray, "N 3"], count: int) -> Float64[np.ndarray, "m 3"]:
    """At most `count` points of a file's cloud, well spread, in double precision.

    Exact for clouds of any size: a million points take a tenth of a second, so none is left out before. They
    are chosen in the file's own precision; only the sample is widened, since a sum in float32 over points
    far from the origin is off by whole extents.
    """
    return resample(torch.from_numpy(cloud)[None], min(count, len(cloud)))[0].double().numpy()


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


def _on_cpu(points: Points, count: int, start: Int64[Tensor, " B"]) -> Int64[Tensor, "B m"]:
    index = np.empty((len(points), count), dtype=np.int64)
    over_clouds(fill_farthest, points.numpy(), start.numpy(), index)
    return torch.from_numpy(index)
