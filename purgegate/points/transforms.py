"""Placing a cloud in a standard frame."""

import numpy as np
from jaxtyping import Float


def centre_box(points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Move the centre of the bounding box to the origin and scale its longest side to 2."""
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - (low + high) / 2) / (np.max(high - low) / 2 or 1)


def unit_sphere(points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Move the centroid to the origin and scale the farthest point to distance 1."""
    centred = points - points.mean(axis=0)
    return centred / (np.linalg.norm(centred, axis=1).max() or 1)
