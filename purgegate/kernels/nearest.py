"""Distances to the nearest other points of a cloud, cell by cell: in small clouds faster than by a tree."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit

from purgegate.kernels.farthest import curve_order, gaps, sort_into_cells

CELL = 16  # points of a cell
SMALL = 4096  # points up to which it is faster than SciPy's tree: every point looks at the boxes of all cells


def nearest_distances(cloud: Float[np.ndarray, "N 3"], count: int) -> Float[np.ndarray, "N k"]:
    """Distances of each point to the `count` nearest other ones, nearest first; there must be as many."""
    order = curve_order(cloud)
    axes = np.empty((3, len(cloud)))
    boxes = np.empty((2, 3, -(-len(cloud) // CELL)))
    sort_into_cells(cloud, order, axes, boxes, CELL)
    distance = np.empty((len(cloud), count))
    _search(axes, order, boxes, distance)
    return distance


@no_type_check
@njit(nogil=True, cache=True)
def _search(axes: np.ndarray, order: np.ndarray, boxes: np.ndarray, distance: np.ndarray) -> None:
    x, y, z = axes[0], axes[1], axes[2]
    total, last = len(x), distance.shape[1] - 1
    gap = np.empty(boxes.shape[2])
    for place in range(total):
        best = distance[order[place]]
        best[:] = np.inf
        own = place // CELL
        _take_nearest(x, y, z, place, own * CELL, place, best)
        _take_nearest(x, y, z, place, place + 1, min(own * CELL + CELL, total), best)
        gaps(boxes[0], boxes[1], x[place], y[place], z[place], gap)
        for cell in range(len(gap)):
            # Rounding keeps order, so no point of the box has a computed distance below the computed gap.
            if gap[cell] < best[last] and cell != own:
                _take_nearest(x, y, z, place, cell * CELL, min(cell * CELL + CELL, total), best)
        for rank in range(last + 1):
            best[rank] = np.sqrt(best[rank])


@no_type_check
@njit(nogil=True, cache=True)
def _take_nearest(
    x: np.ndarray, y: np.ndarray, z: np.ndarray, place: int, start: int, end: int, best: np.ndarray
) -> None:
    """Sort the squared distances of a point to those from `start` to `end` into the best so far."""
    px, py, pz = x[place], y[place], z[place]
    last = len(best) - 1
    for i in range(start, end):
        dx, dy, dz = x[i] - px, y[i] - py, z[i] - pz
        squared = dx * dx + dy * dy + dz * dz
        if squared < best[last]:
            slot = last
            while slot > 0 and squared < best[slot - 1]:
                best[slot] = best[slot - 1]
                slot -= 1
            best[slot] = squared
