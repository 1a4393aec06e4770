"""Stray points: single ones that lie apart from the surface, as false echoes of a sensor do."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from scipy.spatial import cKDTree
from torch import Tensor

from purgegate.kernels.farthest import LARGE, curve_order
from purgegate.kernels.nearest import SMALL, nearest_distances
from purgegate.kernels.parallel import over_clouds
from purgegate.points.sampling import take
from purgegate.typing import Points

NEIGHBOURS = 5
SPARSE = 0.9  # quantile of the spacing that counts as that of a cloud's sparse parts

# A cloud is purged only if some of its points lie so far apart that a scan with gaps has hardly any such, and
# then of those less far apart too. Chosen on the even half of the ModelNet40-C shapes (docs/beyond.md).
FAR, SHARE = 2.0, 0.004
APART = 1.2
LONE = 20.0  # no object has a point so far from all others: a single one is enough


def strays(points: Points) -> Bool[Tensor, "B N"]:
    """Which points are stray: all that lie apart in clouds with enough of them to be sure, and lone ones."""
    apart = isolation(points)
    certain = (apart > FAR).float().mean(dim=1, keepdim=True) > SHARE
    return ((apart > APART) & certain) | (apart > LONE)


def isolation(points: Points) -> Float[Tensor, "B N"]:
    """Distance of each point to the nearest other one, in units of the spacing where its cloud is sparse.

    Spacing is the mean distance to five neighbours. Copies of a point count as one; a cloud of no more than
    five different points has no spacing, and none of its points is apart.
    """
    clouds = points.detach().cpu().numpy()
    apart = np.zeros(clouds.shape[:2], dtype=np.float32)
    over_clouds(_measure, clouds, apart)
    return torch.from_numpy(apart).to(points)


def replace_strays(points: Points, stray: Bool[Tensor, "B N"]) -> Points:
    """Each cloud with copies of its other points in place of the strays."""
    order = stray.to(torch.uint8).argsort(dim=1, stable=True)  # the others first, as they came
    kept = (~stray).sum(dim=1, keepdim=True).clamp(min=1)
    places = torch.arange(points.shape[1], device=points.device) % kept
    return take(points, order.gather(1, places))


def _measure(clouds: Float[np.ndarray, "B N 3"], apart: Float[np.ndarray, "B N"]) -> None:
    for cloud, out in zip(clouds, apart, strict=True):
        distance = _to_neighbours(cloud)
        if (distance[:, 0] > 0).all():
            out[:] = _in_spacings(distance)
        else:
            distinct, place = _distinct(cloud)
            out[:] = _in_spacings(_to_neighbours(distinct))[place]


def _to_neighbours(cloud: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N k"]:
    """Distances to the nearest other points, nearest first; zero where there are too few."""
    if len(cloud) <= NEIGHBOURS:
        return np.zeros((len(cloud), NEIGHBOURS))
    if len(cloud) <= SMALL:
        return nearest_distances(cloud, NEIGHBOURS)
    if len(cloud) < LARGE:
        return cKDTree(cloud).query(cloud, k=NEIGHBOURS + 1)[0][:, 1:]
    order = curve_order(cloud)
    near, distance = cloud[order], np.empty((len(cloud), NEIGHBOURS))
    # Points of one place after another keep to the caches: the time of a million grows as their number.
    tree = cKDTree(near, balanced_tree=False, compact_nodes=False)
    distance[order] = tree.query(near, k=NEIGHBOURS + 1)[0][:, 1:]
    return distance


def _distinct(
    cloud: Float[np.ndarray, "N 3"],
) -> tuple[Float[np.ndarray, "M 3"], Int64[np.ndarray, " N"]]:
    """The different points of a cloud, and which of them each point is, faster than by `np.unique`."""
    order = np.lexsort(cloud.T)
    along = cloud[order]
    new = np.append(True, (along[1:] != along[:-1]).any(axis=1))
    place = np.empty(len(cloud), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return along[new], place


def _in_spacings(distance: Float[np.ndarray, "N k"]) -> Float[np.ndarray, " N"]:
    spacing = np.quantile(distance.mean(axis=1), SPARSE)
    return distance[:, 0] / max(spacing, np.finfo(np.float32).tiny)
