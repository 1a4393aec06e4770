"""Farthest point sampling: compiled loops for clouds of any size, beside the plain one that they equal.

Distances are never negative, so that their bits, read as integers, have the same order; and the maximum of
integers, unlike that of floats, is vectorised without leave to ignore NaN. Nothing here may reorder or fuse
the sum of squares: indices must agree to the last tie.
"""

from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int64
from numba import njit
from torch import Tensor

from purgegate.typing import Points

BLOCK = 4096  # points updated at once: their coordinates and distances stay in the nearest cache
# From so many points and steps on it pays to sort a cloud into cells first and to leave far cells alone:
# sorting costs as much as 200 to 300 steps over the whole cloud.
LARGE, MANY = 16_384, 256
CELL = 256  # points of a cell
GRID = 1023  # last place along an axis of the cube in which a cloud is sorted: ten bits
LOOK = 1024  # points by which that cube is found


def farthest_points_reference(points: Points, count: int, start: Int64[Tensor, " B"]) -> Int64[Tensor, "B m"]:
    """Plain torch version: the one for other devices, and what the compiled one must equal."""
    rows = torch.arange(len(points), device=points.device)
    nearest = torch.full(points.shape[:2], torch.inf, dtype=points.dtype, device=points.device)
    index = torch.empty(len(points), count, dtype=torch.long, device=points.device)
    last = start
    for step in range(count):
        index[:, step] = last
        offset = points - points[rows, last][:, None]
        x, y, z = (offset * offset).unbind(-1)
        nearest = torch.minimum(nearest, x + y + z)
        last = nearest.argmax(dim=1)
    return index


def fill_farthest(
    points: Float[np.ndarray, "B N 3"], starts: Int64[np.ndarray, " B"], index: Int64[np.ndarray, "B m"]
) -> None:
    """Write the indices of each cloud's sample into `index`, the first index winning a tie."""
    if points.shape[1] < LARGE or index.shape[1] < MANY:
        # Coordinates apart, so that the inner loop reads whole vector registers.
        axes = np.ascontiguousarray(points.transpose(0, 2, 1))
        _sample(axes, starts, index, *_with_bits(points.shape[1], points.dtype))
        return
    for cloud, start, into in zip(points, starts, index, strict=True):
        _sample_large(np.ascontiguousarray(cloud), start, into)


