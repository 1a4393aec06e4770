"""Random decisions about an object."""

import numpy as np


def chance(rng: np.random.Generator, probability: float) -> bool:
    """Whether something of this probability happens."""
    return bool(rng.random() < probability)


def pick(rng: np.random.Generator, **weights: float) -> str:
    """One of the named options, in proportion to their weights."""
    bounds = np.cumsum(list(weights.values()))
    return list(weights)[int(np.searchsorted(bounds, rng.random() * bounds[-1], side="right"))]


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """Whole number from low to high, both included."""
    return int(rng.integers(low, high + 1))
