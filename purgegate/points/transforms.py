"""Bringing a cloud into a standard frame, and turning it."""

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor


def centre_box(points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Move the centre of the bounding box to the origin and scale its longest side to 2."""
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - (low + high) / 2) / (np.max(high - low) / 2 or 1)


def unit_sphere(points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Move the centroid to the origin and scale the farthest point to distance 1."""
    centred = points - points.mean(axis=0)
    return centred / (np.linalg.norm(centred, axis=1).max() or 1)


def turn_about(axis: int, angle: float) -> Float[np.ndarray, "3 3"]:
    """Matrix that turns column vectors by an angle in radians about x (0), y (1) or z (2)."""
    matrix = np.eye(3)
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[second, first] = np.sin(angle)
    matrix[first, second] = -np.sin(angle)
    return matrix


def rows_times_matrix(
    points: Float[np.ndarray, "N 3"], matrix: Float[np.ndarray, "3 3"]
) -> Float[np.ndarray, "N 3"]:
    """Multiply rows by a matrix, without BLAS: its last bits depend on the number of threads."""
    return np.einsum("ni,ij->nj", points, matrix)


def swap_up(points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Turn a cloud from z up to y up, or back: the half turn that swaps y with z and reverses x."""
    return points[:, [0, 2, 1]] * np.array([-1, 1, 1], dtype=points.dtype)


def turn_by(
    x: Float[Tensor, "B *axes 3"], angle: Float[Tensor, " B"], *, axis: int
) -> Float[Tensor, "B *axes 3"]:
    """Turn each cloud about an axis by an angle of its own, in radians."""
    angle = angle.to(x)
    return _turn(x, angle.cos(), angle.sin(), axis=axis)


def turn_quarters(
    x: Float[Tensor, "B *axes 3"], quarters: Int64[Tensor, " B"], *, axis: int
) -> Float[Tensor, "B *axes 3"]:
    """Turn each cloud about an axis by so many times 90 degrees, exactly: a rounded π/2 has a cosine."""
    cosine, sine = torch.tensor([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]).to(x)[:, quarters]
    return _turn(x, cosine, sine, axis=axis)


def _turn(
    x: Float[Tensor, "B *axes 3"], cosine: Float[Tensor, " B"], sine: Float[Tensor, " B"], *, axis: int
) -> Float[Tensor, "B *axes 3"]:
    cosine, sine = (part.view(-1, *[1] * (x.ndim - 2)) for part in (cosine, sine))
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turned = x.clone()
    turned[..., first] = cosine * x[..., first] - sine * x[..., second]
    turned[..., second] = sine * x[..., first] + cosine * x[..., second]
    return turned
