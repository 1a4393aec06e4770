"""From a file's cloud to what a model sees: a spread sample, upright, in the unit sphere."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.points.sampling import resample, spread_sample
from purgegate.points.transforms import swap_up, unit_sphere

UPS = ("z", "y")  # axes that may point up in a cloud; models know z


def prepare(cloud: Any, model: Any, *, up: str = "z") -> Float[Tensor, "1 N 3"]:
    """A cloud (N, 3) of any size, place and scale in the model's frame, ready for any method.

    At most as many points as the model takes, each far from the others; `up` turned to z; the centroid at
    the origin and the farthest point at distance 1. Small clouds repeat their points.
    """
    if up not in UPS:
        raise ValueError(f"up must be one of {', '.join(UPS)}; got {up!r}")
    points, least = getattr(model, "points", 1024), getattr(model, "group_size", 1)
    spread = spread_sample(_checked(cloud), points)
    if _distinct(spread[: 2 * least]) < least and (distinct := _distinct(spread)) < least:
        raise ValueError(f"a cloud needs at least {least} distinct points; got {distinct}")
    framed = unit_sphere(swap_up(spread) if up == "y" else spread)
    if least > 1 and np.linalg.matrix_rank(framed, tol=1e-6 * np.ptp(framed)) < 2:
        raise ValueError("all points of the cloud lie on a line: there is no object to recognise")
    return resample(torch.from_numpy(framed).float()[None], points)


def _distinct(points: Float[np.ndarray, "N 3"]) -> int:
    return len(np.unique(points, axis=0))


def _checked(cloud: Any) -> Float[np.ndarray, "N 3"]:
    array = np.asarray(cloud.detach().cpu() if isinstance(cloud, Tensor) else cloud)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "fiu" or not len(array):
        raise ValueError(f"a cloud must be numbers of shape (N, 3); got {array.dtype} {array.shape}")
    points = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    if not np.isfinite(points).all():
        bad = int((~np.isfinite(points)).any(axis=1).sum())
        raise ValueError(f"coordinates must be finite; {bad} of {len(points)} points are not: remove these")
    return np.require(points, requirements=["C", "W"])  # torch warns of what it may not write to
