"""Copies of a cloud that look at it differently."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.typing import Points


def random_angles(count: int, *, generator: torch.Generator) -> Float[Tensor, " B"]:
    """Angles from all round."""
    return 2 * math.pi * torch.rand(count, generator=generator)


def jitter(points: Points, *, generator: torch.Generator, spread: float = 0.01, most: float = 0.05) -> Points:
    """Each coordinate moved by a little Gaussian noise, by `most` at most."""
    noise = spread * torch.randn(points.shape, generator=generator)
    return points + noise.clamp(-most, most).to(points)
