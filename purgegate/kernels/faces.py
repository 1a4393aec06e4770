"""Faces of clouds: which way their surfaces look, and the turn and the frame that set them along the axes."""

from typing import no_type_check

import numpy as np
from numba import njit

NEIGHBOURS = 16  # of which a surface direction is taken
BLOCK = 32  # points looked at before the search for neighbours may stop
STEPS, DAMPING, STILL = (
    30,
    0.01,
    1e-4,
)  # of the turn: at most so many, each so sluggish, until it moves so little
FRAME_STEPS, HOLD = 5, 0.05  # of the frame: so many, each row held to the turn's by this share of the weight
UPRIGHT = 0.5  # least volume of a frame: two rows on one face would flatten the cloud, so the turn stands


@no_type_check
@njit(nogil=True, cache=True)
def measure_normals(axes: np.ndarray, keys: np.ndarray, normals: np.ndarray, weights: np.ndarray) -> None:
    """Normals at evenly spaced points of clouds (B, 3, N) that are sorted by their keys (B, N)."""
    total, count = axes.shape[2], normals.shape[1]
    wanted = min(NEIGHBOURS, total)
    nearest, best = np.empty(wanted, dtype=np.int64), np.empty(wanted, dtype=axes.dtype)
    for cloud in range(axes.shape[0]):
        for row in range(count):
            _search(axes[cloud], keys[cloud], row * total // count, nearest, best)
            weights[cloud, row] = _flatness(axes[cloud], nearest, normals[cloud, row])


@no_type_check
@njit(nogil=True, cache=True)
def _search(axes: np.ndarray, keys: np.ndarray, place: int, nearest: np.ndarray, best: np.ndarray) -> None:
    """Find the points nearest to that at `place`, itself among them.

    A key is the coordinate along some unit direction, so two points lie at least as far apart as their keys:
    the search goes outwards on both sides by blocks, until the next key alone is too far.
    """
    total, last = len(keys), len(nearest) - 1
    best[:], nearest[:] = np.inf, place  # distances that are no numbers find no neighbour
    low, high = place, place
    below, above = True, True
    while below or above:
        if above:
            end = min(high + BLOCK, total)
            _take_nearest(axes, place, high, end, nearest, best)
            high = end
        if below:
            start = max(low - BLOCK, 0)
            _take_nearest(axes, place, start, low, nearest, best)
            low = start
        above = high < total and (keys[high] - keys[place]) ** 2 < best[last]
        below = low > 0 and (keys[place] - keys[low - 1]) ** 2 < best[last]


@no_type_check
@njit(nogil=True, cache=True)
def _take_nearest(
    axes: np.ndarray, place: int, start: int, end: int, nearest: np.ndarray, best: np.ndarray
) -> None:
    x, y, z = axes
    px, py, pz = x[place], y[place], z[place]
    last = len(nearest) - 1
    for i in range(start, end):
        dx, dy, dz = x[i] - px, y[i] - py, z[i] - pz
        distance = dx * dx + dy * dy + dz * dz
        if distance < best[last]:
            slot = last
            while slot > 0 and distance < best[slot - 1]:
                best[slot], nearest[slot] = best[slot - 1], nearest[slot - 1]
                slot -= 1
            best[slot], nearest[slot] = distance, i


@no_type_check
@njit(nogil=True, cache=True)
def _flatness(axes: np.ndarray, nearest: np.ndarray, normal: np.ndarray) -> float:
    """Write the direction in which these points spread least; 1 where they are flat, 0 where not at all."""
    x, y, z = axes
    count = len(nearest)
    cx, cy, cz = 0.0, 0.0, 0.0
    for i in nearest:
        cx += x[i] / count
        cy += y[i] / count
        cz += z[i] / count
    xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in nearest:
        dx, dy, dz = x[i] - cx, y[i] - cy, z[i] - cz
        xx += dx * dx
        yy += dy * dy
        zz += dz * dz
        xy += dx * dy
        xz += dx * dz
        yz += dy * dz
    least, middle, greatest = _eigenvalues(xx, yy, zz, xy, xz, yz)
    if middle <= 1e-6 * greatest:  # a line or a point has no face
        normal[:] = 0
        return 0.0
    _eigenvector(xx, yy, zz, xy, xz, yz, least, normal)
    return (1 - max(least, 0.0) / middle) ** 2


@no_type_check
@njit(nogil=True, cache=True)
def align(normals: np.ndarray, weights: np.ndarray, turns: np.ndarray, frames: np.ndarray) -> None:
    """For each cloud's weighted normals the turn, and from it the frame, that set most along the axes."""
    for cloud in range(normals.shape[0]):
        _turn(normals[cloud], weights[cloud], turns[cloud])
        _frame(normals[cloud], weights[cloud], turns[cloud], frames[cloud])


@no_type_check
@njit(nogil=True, cache=True)
def _turn(normals: np.ndarray, weights: np.ndarray, turn: np.ndarray) -> None:
    turn[:] = np.eye(3)
    total = weights.sum()
    if total == 0:
        return
    pull = np.empty((3, 3))
    for _ in range(STEPS):
        # A share of the present turn, so that one that no face decides stays as it is.
        pull[:] = DAMPING * total * turn
        for i in range(len(normals)):
            n, w = normals[i], weights[i]
            for row in range(3):
                along = turn[row, 0] * n[0] + turn[row, 1] * n[1] + turn[row, 2] * n[2]
                cubed = w * along * along * along
                for column in range(3):
                    pull[row, column] += cubed * n[column]
        if not _polar(pull):
            break
        moved = np.abs(pull - turn).max()
        turn[:] = pull
        if moved < STILL:
            break


@no_type_check
@njit(nogil=True, cache=True)
def _polar(a: np.ndarray) -> bool:
    """Write the turn in a matrix in its place, by Newton's iteration; False where it mirrors or flattens."""
    inverse = np.empty((3, 3))
    for _ in range(20):
        for row in range(3):
            p, q = (row + 1) % 3, (row + 2) % 3
            for column in range(3):
                r, s = (column + 1) % 3, (column + 2) % 3
                inverse[row, column] = a[p, r] * a[q, s] - a[p, s] * a[q, r]  # cofactors
        determinant = a[0, 0] * inverse[0, 0] + a[0, 1] * inverse[0, 1] + a[0, 2] * inverse[0, 2]
        if determinant <= 0:
            return False
        # Scaled to determinant one, which shortens the way when the matrix is nearly singular.
        scale = determinant ** (-1 / 3)
        moved = 0.0
        for row in range(3):
            for column in range(3):
                new = (a[row, column] * scale + inverse[row, column] / (determinant * scale)) / 2
                moved = max(moved, abs(new - a[row, column]))
                a[row, column] = new
        if moved < 1e-12:
            break
    return True


@no_type_check
@njit(nogil=True, cache=True)
def _frame(normals: np.ndarray, weights: np.ndarray, turn: np.ndarray, frame: np.ndarray) -> None:
    frame[:] = turn
    hold = HOLD * weights.sum()
    if hold == 0:
        return
    found = np.empty(3)
    for row in range(3):
        own, fixed = frame[row], turn[row]
        for _ in range(FRAME_STEPS):
            xx, yy, zz = (hold * fixed[0] * fixed[0], hold * fixed[1] * fixed[1], hold * fixed[2] * fixed[2])
            xy, xz, yz = (hold * fixed[0] * fixed[1], hold * fixed[0] * fixed[2], hold * fixed[1] * fixed[2])
            for i in range(len(normals)):
                n = normals[i]
                along = own[0] * n[0] + own[1] * n[1] + own[2] * n[2]
                w = weights[i] * (along * along) ** 4
                xx += w * n[0] * n[0]
                yy += w * n[1] * n[1]
                zz += w * n[2] * n[2]
                xy += w * n[0] * n[1]
                xz += w * n[0] * n[2]
                yz += w * n[1] * n[2]
            _eigenvector(xx, yy, zz, xy, xz, yz, _eigenvalues(xx, yy, zz, xy, xz, yz)[2], found)
            sign = 1.0 if found[0] * fixed[0] + found[1] * fixed[1] + found[2] * fixed[2] >= 0 else -1.0
            own[:] = sign * found
    volume = np.dot(frame[0], np.cross(frame[1], frame[2]))
    if volume < UPRIGHT:
        frame[:] = turn


@no_type_check
@njit(nogil=True, cache=True)
def _eigenvalues(
    xx: float, yy: float, zz: float, xy: float, xz: float, yz: float
) -> tuple[float, float, float]:
    """Of a symmetric matrix, least first, by the roots of its characteristic polynomial."""
    mean = (xx + yy + zz) / 3
    a, b, c = xx - mean, yy - mean, zz - mean
    spread = np.sqrt((a * a + b * b + c * c + 2 * (xy * xy + xz * xz + yz * yz)) / 6)
    if spread == 0:
        return mean, mean, mean
    determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
    angle = np.arccos(min(1.0, max(-1.0, determinant / (2 * spread**3)))) / 3
    greatest = mean + 2 * spread * np.cos(angle)
    least = mean + 2 * spread * np.cos(angle + 2 * np.pi / 3)
    return least, 3 * mean - greatest - least, greatest


@no_type_check
@njit(nogil=True, cache=True)
def _eigenvector(
    xx: float, yy: float, zz: float, xy: float, xz: float, yz: float, value: float, vector: np.ndarray
) -> None:
    """The unit vector to an eigenvalue that stands alone; some unit vector where none does."""
    a, b, c = xx - value, yy - value, zz - value
    # The rows are orthogonal to it: the longest cross product of two of them.
    longest = 0.0
    vector[0], vector[1], vector[2] = 0.0, 0.0, 1.0
    for x, y, z in (
        (xy * yz - xz * b, xz * xy - a * yz, a * b - xy * xy),
        (xy * c - xz * yz, xz * xz - a * c, a * yz - xy * xz),
        (b * c - yz * yz, yz * xz - xy * c, xy * yz - b * xz),
    ):
        length = np.sqrt(x * x + y * y + z * z)
        if length > longest:
            longest = length
            vector[0], vector[1], vector[2] = x / length, y / length, z / length
