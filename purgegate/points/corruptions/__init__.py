"""The registry of corruptions: the published 15, each with its strengths by severity."""

import hashlib
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from purgegate.points.corruptions import deformation, density, noise, sensor
from purgegate.points.corruptions.interface import Corrupted, Draws
from purgegate.typing import Cloud, Mesh

__all__ = [
    "CORRUPTIONS",
    "Corrupted",
    "Corruption",
    "Draws",
    "corrupt",
    "published",
    "seed_number",
    "strength_of",
]


class Corruption(NamedTuple):
    """A function of (points, strength, generator), its strengths from severity 1 on, and what else is known.

    An entry in CORRUPTIONS is all that a corruption of one's own needs.
    """

    apply: Callable[..., Corrupted]
    strengths: tuple[Any, ...]
    sees_mesh: bool = False  # it takes a mesh as well, wants z up, and gives y up; its strengths are views
    shrinks_by: int = 1  # points that it takes for each one that it gives
    header: str = ""  # in tables; by default its name
    number: int | None = None  # its part of a seed: given to the published 15, made from the name of others


LENGTHS = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2)  # of a control point's move
# Of copies to points.
SHARES = (*(Fraction(1, parts) for parts in (5, 4, 3, 2, 1)), *(Fraction(times) for times in (2, 3, 4)))
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8)  # of neighbourhoods
VIEWS = (1, 2, 3, 4, 5)

# In the paper's order, with the paper's headers. The numbers never change: bytes of benchmarks hang on them.
CORRUPTIONS: dict[str, Corruption] = {
    "uniform": Corruption(
        noise.uniform,
        (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08),  # reach
        header="uni",
        number=0,
    ),
    "gaussian": Corruption(
        noise.gaussian,
        (0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045),  # sigma
        header="gauss",
        number=1,
    ),
    "background": Corruption(
        noise.background,
        (45, 40, 35, 30, 20, 15, 10, 5),  # points for one stray
        header="backg",
        number=2,
    ),
    "impulse": Corruption(
        noise.impulse,
        (30, 25, 20, 15, 10, 8, 6, 4),  # points for one that moves
        header="impul",
        number=3,
    ),
    "upsampling": Corruption(noise.upsampling, SHARES, header="upsam", number=4),
    "distortion_rbf": Corruption(deformation.distortion_rbf, LENGTHS, header="rbf", number=5),
    "distortion_rbf_inv": Corruption(deformation.distortion_rbf_inv, LENGTHS, header="rbf-inv", number=6),
    "density": Corruption(density.density, COUNTS, header="den-dec", number=7),
    "density_inc": Corruption(density.density_inc, COUNTS, shrinks_by=2, header="dens-inc", number=8),
    "shear": Corruption(
        deformation.shear,
        (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4),  # slope
        header="shear",
        number=9,
    ),
    "rotation": Corruption(
        deformation.rotation,
        (2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 25.0, 30.0),  # degrees
        header="rot",
        number=10,
    ),
    "cutout": Corruption(density.cutout, (2, 3, 5, 7, 10, 15, 20, 25), header="cut", number=11),  # holes
    "distortion": Corruption(
        deformation.distortion,
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),  # reach
        header="distort",
        number=12,
    ),
    "occlusion": Corruption(sensor.occlusion, VIEWS, sees_mesh=True, header="oclsion", number=13),
    "lidar": Corruption(sensor.lidar, VIEWS, sees_mesh=True, header="lidar", number=14),
}


def published() -> tuple[str, ...]:
    """Names of the 15 corruptions of the published benchmarks, in the paper's order."""
    numbers = {kind.number: name for name, kind in CORRUPTIONS.items() if kind.number is not None}
    return tuple(numbers[number] for number in sorted(numbers))


def seed_number(name: str) -> int:
    """The corruption's part of a seed, which does not depend on what else is registered."""
    number = CORRUPTIONS[name].number
    if number is not None:
        return number
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


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
    index = operator.index(severity) - 1
    if not 0 <= index < len(strengths):
        raise ValueError(f"the severity of {name} must lie in 1 to {len(strengths)}; got {severity}")
    return strengths[index]


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
