"""The registry of file formats, by the ending of a file's name."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from purgegate.io.formats.arrays import read_h5, read_npy, read_npz
from purgegate.io.formats.contents import Contents
from purgegate.io.formats.las import read_las
from purgegate.io.formats.pcd import read_pcd
from purgegate.io.formats.ply import read_ply
from purgegate.io.formats.surfaces import read_gltf, read_obj, read_off, read_stl
from purgegate.io.formats.text import read_text


class Reader(NamedTuple):
    """A function of a path, whose errors need not name it, and whether all its files are meshes."""

    read: Callable[[Path], Contents]
    always_mesh: bool = False


READERS: dict[str, Reader] = {
    ".npy": Reader(read_npy),
    ".npz": Reader(read_npz),
    ".h5": Reader(read_h5),
    ".hdf5": Reader(read_h5),
    ".ply": Reader(read_ply),  # points, or a mesh
    ".pcd": Reader(read_pcd),
    ".off": Reader(read_off, always_mesh=True),
    ".obj": Reader(read_obj, always_mesh=True),
    ".stl": Reader(read_stl, always_mesh=True),
    ".glb": Reader(read_gltf, always_mesh=True),
    ".gltf": Reader(read_gltf, always_mesh=True),
    ".xyz": Reader(read_text),
    ".txt": Reader(read_text),
    ".csv": Reader(read_text),
    ".las": Reader(read_las),
    ".laz": Reader(read_las),
}
