"""Copies of a cloud that look at it differently."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

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
