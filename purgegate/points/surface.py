"""Drawing points on the surface of a triangle mesh."""

import numpy as np
from jaxtyping import Float

from purgegate.typing import Cloud, Mesh


def triangle_areas(mesh: Mesh) -> Float[np.ndarray, " T"]:
    """Area of each triangle, in double precision."""
    a, b, c = _corners(mesh)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


def sample_surface(mesh: Mesh, count: int, generator: np.random.Generator) -> Cloud:
    """Draw points uniformly by area on a mesh."""
    if count < 1:
        raise ValueError(f"at least one point must be drawn from a mesh; got count {count}")
    _check(mesh)
    cumulative = np.cumsum(triangle_areas(mesh))
    if not (cumulative[-1] > 0 and np.isfinite(cumulative[-1])):
        raise ValueError(
            f"a mesh needs a positive, finite area to be sampled; its {len(mesh[1])} triangles cover "
            f"{cumulative[-1]}: use its vertices as points instead"
        )
    pick, along, across = generator.random((3, count))
    # side="right" skips triangles without area; the minimum is for a draw that rounds up to the whole area.
    chosen = np.searchsorted(cumulative, pick * cumulative[-1], side="right")
    chosen = np.minimum(chosen, np.searchsorted(cumulative, cumulative[-1]))
    a, b, c = _corners((mesh[0], mesh[1][chosen]))
    # The square root spreads draws evenly over a triangle, which widens with the distance from a.
    along, across = np.sqrt(along)[:, None], across[:, None]
    return (a + along * ((b - a) + across * (c - b))).astype(np.float32)


def _corners(mesh: Mesh) -> tuple[Float[np.ndarray, "T 3"], ...]:
    vertices, faces = mesh
    return tuple(vertices[faces[:, corner]].astype(np.float64) for corner in range(3))


def _check(mesh: Mesh) -> None:
    """Say what is wrong with a mesh that cannot be sampled."""
    vertices, faces = mesh
    if len(faces) == 0:
        raise ValueError("a mesh needs triangles to be sampled; got none: use its vertices as points instead")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise ValueError(
            f"triangles must point at the mesh's {len(vertices)} vertices; "
            f"got indices from {faces.min()} to {faces.max()}"
        )
    if not np.isfinite(vertices[faces]).all():
        raise ValueError(
            "the vertices of a mesh must be finite to be sampled; got NaN or infinity: drop them first"
        )
