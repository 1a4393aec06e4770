"""Sensor: what a depth camera or a lidar at one place sees of an object."""

import numpy as np
from jaxtyping import Float

from purgegate.points.corruptions.camera import Camera, place_camera, visible_points, visible_surface
from purgegate.points.corruptions.interface import Corrupted, Draws
from purgegate.points.transforms import centre_box, swap_up
from purgegate.typing import Cloud, Mesh

RING = np.radians(1)  # width of a lidar's rings
RETURNS = 768  # points of a lidar's scan


def occlusion(points: Cloud, view: int, generator: Draws, *, mesh: Mesh | None = None) -> Cloud:
    """N of the points that a camera at distance 3, above the object, sees."""
    azimuth = _azimuth(view, generator)
    polar = generator.uniform(np.pi * 2 / 3, np.pi * 5 / 6)
    seen = _scan(points, place_camera(azimuth, polar, distance=3.0), generator, mesh=mesh)
    return centre_box(swap_up(seen).astype(np.float32))


def lidar(points: Cloud, view: int, generator: Draws, *, mesh: Mesh | None = None) -> Corrupted:
    """Scan the object by a lidar at distance 5: points in rings of equal elevation."""
    camera = place_camera(_azimuth(view, generator), np.pi * 5 / 8, distance=5.0)
    rings = snap_to_rings(_scan(points, camera, generator, mesh=mesh), camera.position)
    if not len(rings):
        raise ValueError(f"no point of {len(points)} falls on a ring of the lidar: take a denser cloud")
    return swap_up(rings[generator.choice(len(rings), RETURNS)]).astype(np.float32)


def snap_to_rings(points: Float[np.ndarray, "N 3"], eye: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "M 3"]:
    """Move points in the middle half of a ring, as seen from the eye, to its middle; drop the others."""
    x, y, z = (points - eye).T
    away, azimuth = np.sqrt(x * x + y * y + z * z), np.arctan2(y, x)
    polar = np.arccos(z / away)
    ring, place = np.divmod((polar - polar.min()) / RING, 1)
    kept = np.abs(place - 0.5) <= 0.25
    away, azimuth, polar = away[kept], azimuth[kept], polar.min() + (ring[kept] + 0.5) * RING
    flat = away * np.sin(polar)
    return eye + np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), away * np.cos(polar)], axis=-1)


def take(points: Float[np.ndarray, "M 3"], count: int, generator: Draws) -> Float[np.ndarray, "n 3"]:
    """Draw points without replacement, and with replacement what is still missing when all are taken."""
    first = generator.choice(len(points), min(count, len(points)), replace=False)
    return points[np.concatenate([first, generator.choice(len(points), count - len(first))])]


def _azimuth(view: int, generator: Draws) -> float:
    middle, half = 2 * np.pi * view / 5, np.pi / 5
    return generator.uniform(middle - half, middle + half)


def _scan(points: Cloud, camera: Camera, generator: Draws, *, mesh: Mesh | None) -> Float[np.ndarray, "N 3"]:
    """As many visible points as the cloud has; without a mesh, they are points of the cloud."""
    if mesh is None:
        seen = visible_points(centre_box(points.astype(np.float64)), camera)
    else:
        vertices, faces = mesh
        seen = visible_surface((centre_box(vertices.astype(np.float64)), faces), camera)
    if not len(seen):
        raise ValueError("the camera sees no surface: the mesh must have triangles larger than a pixel")
    return take(seen, len(points), generator)
