"""Triangle meshes beside clouds: points drawn from a surface, and many meshes kept in one file."""

from collections.abc import Sequence
from typing import NamedTuple, Self, overload

import numpy as np
from jaxtyping import Int, Num

from purgegate.typing import Cloud, Mesh, StrPath

GRID = 32767  # packed vertices are int16 steps of 1 / GRID


def sample_surface(mesh: Mesh, count: int, *, generator: np.random.Generator) -> Cloud:
    """Draw points from a mesh, uniformly by area."""
    vertices, faces = mesh
    corner = vertices.astype(np.float64)[faces]
    first, second = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    area = np.linalg.norm(np.cross(first, second), axis=1)
    if not 0 < area.sum() < np.inf:
        raise ValueError(f"a mesh to sample must have a finite surface above 0; got {area.sum() / 2:g}")
    face = np.searchsorted(np.cumsum(area), generator.random(count) * area.sum(), side="right")
    face = np.minimum(face, len(faces) - 1)
    u, v = generator.random((2, count, 1))
    # Points beyond the diagonal of the parallelogram fold back into the triangle.
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    return (corner[face, 0] + u * first[face] + v * second[face]).astype(np.float32)


class PackedMeshes(Sequence[Mesh]):
    """Meshes kept end to end in integer arrays; each is unpacked when it is asked for."""

    def __init__(self, arrays: "_Arrays", order: Int[np.ndarray, " n"] | None = None) -> None:
        self._arrays = arrays
        self._order = np.arange(len(arrays.vertex_offsets) - 1) if order is None else order

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read an .npz of `vertices`, `faces`, `vertex_offsets` and `face_offsets`."""
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in _Arrays._fields if name not in file.files]
            if missing:
                raise ValueError(
                    f"{path} must hold {', '.join(_Arrays._fields)}; it lacks {', '.join(missing)}"
                )
            arrays = _Arrays(**{name: file[name] for name in _Arrays._fields})
        if problem := _problem(arrays):
            raise ValueError(f"{path} is not a file of packed meshes: {problem}")
        return cls(arrays)

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
        vertices, faces, vertex_offsets, face_offsets = self._arrays
        own_vertices = vertices[vertex_offsets[i] : vertex_offsets[i + 1]]
        own_faces = faces[face_offsets[i] : face_offsets[i + 1]]
        # Floats are coordinates already; integers are steps of the grid.
        scale = np.float32(GRID if own_vertices.dtype.kind in "iu" else 1)
        return own_vertices.astype(np.float32) / scale, own_faces.astype(np.int64)


class _Arrays(NamedTuple):
    """The arrays of a file of packed meshes: mesh i is `[offsets[i] : offsets[i + 1]]` of each."""

    vertices: Num[np.ndarray, "V 3"]
    faces: Int[np.ndarray, "T 3"]
    vertex_offsets: Int[np.ndarray, " m"]
    face_offsets: Int[np.ndarray, " m"]


def _problem(arrays: _Arrays) -> str | None:
    """Say what is wrong with packed arrays, if anything."""
    for rows, offsets in ((arrays.vertices, arrays.vertex_offsets), (arrays.faces, arrays.face_offsets)):
        if rows.ndim != 2 or rows.shape[1] != 3:
            return f"vertices and faces must have three columns; got shape {rows.shape}"
        if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(rows):
            return f"offsets must run from 0 to {len(rows)}, the number of rows"
        if (np.diff(offsets) < 0).any():
            return "offsets must not fall"
    if len(arrays.vertex_offsets) != len(arrays.face_offsets):
        return f"got {len(arrays.vertex_offsets)} vertex offsets for {len(arrays.face_offsets)} face offsets"
    return None
