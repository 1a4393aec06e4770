"""The meshes of a data set: many packed in one file, or one a file, read when they are asked for.

Each has its bounding box centred and fits the unit sphere, whatever its file says: the cameras that look at
meshes stand at fixed distances.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
from jaxtyping import Float32, Int, Integer, Num, Shaped

from purgegate.io.clouds import read_mesh, reading
from purgegate.io.formats.arrays import load_npz
from purgegate.typing import Mesh, StrPath

ARRAYS = ("vertices", "faces", "vertex_offsets", "face_offsets")


class PackedMeshes(Sequence[Mesh]):
    """Meshes kept end to end in arrays of numbers of any scale; each is unpacked when it is asked for."""

    def __init__(self, arrays: "_Arrays", order: Int[np.ndarray, " n"] | None = None) -> None:
        self._arrays = arrays
        self._order = np.arange(len(arrays.vertex_offsets) - 1) if order is None else order

    @classmethod
    def load(cls, path: StrPath) -> "PackedMeshes":
        """Read an .npz of `vertices`, `faces`, `vertex_offsets` and `face_offsets`."""
        with reading(path):
            held = load_npz(Path(path))
            missing = [name for name in ARRAYS if name not in held]
            if missing:
                raise ValueError(
                    f"packed meshes must have {', '.join(ARRAYS)}; it lacks {', '.join(missing)}"
                )
            vertices, faces, *offsets = (held[name] for name in ARRAYS)
            arrays = _Arrays(vertices, faces, offsets[0], offsets[1], held.get("name"))
            _check(arrays)
        return cls(arrays)

    @property
    def names(self) -> Shaped[np.ndarray, " n"] | None:
        """What the file calls its meshes, if it tells."""
        return None if self._arrays.name is None else self._arrays.name[self._order]

    def take(self, index: Int[np.ndarray, " n"]) -> "PackedMeshes":
        """Keep the meshes at these places, in this order; nothing is copied."""
        return PackedMeshes(self._arrays, self._order[index])

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Mesh: ...
    @overload
    def __getitem__(self, index: slice) -> "PackedMeshes": ...
    def __getitem__(self, index: int | slice) -> "Mesh | PackedMeshes":
        if isinstance(index, slice):
            return PackedMeshes(self._arrays, self._order[index])
        i = self._order[index]
        vertices, faces, vertex_offsets, face_offsets, _ = self._arrays
        own_vertices = vertices[vertex_offsets[i] : vertex_offsets[i + 1]]
        own_faces = faces[face_offsets[i] : face_offsets[i + 1]]
        return _standard(own_vertices.astype(np.float32)), own_faces.astype(np.int64)


class MeshFiles(Sequence[Mesh]):
    """Mesh files, each read when it is asked for."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> Mesh: ...
    @overload
    def __getitem__(self, index: slice) -> "MeshFiles": ...
    def __getitem__(self, index: int | slice) -> "Mesh | MeshFiles":
        if isinstance(index, slice):
            return MeshFiles(self._paths[index])
        vertices, faces = read_mesh(self._paths[index])
        return _standard(vertices), faces


class _Arrays(NamedTuple):
    """The arrays of a file of packed meshes: mesh i is `[offsets[i] : offsets[i + 1]]` of each."""

    vertices: Num[np.ndarray, "V 3"]
    faces: Integer[np.ndarray, "T 3"]
    vertex_offsets: Int[np.ndarray, " m"]
    face_offsets: Int[np.ndarray, " m"]
    name: Shaped[np.ndarray, " n"] | None = None


def _check(arrays: _Arrays) -> None:
    """Say what is wrong with packed arrays."""
    for rows, offsets in ((arrays.vertices, arrays.vertex_offsets), (arrays.faces, arrays.face_offsets)):
        if rows.ndim != 2 or rows.shape[1] != 3:
            raise ValueError(f"vertices and faces must have three columns; got shape {rows.shape}")
        if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(rows):
            raise ValueError(f"offsets must run from 0 to {len(rows)}, the number of rows")
        if (np.diff(offsets) < 0).any():
            raise ValueError("offsets must not fall")
    if len(arrays.vertex_offsets) != len(arrays.face_offsets):
        raise ValueError(
            f"got {len(arrays.vertex_offsets)} vertex and {len(arrays.face_offsets)} face offsets"
        )
    if arrays.name is not None and arrays.name.shape != arrays.vertex_offsets[1:].shape:
        raise ValueError(f"there must be one name a mesh; got {arrays.name.shape}")


def _standard(vertices: Float32[np.ndarray, "V 3"]) -> Float32[np.ndarray, "V 3"]:
    """Centre the bounding box and scale the farthest vertex to distance 1."""
    if len(vertices) == 0:
        return vertices
    centred = vertices - (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    return centred / (np.linalg.norm(centred, axis=1).max() or np.float32(1))
