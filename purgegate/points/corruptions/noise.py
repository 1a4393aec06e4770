"""Noise: points that move, and points that come from nowhere."""

from fractions import Fraction

import numpy as np
from jaxtyping import Float

from purgegate.points.corruptions.interface import Corrupted, Draws
from purgegate.points.transforms import centre_box
from purgegate.typing import Cloud


def uniform(points: Cloud, reach: float, generator: Draws) -> Cloud:
    """Move every point by U(−reach, reach) on each axis."""
    return _boxed(points + generator.uniform(-reach, reach, points.shape))


def gaussian(points: Cloud, sigma: float, generator: Draws) -> Cloud:
    """Move every point by sigma · N(0, 1) on each axis, and clip to the cube."""
    noisy = points + generator.normal(size=points.shape) * sigma
    return np.clip(noisy.astype(np.float32), -1, 1)


def background(points: Cloud, divisor: int, generator: Draws) -> Corrupted:
    """Append N // divisor points drawn anywhere in the cube."""
    stray = generator.uniform(-1, 1, (len(points) // divisor, 3))
    return _boxed(np.concatenate([points, stray]))


def impulse(points: Cloud, divisor: int, generator: Draws) -> Cloud:
    """Move N // divisor points by 0.1 up or down on each axis."""
    count = len(points) // divisor
    index = generator.choice(len(points), count, replace=False)
    noisy = points.astype(np.float64)
    noisy[index] += 0.1 * generator.choice([-1, 1], size=(count, 3))
    return _boxed(noisy)


def upsampling(points: Cloud, share: Fraction, generator: Draws) -> Corrupted:
    """Append share · N jittered copies of points; none is copied twice unless the share is above 1."""
    count = int(len(points) * share)
    index = generator.choice(len(points), count, replace=count > len(points))
    copies = points[index] + generator.uniform(-0.05, 0.05, (count, 3))
    return _boxed(np.concatenate([points, copies]))


def _boxed(points: Float[np.ndarray, "N 3"]) -> Cloud:
    return centre_box(points.astype(np.float32))
