"""Clouds with labels: the value that a data set is, and the checks that make it one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int64, Integer, Num, Shaped

from purgegate.points.patches import FARTHEST

# Like Mesh, but each of many has its own numbers of vertices and triangles.
Meshes = Sequence[tuple[Float[np.ndarray, "_ 3"], Integer[np.ndarray, "_ 3"]]]

MOST_CLASSES = 1 << 20  # that a set may have without naming them
UNKNOWN = -1  # the label of every cloud in a set without labels, whose classes are empty


class Dataset(NamedTuple):
    """Clouds of equal size with their labels; meshes, where known, in the same order."""

    points: Float32[np.ndarray, "n N 3"]
    label: Int64[np.ndarray, " n"]
    classes: tuple[str, ...]
    meshes: Meshes | None = None


def labelled(
    points: Shaped[np.ndarray, "..."],
    label: Shaped[np.ndarray, "..."] | None,
    *,
    classes: Sequence[str] | None = None,
    meshes: Meshes | None = None,
) -> Dataset:
    """Check that clouds, labels and class names belong together; classes without names get their numbers."""
    points = _checked_points(points)
    if label is None:
        return Dataset(points, np.full(len(points), UNKNOWN, dtype=np.int64), (), meshes)
    label = _checked_label(label, len(points))
    if classes is None:
        unlabelled = (label == UNKNOWN).all()
        if label.max() >= MOST_CLASSES:
            raise ValueError(f"labels must be less than {MOST_CLASSES:,}, or have names; got {label.max()}")
        classes = [] if unlabelled else [str(index) for index in range(label.max() + 1)]
    least, most = (0, len(classes) - 1) if len(classes) else (UNKNOWN, UNKNOWN)
    if label.min() < least or label.max() > most:
        raise ValueError(f"labels must lie in [{least}, {most}]; got {label.min()} to {label.max()}")
    if meshes is not None and len(meshes) != len(points):
        raise ValueError(f"there must be one mesh a cloud; got {len(meshes)} for {len(points)}")
    return Dataset(points, label, tuple(str(name) for name in classes), meshes)


def _checked_points(points: Shaped[np.ndarray, "..."]) -> Float32[np.ndarray, "n N 3"]:
    if points.dtype.kind not in "iuf":
        raise ValueError(f"points must be real numbers; got {points.dtype}")
    if points.ndim != 3 or points.shape[2] < 3 or 0 in points.shape:
        raise ValueError(f"points must have shape (n, N, 3), n and N at least 1; got {points.shape}")
    # What float32 cannot hold becomes infinite, and is counted with the rest.
    with np.errstate(over="ignore"):
        points = np.ascontiguousarray(points[..., :3], dtype=np.float32)
    finite = np.abs(points) <= FARTHEST
    if not finite.all():
        bad = int((~finite).any(axis=(1, 2)).sum())
        raise ValueError(
            f"all coordinates must be finite; {bad} of {len(points)} clouds have NaN, infinite or far too "
            "large ones: repair or remove those clouds"
        )
    return points


def _checked_label(label: Shaped[np.ndarray, "..."], clouds: int) -> Int64[np.ndarray, " n"]:
    if label.dtype.kind not in "iuf":
        raise ValueError(f"labels must be whole numbers; got {label.dtype}")
    if label.size != clouds or label.ndim not in (1, 2):
        raise ValueError(f"there must be one label a cloud; got shape {label.shape} for {clouds} clouds")
    return _whole(label.reshape(clouds))


def _whole(label: Num[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    if label.dtype.kind == "f" and not (np.isfinite(label) & (label == np.round(label))).all():
        raise ValueError("labels must be whole numbers; got fractions or NaN")
    return label.astype(np.int64)
