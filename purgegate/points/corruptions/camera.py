"""The camera of occlusion and lidar, and what it sees of a mesh or of a cloud."""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Bool, Float
from numba import njit
from scipy.spatial import ConvexHull, QhullError

from purgegate.points.transforms import rows_times_matrix, turn_about
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
        return np.array([0, 0, self.distance]) + rows_times_matrix(points, self.rotation.T)

    def to_world(self, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
        """Camera coordinates as the world has them."""
        return rows_times_matrix(points - [0, 0, self.distance], self.rotation)


def place_camera(azimuth: float, polar: float, *, distance: float) -> Camera:
    """Put a camera on the sphere round the origin, by its pose Rz(azimuth) Rx(polar)."""
    return Camera(rows_times_matrix(turn_about(2, azimuth), turn_about(0, polar)).T, distance)


def visible_surface(mesh: Mesh, camera: Camera) -> Float[np.ndarray, "M 3"]:
    """Points of a mesh that the camera's pixels see, row by row; both sides of a triangle are seen."""
    vertices, faces = mesh
    corners = camera.to_camera(vertices.astype(np.float64))
    image = corners[:, :2] / corners[:, 2:]
    across, down = (
        _pixels(image[:, axis].min(), image[:, axis].max(), size) for axis, size in enumerate((WIDTH, HEIGHT))
    )
    depth = np.full((len(down), len(across)), np.inf)
    _draw(corners[faces], image[faces], across, down, depth)
    row, column = np.nonzero(np.isfinite(depth))
    rays = np.stack([across[column], down[row], np.ones(len(row))], axis=-1)
    return camera.to_world(depth[row, column, None] * rays)


def visible_points(points: Float[np.ndarray, "N 3"], camera: Camera) -> Float[np.ndarray, "M 3"]:
    """Points of a cloud that the camera sees: corners of the convex hull after a spherical flip."""
    seen = camera.to_camera(points)
    away = np.linalg.norm(seen, axis=1, keepdims=True)
    flipped = seen * (2 * FLIP * away.max() / away - 1)
    return points[_on_hull(np.concatenate([flipped, np.zeros((1, 3))]))[:-1]]


def _pixels(low: float, high: float, size: int) -> Float[np.ndarray, " p"]:
    """Middles of the pixels of one image axis that lie between two tangents."""
    middle = (np.arange(size) - (size - 1) / 2) / FOCAL
    return middle[(middle >= low) & (middle <= high)]


@no_type_check
@njit(nogil=True, cache=True)
def _draw(
    triangles: np.ndarray, image: np.ndarray, across: np.ndarray, down: np.ndarray, depth: np.ndarray
) -> None:
    """Write the depth of each pixel's nearest triangle; `image` has the corners (T, 3, 2) at depth 1.

    In double precision and in the order of the formulas, so that every processor gives the same bits: ray
    casters do not, which divide by estimates of the processor's own.
    """
    for t in range(len(triangles)):
        a, b, c = triangles[t]
        (ax, ay), (bx, by), (cx, cy) = image[t]
        normal = np.cross(b - a, c - a)
        away = normal[0] * a[0] + normal[1] * a[1] + normal[2] * a[2]
        nearest, farthest = min(a[2], b[2], c[2]), max(a[2], b[2], c[2])
        left, right = (
            np.searchsorted(across, min(ax, bx, cx)),
            np.searchsorted(across, max(ax, bx, cx), "right"),
        )
        top, bottom = np.searchsorted(down, min(ay, by, cy)), np.searchsorted(down, max(ay, by, cy), "right")
        for row in range(top, bottom):
            y = down[row]
            for column in range(left, right):
                x = across[column]
                first = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
                second = (cx - bx) * (y - by) - (cy - by) * (x - bx)
                third = (ax - cx) * (y - cy) - (ay - cy) * (x - cx)
                inside = min(first, second, third) >= 0 or max(first, second, third) <= 0
                toward = normal[0] * x + normal[1] * y + normal[2]
                if inside and toward != 0:
                    own = min(
                        max(away / toward, nearest), farthest
                    )  # seen from its edge, it could be anything
                    depth[row, column] = min(own, depth[row, column])


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
