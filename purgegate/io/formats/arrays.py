"""Arrays in .npy, .npz and .h5 files, read without running code and without trusting declared sizes."""

import math
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Shaped

from purgegate.io.formats.contents import MOST_PACKED, Contents, check_archive, must_be_likely, must_hold

Array = Shaped[np.ndarray, "..."]

# Names under which the field keeps coordinates, best first.
POINT_NAMES = ("points", "data", "xyz", "pos", "positions", "coords", "vertices", "arr_0")
MAGIC = np.lib.format.MAGIC_PREFIX
BLOCK = 1 << 20  # bytes that are unpacked at a time


def load_npy(path: Path) -> Array:
    """Open the array of an .npy file; a size that the file does not hold is refused, not allocated."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError("it must start as an .npy file does; it is something else")
    return np.lib.format.open_memmap(path, mode="r")


def load_npz(path: Path) -> dict[str, Array]:
    """Read all arrays of an .npz file."""
    with zipfile.ZipFile(path) as archive:
        check_archive(archive)
        return {entry.filename.removesuffix(".npy"): _member(archive, entry) for entry in archive.infolist()}


def load_h5(path: Path, *, names: Collection[str] | None = None) -> dict[str, Array]:
    """Read the top-level arrays of an HDF5 file, or only those named."""
    with h5py.File(path, "r") as file:
        wanted = [name for name in file if names is None or name in names]
        elsewhere = [name for name in wanted if isinstance(file.get(name, getlink=True), h5py.ExternalLink)]
        if elsewhere:
            raise ValueError(f"its array {elsewhere[0]} is a link to another file: copy it into this one")
        arrays = {name: file[name] for name in wanted if isinstance(file[name], h5py.Dataset)}
        stored = sum(array.id.get_storage_size() for array in arrays.values())
        must_be_likely(declared=sum(array.nbytes for array in arrays.values()), packed=stored)
        return {name: _stored(array) for name, array in arrays.items()}


def read_npy(path: Path) -> Contents:
    """Read a cloud from an .npy file."""
    return as_cloud(load_npy(path))


def read_npz(path: Path) -> Contents:
    """Read a cloud from an .npz file."""
    return as_cloud(_coordinates(load_npz(path)))


def read_h5(path: Path) -> Contents:
    """Read a cloud from an HDF5 file."""
    return as_cloud(_coordinates(load_h5(path)))


MOST_COLUMNS = 16  # of a cloud: more beside three rows are points that lie across


def as_cloud(array: Array) -> Contents:
    """Take the first three columns of one cloud as its points."""
    if array.dtype.kind not in "iuf":
        raise ValueError(f"points must be real numbers; got {array.dtype}")
    if array.ndim == 3 and len(array) == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[2] >= 3:
        raise ValueError(f"it holds {len(array)} clouds, not one: read it with load_dataset")
    if array.ndim != 2 or array.shape[1] < 3 or (array.shape[0] == 3 and array.shape[1] > MOST_COLUMNS):
        way_out = ": transpose it" if array.ndim == 2 and array.shape[0] == 3 else ""
        raise ValueError(f"points must have shape (N, 3), or more columns; got {array.shape}{way_out}")
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    return Contents(np.array(array[:, :3], dtype=dtype), extra=array.shape[1] - 3)


def _coordinates(arrays: Mapping[str, Array]) -> Array:
    """Find the array that holds the points: by its name, or because it is the only one."""
    for name in POINT_NAMES:
        if name in arrays:
            return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    held = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
    raise ValueError(f"its points must be named `points`; it holds {held}")


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    with archive.open(entry) as stream:
        return array_of(stream, entry.filename)


def array_of(stream: Any, name: str) -> Array:
    """Read an array in the .npy format; a size that the stream does not hold is refused, not allocated."""
    version = np.lib.format.read_magic(stream)
    # A later version differs only in field names of structured arrays, which are not coordinates.
    read_header = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, columns_first, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError(f"array {name} holds Python objects, not numbers")
    data = bytearray()  # torch warns of arrays that it may not write to
    while part := stream.read(BLOCK):
        data += part
    must_hold("bytes", declared=math.prod(shape) * dtype.itemsize, held=len(data))
    array = np.frombuffer(data, dtype, math.prod(shape))
    return array.reshape(shape, order="F" if columns_first else "C")


def _stored(dataset: h5py.Dataset) -> Array:
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"its array {dataset.name} lies in another file: copy it into this one")
    must_hold("bytes", declared=dataset.nbytes, held=MOST_PACKED * (dataset.id.get_storage_size() + 1))
    return np.asarray(dataset[()])
