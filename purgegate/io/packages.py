"""Data sets in one file: .npz, .h5 and .npy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Shaped

from purgegate.io.clouds import reading
from purgegate.io.formats.arrays import load_h5, load_npy, load_npz
from purgegate.io.labelled import Dataset, labelled
from purgegate.io.meshes import PackedMeshes

Arrays = dict[str, Shaped[np.ndarray, "..."]]

SPLITS = ("train", "test")  # 0 and 1 in the `split` of an .npz
DELTA_GRID = 1024  # packed points are differences, in steps of 1 / DELTA_GRID


def load_package(path: Path, *, split: str, classes: Sequence[str] | None = None) -> Dataset | None:
    """Read a data set from a file of many clouds, or None from a file of one."""
    if path.suffix.lower() not in PACKAGES:
        return None
    with reading(path):
        arrays = PACKAGES[path.suffix.lower()](path)
        points = arrays.get("points", arrays.get("data"))
        if "delta" in arrays:
            points = unpack_delta(arrays["delta"])
        if points is None or points.ndim == 2:
            return None
        if "classes" in arrays:
            classes = [_text(name) for name in arrays["classes"]]
        whole = labelled(points, arrays.get("label"), classes=classes, meshes=_meshes(path, arrays))
        return _part(whole, arrays["split"], split) if "split" in arrays else whole


def unpack_delta(delta: Shaped[np.ndarray, "..."]) -> Float32[np.ndarray, "n N 3"]:
    """Undo the packing of points as differences along a curve, on a grid."""
    if delta.ndim != 3 or delta.shape[1] != 3 or delta.dtype.kind != "i":
        raise ValueError(f"`delta` must be whole numbers of shape (n, 3, N); got {delta.dtype} {delta.shape}")
    steps = np.cumsum(delta, axis=2, dtype=np.int16)
    return steps.transpose(0, 2, 1) / np.float32(DELTA_GRID)


def _part(data: Dataset, parts: Shaped[np.ndarray, "..."], split: str) -> Dataset:
    """Keep the clouds of one split."""
    if parts.shape != data.label.shape:
        raise ValueError(
            f"`split` must be one number a cloud; got {parts.shape} for {len(data.label)} clouds"
        )
    index = np.flatnonzero(parts == SPLITS.index(split))
    if len(index) == 0:
        raise ValueError(f"it holds no clouds of the split {split!r}")
    meshes = data.meshes.take(index) if isinstance(data.meshes, PackedMeshes) else None
    return Dataset(data.points[index], data.label[index], data.classes, meshes)


def _meshes(path: Path, arrays: Arrays) -> PackedMeshes | None:
    """Find the meshes in `<name>_meshes.npz` beside `<name>.npz`; names, where given, must agree."""
    beside = path.with_name(f"{path.stem}_meshes.npz")
    if not beside.is_file():
        return None
    meshes = PackedMeshes.load(beside)
    if "name" in arrays and meshes.names is not None and not np.array_equal(arrays["name"], meshes.names):
        raise ValueError(f"the meshes in {beside} must have the same names in the same order")
    return meshes


def _npz(path: Path) -> Arrays:
    return load_npz(path)


def _h5(path: Path) -> Arrays:
    return load_h5(path, names=("points", "data", "label", "classes"))


def _npy(path: Path) -> Arrays:
    """Read clouds, with the labels in `label.npy` beside them if there are any."""
    beside = path.with_name("label.npy")
    label = {"label": load_npy(beside)} if beside.is_file() else {}
    return {"points": load_npy(path), **label}


def _text(name: bytes | str | np.str_ | np.bytes_) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


PACKAGES = {".npz": _npz, ".h5": _h5, ".hdf5": _h5, ".npy": _npy}
