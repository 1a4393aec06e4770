"""The 15 corruptions, in the paper's order, each with its strengths by severity."""

import operator
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from purgegate.points.corruptions import deformation, density, noise, sensor
from purgegate.points.corruptions.interface import Corrupted, Draws
from purgegate.typing import Cloud, Mesh

__all__ = ["CORRUPTIONS", "Corrupted", "Corruption", "Draws", "corrupt", "strength_of"]


class Corruption(NamedTuple):
    """A function of (points, strength, generator), and its strengths from severity 1 on."""

    apply: Callable[..., Corrupted]
    strengths: tuple[Any, ...]
    sees_mesh: bool = False  # then it takes a mesh as well, and its strengths are views


LENGTHS = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2)
SHARES = (*(Fraction(1, parts) for parts in (5, 4, 3, 2, 1)), *(Fraction(times) for times in (2, 3, 4)))
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8)
VIEWS = (1, 2, 3, 4, 5)

CORRUPTIONS: dict[str, Corruption] = {
    "uniform": Corruption(noise.uniform, (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08)),  # reach
    "gaussian": Corruption(noise.gaussian, (0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045)),  # sigma
    "background": Corruption(noise.background, (45, 40, 35, 30, 20, 15, 10, 5)),  # points for one stray
    "impulse": Corruption(noise.impulse, (30, 25, 20, 15, 10, 8, 6, 4)),  # points for one that moves
    "upsampling": Corruption(noise.upsampling, SHARES),  # copies for one point
    "distortion_rbf": Corruption(deformation.distortion_rbf, LENGTHS),  # of a control point's move
    "distortion_rbf_inv": Corruption(deformation.distortion_rbf_inv, LENGTHS),  # likewise
    "density": Corruption(density.density, COUNTS),  # thinned neighbourhoods
    "density_inc": Corruption(density.density_inc, COUNTS),  # neighbourhoods kept whole
    "shear": Corruption(deformation.shear, (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)),  # slope
    "rotation": Corruption(deformation.rotation, (2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 25.0, 30.0)),  # degrees
    "cutout": Corruption(density.cutout, (2, 3, 5, 7, 10, 15, 20, 25)),  # holes
    "distortion": Corruption(deformation.distortion, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),  # reach
    "occlusion": Corruption(sensor.occlusion, VIEWS, sees_mesh=True),
    "lidar": Corruption(sensor.lidar, VIEWS, sees_mesh=True),
}


def corrupt(
    points: np.ndarray, name: str, *, severity: SupportsIndex, generator: Draws, mesh: Mesh | None = None
) -> Corrupted:
    """Corrupt a cloud of N points as the published benchmarks do.

    `density_inc` halves its cloud. `occlusion` and `lidar` look at the mesh, or else remove the hidden points
    of the cloud; they take z for up and, as published, give y up. The other corruptions ignore the mesh.
    """
    check_generator(generator)
    strength = strength_of(name, severity)
    kind = CORRUPTIONS[name]
    apply = partial(kind.apply, mesh=_checked_mesh(mesh)) if kind.sees_mesh else kind.apply
    return apply(_checked_points(points), strength, generator)


def check_generator(generator: object) -> None:
    """Refuse a seed where its generator is meant."""
    if not isinstance(generator, Draws):
        raise ValueError(
            f"generator must be a random generator, such as np.random.default_rng(0); got {generator!r:.80}"
        )


def strength_of(name: str, severity: SupportsIndex) -> Any:
    """Strength of a corruption at a severity; for occlusion and lidar, the view."""
    if name not in list(CORRUPTIONS):  # a list: what is no name may have no hash
        raise ValueError(f"a corruption must be one of {', '.join(CORRUPTIONS)}; got {name!r}")
    strengths = CORRUPTIONS[name].strengths
    if not isinstance(severity, SupportsIndex):
        raise ValueError(f"the severity of {name} must be a whole number; got {severity!r}")
    place = operator.index(severity) - 1
    if not 0 <= place < len(strengths):
        raise ValueError(f"the severity of {name} must lie in 1 to {len(strengths)}; got {severity}")
    return strengths[place]


def _checked_points(points: np.ndarray) -> Cloud:
    """Take a cloud as float32, or say what is wrong with it."""
    try:
        cloud = np.array(points, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a cloud must hold numbers of shape (N, 3): {error}") from error
    if cloud.ndim != 2 or cloud.shape[1] != 3 or not len(cloud):
        raise ValueError(f"a cloud must have shape (N, 3) with at least one point; got {cloud.shape}")
    if not np.isfinite(cloud).all():
        raise ValueError("a cloud must have finite coordinates; got NaN or infinity: drop those points first")
    return cloud


def _checked_mesh(mesh: Mesh | None) -> Mesh | None:
    """Say what is wrong with a mesh that a camera is to look at."""
    if mesh is None:
        return None
    vertices, faces = mesh
    if not len(faces):
        raise ValueError(
            "a mesh must have at least one triangle; got none: leave it out to use the points alone"
        )
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise ValueError(
            f"triangles must name vertices 0 to {len(vertices) - 1}; got {faces.min()} to {faces.max()}"
        )
    if not np.isfinite(vertices).all():
        raise ValueError("a mesh must have finite vertices; got NaN or infinity")
    return mesh
