"""Distances to the nearest other points, against SciPy's tree."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from purgegate.kernels.nearest import CELL, SMALL, nearest_distances


@pytest.mark.parametrize("total", [6, CELL, CELL + 1, 100, 1024, SMALL])
def test_distances_are_those_of_a_tree_to_the_last_bit(total: int) -> None:
    """Also where a cloud fills no cell, or one and a point."""
    cloud = np.random.default_rng(total).normal(size=(total, 3)).astype(np.float32)
    known = cKDTree(cloud).query(cloud, k=6)[0][:, 1:]
    assert (nearest_distances(cloud, 5) == known).all()


@pytest.mark.parametrize("make", ["line", "grid", "copies", "stray", "tiny", "far"])
def test_awkward_clouds_too(make: str) -> None:
    """Flat ones, ties, copies, one point far off, and numbers near the ends of the scale."""
    rng = np.random.default_rng(1)
    cloud = rng.uniform(-1, 1, (300, 3))
    if make == "line":
        cloud[:, 1:] = 0
    elif make == "grid":
        cloud = np.stack(np.meshgrid(*[np.arange(7.0)] * 3), axis=-1).reshape(-1, 3)
    elif make == "copies":
        cloud[100:200] = cloud[:100]
    elif make == "stray":
        cloud[7] = 1e6
    cloud *= {"tiny": 1e-15, "far": 1e15}.get(make, 1.0)
    cloud = cloud.astype(np.float32)
    known = cKDTree(cloud).query(cloud, k=6)[0][:, 1:]
    assert (nearest_distances(cloud, 5) == known).all()
