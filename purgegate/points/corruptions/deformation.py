"""Deformation: linear maps, free-form deformation and radial basis functions."""

from collections.abc import Callable
from functools import cache
from math import comb

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from purgegate.points.corruptions.interface import Draws
from purgegate.points.transforms import centre_box, rows_times_matrix, turn_about
from purgegate.typing import Cloud

LATTICE = 5  # control points a side, over the cube [−1, 1]³
RADIUS = 0.5  # of the radial basis functions

Array = Float[np.ndarray, "..."]


def shear(points: Cloud, slope: float, generator: Draws) -> Cloud:
    """Shear by ±U(slope − 0.05, slope + 0.05) in the entries that the published matrix has."""
    # Six are drawn, as in the published script; the first and the last have no place in its matrix.
    _, b, d, e, f, _ = (_signed(slope, 0.05, generator) for _ in range(6))
    return _boxed(rows_times_matrix(points, np.array([[1, 0, b], [d, 1, e], [f, 0, 1]])))


def rotation(points: Cloud, degrees: float, generator: Draws) -> Cloud:
    """Turn by ±U(degrees − 2.5, degrees + 2.5) about each axis."""
    x, y, z = (turn_about(axis, np.radians(_signed(degrees, 2.5, generator))) for axis in range(3))
    return _boxed(rows_times_matrix(points, x @ y @ z))


def distortion(points: Cloud, reach: float, generator: Draws) -> Cloud:
    """Free-form deformation by a Bernstein lattice whose control points move by U(−reach, reach) sides."""
    moves = reach * (2 * generator.uniform(size=(3, LATTICE, LATTICE, LATTICE)) - 1)
    moved = points.astype(np.float64)
    inside = (np.abs(moved) <= 1).all(axis=1)
    moved[inside] += 2 * free_form(moved[inside], moves)
    return _boxed(moved)


def distortion_rbf(points: Cloud, length: float, generator: Draws) -> Cloud:
    """Warp by multiquadrics: control points move by a vector of that length."""
    return _boxed(warp(points, length * _directions(generator), multiquadric))


def distortion_rbf_inv(points: Cloud, length: float, generator: Draws) -> Cloud:
    """Warp by inverse multiquadrics: control points move by a vector of that length."""
    return _boxed(warp(points, length * _directions(generator), inverse_multiquadric))


def free_form(
    points: Float[np.ndarray, "N 3"], moves: Float[np.ndarray, "3 L L L"]
) -> Float[np.ndarray, "N 3"]:
    """Displacement of points of the cube [−1, 1]³ under the moves of a Bernstein lattice."""
    degree = moves.shape[1] - 1
    share = (points[..., None] + 1) / 2
    power = np.arange(degree + 1)
    binomial = np.array([comb(degree, k) for k in power])
    x, y, z = (binomial * share**power * (1 - share) ** (degree - power)).transpose(1, 0, 2)
    # One axis after the other, in plain loops as `times`.
    along_z = np.einsum("nk,dijk->ndij", z, moves)
    return np.einsum("ni,ndi->nd", x, np.einsum("nj,ndij->ndi", y, along_z))


def warp(
    points: Float[np.ndarray, "N 3"], moves: Float[np.ndarray, "P 3"], basis: Callable[[Array], Array]
) -> Float[np.ndarray, "N 3"]:
    """Carry points along the smooth map that moves each control point by its move."""
    weights = np.einsum("qp,pd->qd", _interpolation(basis), _control_points() + moves)
    return np.einsum("nq,qd->nd", _features(points.astype(np.float64), basis), weights)


def invert(matrix: Float[np.ndarray, "Q Q"]) -> Float[np.ndarray, "Q Q"]:
    """Invert a matrix by elimination, without LAPACK: its last bits depend on the number of threads."""
    size = len(matrix)
    rows = np.hstack([matrix, np.eye(size)])
    for column in range(size):
        pivot = column + np.abs(rows[column:, column]).argmax()
        rows[[column, pivot]] = rows[[pivot, column]]
        rows[column] /= rows[column, column]
        others = np.arange(size) != column
        rows[others] -= rows[others, column, None] * rows[column]
    return rows[:, size:]


def multiquadric(squared: Array) -> Array:
    """Radial basis that grows with the distance, of which the square is given."""
    return np.sqrt(RADIUS**2 + squared)


def inverse_multiquadric(squared: Array) -> Array:
    """Radial basis that falls with the distance, of which the square is given."""
    return 1 / multiquadric(squared)


@cache
def _control_points() -> Float[np.ndarray, "P 3"]:
    """Lattice of the published script: y is the slowest axis, then z, then x."""
    side = np.linspace(-1, 1, LATTICE)
    y, z, x = np.meshgrid(side, side, side, indexing="ij")
    return np.stack([x, y, z], axis=-1).reshape(-1, 3)


def _features(points: Float[np.ndarray, "N 3"], basis: Callable[[Array], Array]) -> Float[np.ndarray, "N Q"]:
    """Radial functions of the control points, then 1, x, y, z."""
    radial = basis(cdist(points, _control_points(), "sqeuclidean"))
    return np.concatenate([radial, np.ones((len(points), 1)), points], axis=1)


@cache
def _interpolation(basis: Callable[[Array], Array]) -> Float[np.ndarray, "Q P"]:
    """Matrix from the new places of the control points to the weights of the map."""
    control = _control_points()
    rows = _features(control, basis)
    system = np.zeros((rows.shape[1], rows.shape[1]))
    system[: len(control)] = rows
    system[len(control) :, : len(control)] = rows[:, len(control) :].T
    return invert(system)[:, : len(control)]


def _directions(generator: Draws) -> Float[np.ndarray, "P 3"]:
    """Draw unit vectors by two uniform angles (not uniform on the sphere, as published)."""
    azimuth, polar = (generator.uniform(-np.pi, np.pi, LATTICE**3) for _ in range(2))
    return np.stack(
        [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=-1
    )


def _signed(middle: float, spread: float, generator: Draws) -> float:
    return float(generator.uniform(middle - spread, middle + spread) * generator.choice([-1, 1]))


def _boxed(points: Float[np.ndarray, "N 3"]) -> Cloud:
    return centre_box(points.astype(np.float32))
