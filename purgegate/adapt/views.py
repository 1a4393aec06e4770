"""Copies of a cloud that look at it differently."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.points.sampling import farthest_points, random_starts
from purgegate.typing import Points


def random_angles(count: int, *, generator: torch.Generator) -> Float[Tensor, " B"]:
    """Angles from all round."""
    return 2 * math.pi * torch.rand(count, generator=generator)


def turn_by(
    x: Float[Tensor, "B *axes 3"], angle: Float[Tensor, " B"], *, axis: int
) -> Float[Tensor, "B *axes 3"]:
    """Each cloud turned about an axis by an angle of its own, in radians."""
    angle = angle.to(x).view(-1, *[1] * (x.ndim - 2))
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turned = x.clone()
    turned[..., first] = angle.cos() * x[..., first] - angle.sin() * x[..., second]
    turned[..., second] = angle.sin() * x[..., first] + angle.cos() * x[..., second]
    return turned


def jitter(points: Points, *, generator: torch.Generator, spread: float = 0.01, most: float = 0.05) -> Points:
    """Each coordinate moved by a little Gaussian noise, by `most` at most."""
    noise = spread * torch.randn(points.shape, generator=generator)
    return points + noise.clamp(-most, most).to(points)


def restart(points: Points, count: int, *, generator: torch.Generator) -> Float[Tensor, "B m 3"]:
    """The `count` farthest points from a random start; clouds that have no more are only reordered."""
    start = random_starts(points, generator=generator)
    index = farthest_points(points, count, start=start) if points.shape[1] > count else _rolled(points, start)
    return points.gather(1, index[..., None].expand(-1, -1, 3))


def _rolled(points: Points, start: Int64[Tensor, " B"]) -> Int64[Tensor, "B N"]:
    """All indices in a circle from the start on."""
    total = points.shape[1]
    return (torch.arange(total, device=points.device) + start[:, None]) % total
