"""Depth maps of clouds in the unit ball: what of them hides behind other points, seen from far away."""

from typing import no_type_check

import numpy as np
from numba import njit

CELL = 0.08  # side of a depth map's cells: wider than the spacing of a thousand points on a surface
CELLS = 28  # along a side: those that the unit ball falls on, and one more at each border
HIDDEN = 0.16  # a point that lies so much deeper than its cell's nearest is hidden; slopes are not
AHEAD = 0.03  # a point may lie so much nearer than a surface and still be taken for hidden by it
EMPTY = -4.0


@no_type_check
@njit(nogil=True, cache=True)
def hidden_shares(axes: np.ndarray, cameras: np.ndarray, hidden: np.ndarray) -> None:
    """For clouds (B, 3, N) and cameras (V, 3, 3), right, up and toward, the share of points hidden (B, V)."""
    total = axes.shape[2]
    cell, near = np.empty(total, dtype=np.int32), np.empty(total, dtype=axes.dtype)
    nearest = np.empty(CELLS * CELLS, dtype=axes.dtype)
    for cloud in range(axes.shape[0]):
        for view in range(cameras.shape[0]):
            _look(axes[cloud], cameras[view], cell, near)
            nearest[:] = EMPTY
            for i in range(total):
                nearest[cell[i]] = max(nearest[cell[i]], near[i])
            count = 0
            for i in range(total):
                count += near[i] < nearest[cell[i]] - HIDDEN
            hidden[cloud, view] = count / total


@no_type_check
@njit(nogil=True, cache=True)
def stays_hidden(axes: np.ndarray, others: np.ndarray, cameras: np.ndarray, kept: np.ndarray) -> None:
    """Which other points (B, 3, M) a cloud's surface hides from its own camera; none beside the surface."""
    total, more = axes.shape[2], others.shape[2]
    cell, near = np.empty(max(total, more), dtype=np.int32), np.empty(max(total, more), dtype=axes.dtype)
    nearest = np.empty(CELLS * CELLS, dtype=axes.dtype)
    for cloud in range(axes.shape[0]):
        _look(axes[cloud], cameras[cloud], cell, near)
        nearest[:] = EMPTY
        for i in range(total):
            # Cells round about too: a surface is wider than its outermost points.
            for row in range(-CELLS, CELLS + 1, CELLS):
                for place in range(cell[i] + row - 1, cell[i] + row + 2):
                    nearest[place] = max(nearest[place], near[i])
        _look(others[cloud], cameras[cloud], cell, near)
        for i in range(more):
            kept[cloud, i] = near[i] < nearest[cell[i]] + AHEAD


@no_type_check
@njit(nogil=True, cache=True, fastmath={"contract"})
def _look(axes: np.ndarray, camera: np.ndarray, cell: np.ndarray, near: np.ndarray) -> None:
    """Write the cell of every point in the camera's map, and how near it is."""
    x, y, z = axes
    (a, b, c), (d, e, f), (g, h, i) = camera
    side, border = axes.dtype.type(1 / CELL), axes.dtype.type(1 / CELL + 1)
    for point in range(x.shape[0]):
        across = np.int32((a * x[point] + b * y[point] + c * z[point]) * side + border)
        down = np.int32((d * x[point] + e * y[point] + f * z[point]) * side + border)
        cell[point] = down * np.int32(CELLS) + across
        near[point] = g * x[point] + h * y[point] + i * z[point]
