"""One reader a format: a path in, `Contents` out; what is wrong is a plain error without the path."""

from collections.abc import Callable
from pathlib import Path

from purgegate.io.formats.arrays import read_h5, read_npy, read_npz
from purgegate.io.formats.contents import Contents
from purgegate.io.formats.las import read_las
from purgegate.io.formats.pcd import read_pcd
from purgegate.io.formats.ply import read_ply
from purgegate.io.formats.surfaces import read_gltf, read_obj, read_off, read_stl
from purgegate.io.formats.text import read_text

READERS: dict[str, Callable[[Path], Contents]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".h5": read_h5,
    ".hdf5": read_h5,
    ".ply": read_ply,  # points, or a mesh
    ".pcd": read_pcd,
    ".off": read_off,  # meshes from here ...
    ".obj": read_obj,
    ".stl": read_stl,
    ".glb": read_gltf,
    ".gltf": read_gltf,  # ... to here
    ".xyz": read_text,
    ".txt": read_text,
    ".csv": read_text,
    ".las": read_las,
    ".laz": read_las,
}