def _sample_large(points: Float[np.ndarray, "N 3"], start: np.int64, into: Int64[np.ndarray, " m"]) -> None:
    """Sort a cloud along a curve into cells, each with its box, so that a step looks only at cells nearby."""
    order = curve_order(points)
    axes = np.empty((3, len(points)), dtype=points.dtype)
    boxes = np.empty((2, 3, -(-len(points) // CELL)), dtype=points.dtype)
    sort_into_cells(points, order, axes, boxes, CELL)
    nearest, most = _with_bits(len(points), points.dtype), _with_bits(boxes.shape[2], points.dtype)
    _sample_cells(axes, order, boxes, np.flatnonzero(order == start)[0], into, *nearest, *most)


def curve_order(points: Float[np.ndarray, "N 3"]) -> Int64[np.ndarray, " N"]:
    """The points of a large cloud along a Z-curve: what lies close together comes close together."""
    keys = np.empty(len(points), dtype=np.int32)
    _curve_keys(points, *_cube(points), keys)
    return np.argsort(keys)


def _cube(points: Float[np.ndarray, "N 3"]) -> tuple[Float[np.ndarray, " 3"], float]:
    """Low corner and places per length of a cube round nearly all points: a stray must not widen it."""
    some = np.sort(points[:: max(1, len(points) // LOOK)], axis=0)
    low, high = some[len(some) // 50], some[-1 - len(some) // 50]
    with np.errstate(invalid="ignore"):  # where numbers are not finite, the cloud stays unsorted
        margin = float((high - low).max()) / 4
    return low - margin, GRID / (6 * margin) if 0 < margin < np.inf else 0.0


def _with_bits(count: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Room for distances, and the same room seen as integers."""
    room = np.empty(count, dtype=dtype)
    return room, room.view(np.dtype(f"i{dtype.itemsize}"))


@no_type_check
@njit(nogil=True, cache=True)
def _sample(
    axes: np.ndarray, starts: np.ndarray, index: np.ndarray, nearest: np.ndarray, bits: np.ndarray
) -> None:
    total = axes.shape[2]
    for cloud in range(axes.shape[0]):
        x, y, z = axes[cloud, 0], axes[cloud, 1], axes[cloud, 2]
        nearest[:] = np.inf
        last = starts[cloud]
        for step in range(index.shape[1]):
            index[cloud, step] = last
            px, py, pz = x[last], y[last], z[last]
            farthest, where = bits.dtype.type(-1), 0
            for low in range(0, total, BLOCK):
                high = min(low + BLOCK, total)
                _update(x[low:high], y[low:high], z[low:high], px, py, pz, nearest[low:high])
                greatest = _greatest(bits[low:high])
                if greatest > farthest:
                    farthest, where = greatest, low
            last = where + _first(bits[where : where + BLOCK], farthest)


@no_type_check
@njit(nogil=True, cache=True)
def _sample_cells(
    axes: np.ndarray,
    order: np.ndarray,
    boxes: np.ndarray,
    start: int,
    index: np.ndarray,
    nearest: np.ndarray,
    bits: np.ndarray,
    most: np.ndarray,
    most_bits: np.ndarray,
) -> None:
    x, y, z = axes[0], axes[1], axes[2]
    gap = np.empty_like(most)
    nearest[:], most[:] = np.inf, np.inf
    last = start
    for step in range(len(index)):
        index[step] = order[last]
        px, py, pz = x[last], y[last], z[last]
        gaps(boxes[0], boxes[1], px, py, pz, gap)
        for cell in range(len(gap)):
            # Rounding keeps order, so no point of the box has a computed distance below the computed gap.
            if gap[cell] < most[cell]:
                low, high = cell * CELL, min(cell * CELL + CELL, len(bits))
                _update(x[low:high], y[low:high], z[low:high], px, py, pz, nearest[low:high])
                most_bits[cell] = _greatest(bits[low:high])
        farthest = _greatest(most_bits)
        if farthest == 0:  # only copies are left: the first point wins all ties
            index[step + 1 :] = 0
            break
        last = _first_of_cells(bits, order, most_bits, farthest)


@no_type_check
@njit(nogil=True, cache=True)
def _update(
    x: np.ndarray, y: np.ndarray, z: np.ndarray, px: float, py: float, pz: float, nearest: np.ndarray
) -> None:
    for i in range(len(nearest)):
        dx, dy, dz = x[i] - px, y[i] - py, z[i] - pz
        distance = dx * dx + dy * dy + dz * dz
        nearest[i] = distance if distance < nearest[i] else nearest[i]


@no_type_check
@njit(nogil=True, cache=True)
def _greatest(bits: np.ndarray) -> int:
    greatest = bits[0]
    for i in range(len(bits)):
        greatest = max(greatest, bits[i])
    return greatest


@no_type_check
@njit(nogil=True, cache=True)
def _first(bits: np.ndarray, wanted: int) -> int:
    # A minimum over all is vectorised, and faster than a search that may stop.
    end = np.int32(len(bits) - 1)
    first = end
    for i in range(len(bits)):
        first = min(first, np.int32(i) if bits[i] == wanted else end)
    return first


@no_type_check
@njit(nogil=True, cache=True)
def _first_of_cells(bits: np.ndarray, order: np.ndarray, most_bits: np.ndarray, farthest: int) -> int:
    """The place of the farthest point, of equally far ones that with the least index before the sorting."""
    last, first = 0, len(bits)
    for cell in range(len(most_bits)):
        if most_bits[cell] == farthest:
            for i in range(cell * CELL, min(cell * CELL + CELL, len(bits))):
                if bits[i] == farthest and order[i] < first:
                    last, first = i, order[i]
    return last


@no_type_check
@njit(nogil=True, cache=True)
def gaps(low: np.ndarray, high: np.ndarray, px: float, py: float, pz: float, gap: np.ndarray) -> None:
    """Squared distance of a point from every box, zero inside, with the sum in the order of `_update`."""
    zero = gap.dtype.type(0)
    lx, ly, lz, hx, hy, hz = low[0], low[1], low[2], high[0], high[1], high[2]
    for i in range(len(gap)):
        dx = max(lx[i] - px, px - hx[i], zero)
        dy = max(ly[i] - py, py - hy[i], zero)
        dz = max(lz[i] - pz, pz - hz[i], zero)
        gap[i] = dx * dx + dy * dy + dz * dz


@no_type_check
@njit(nogil=True, cache=True)
def _curve_keys(points: np.ndarray, low: np.ndarray, scale: float, keys: np.ndarray) -> None:
    """Places along a Z-curve through a cube; what lies outside of it counts to its faces."""
    for i in range(len(points)):
        key = 0
        for axis in range(3):
            place = (points[i, axis] - low[axis]) * scale
            key |= _every_third_bit(GRID if place > GRID else int(place) if place > 0 else 0) << axis
        keys[i] = key


@no_type_check
@njit(nogil=True, cache=True)
def _every_third_bit(number: int) -> int:
    number = (number | (number << 16)) & 0x030000FF
    number = (number | (number << 8)) & 0x0300F00F
    number = (number | (number << 4)) & 0x030C30C3
    return (number | (number << 2)) & 0x09249249


@no_type_check
@njit(nogil=True, cache=True)
def sort_into_cells(
    points: np.ndarray, order: np.ndarray, axes: np.ndarray, boxes: np.ndarray, size: int
) -> None:
    """Coordinates of points in this order, and the box of every so many of them."""
    for i in range(len(order)):
        for axis in range(3):
            axes[axis, i] = points[order[i], axis]
    for cell in range(boxes.shape[2]):
        for axis in range(3):
            own = axes[axis, cell * size : cell * size + size]
            boxes[0, axis, cell], boxes[1, axis, cell] = own.min(), own.max()
