"""The camera of occlusion and lidar, and what it sees of a mesh or of a cloud."""

import importlib.util
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import ConvexHull, QhullError

from purgegate.points.transforms import times, turn_about
from purgegate.typing import Mesh

WIDTH, HEIGHT, FOCAL = 1080, 720, 365  # pixels
FLIP = 30.0  # radius of the spherical flip, in largest distances: right for 96 % of the points of 1,024


class Camera(NamedTuple):
    """A pinhole camera that looks at the origin: x right, y down, z ahead."""

    rotation: Float[np.ndarray, "3 3"]  # from the world to the camera, for column vectors
    distance: float

    @property
    def position(self) -> Float[np.ndarray, " 3"]:
        """Place of the pinhole in the world."""
        return -self.distance * self.rotation[2]

    def to_camera(self, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
        """World coordinates as the camera has them."""
        return np.array([0, 0, self.distance]) + times(points, self.rotation.T)

    def to_world(self, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
        """Camera coordinates as the world has them."""
        return times(points - [0, 0, self.distance], self.rotation)


def place_camera(azimuth: float, polar: float, *, distance: float) -> Camera:
    """Put a camera on the sphere round the origin, by its pose Rz(azimuth) Rx(polar)."""
    return Camera((turn_about(2, azimuth) @ turn_about(0, polar)).T, distance)


def can_cast_rays() -> bool:
    """Say whether there is an embreex for this machine."""
    return importlib.util.find_spec("embreex") is not None


def visible_surface(mesh: Mesh, camera: Camera) -> Float[np.ndarray, "M 3"]:
    """Points of a mesh that the camera's pixels see, by ray casting; both sides of a triangle are seen."""
    vertices, faces = mesh
    corners = camera.to_camera(vertices.astype(np.float64))
    rays = _rays(corners)
    depth = _cast(corners[faces], rays)
    hit = np.isfinite(depth)
    return camera.to_world(depth[hit, None] * rays[hit])


def visible_points(points: Float[np.ndarray, "N 3"], camera: Camera) -> Float[np.ndarray, "M 3"]:
    """Points of a cloud that the camera sees: corners of the convex hull after a spherical flip."""
    seen = camera.to_camera(points)
    away = np.linalg.norm(seen, axis=1, keepdims=True)
    flipped = seen * (2 * FLIP * away.max() / away - 1)
    return points[_on_hull(np.concatenate([flipped, np.zeros((1, 3))]))[:-1]]


def _rays(corners: Float[np.ndarray, "V 3"]) -> Float[np.ndarray, "R 3"]:
    """Rays of depth 1 through the middle of every pixel that could see these corners."""
    image = corners[:, :2] / corners[:, 2:]
    across, down = (
        _pixels(image[:, axis].min(), image[:, axis].max(), size) for axis, size in enumerate((WIDTH, HEIGHT))
    )
    x, y = np.meshgrid(across, down)
    return np.stack([x.ravel(), y.ravel(), np.ones(x.size)], axis=-1)


def _pixels(low: float, high: float, size: int) -> Float[np.ndarray, " p"]:
    """Middles of the pixels of one image axis that lie between two tangents."""
    middle = (np.arange(size) - (size - 1) / 2) / FOCAL
    return middle[(middle >= low) & (middle <= high)]


def _cast(triangles: Float[np.ndarray, "T 3 3"], rays: Float[np.ndarray, "R 3"]) -> Float[np.ndarray, " R"]:
    """Depth of the first triangle that each ray from the origin meets, infinite where there is none."""
    try:
        from embreex.mesh_construction import TriangleMesh
        from embreex.rtcore_scene import EmbreeScene
    except ImportError as error:
        raise ImportError(
            "casting rays at a mesh needs embreex, which this machine has none of; "
            "leave the mesh out to remove hidden points of the cloud instead"
        ) from error
    scene = EmbreeScene()
    TriangleMesh(scene, triangles.astype(np.float32))
    directions = rays.astype(np.float32)
    depth = scene.run(np.zeros_like(directions), directions, query="DISTANCE").astype(np.float64)
    return np.where(depth < 1e30, depth, np.inf)  # embree writes 1e37 for a miss


def _on_hull(points: Float[np.ndarray, "N 3"]) -> Bool[np.ndarray, " N"]:
    """Say which points are corners of the convex hull; of points without a volume, all are."""
    corner = np.ones(len(points), dtype=bool)
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return corner
    corner[:] = False
    corner[hull.vertices] = True
    return corner
