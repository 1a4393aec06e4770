"""Meshes stay with their clouds."""

from pathlib import Path

import numpy as np
import pytest

from purgegate.io.datasets import load_dataset
from purgegate.io.meshes import PackedMeshes
from tests.io.small_sets import CLOUDS, LABEL, write_npz


def write_meshes(path: Path, **change: np.ndarray) -> None:
    arrays = {
        "vertices": (np.arange(15).reshape(5, 3) * 1000).astype(np.int16),
        "faces": np.array([[0, 1, 1], [0, 1, 2], [2, 1, 0]], np.uint16),
        "vertex_offsets": np.array([0, 2, 5]),
        "face_offsets": np.array([0, 1, 3]),
        "name": np.array(["a", "b"]),
    }
    np.savez(path, **(arrays | change))


def test_meshes_beside_clouds_come_with_them(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", points=CLOUDS[:2], label=LABEL[:2], name=np.array(["a", "b"]))
    write_meshes(tmp_path / "a_meshes.npz")
    meshes = load_dataset(path).meshes
    assert isinstance(meshes, PackedMeshes)
    vertices, faces = meshes[1]
    assert (vertices.dtype, faces.dtype, len(meshes)) == (np.float32, np.int64, 2)
    np.testing.assert_allclose(vertices, np.array([[-1], [0], [1]]) * np.ones(3) / np.sqrt(3), atol=1e-6)
    assert faces.tolist() == [[0, 1, 2], [2, 1, 0]]


def test_meshes_follow_the_split(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", points=CLOUDS[:2], label=LABEL[:2], split=np.array([0, 1]))
    write_meshes(tmp_path / "a_meshes.npz")
    meshes = load_dataset(path).meshes
    assert meshes is not None
    assert len(meshes) == 1
    assert len(meshes[0][1]) == 2


def test_meshes_of_other_clouds_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", points=CLOUDS[:2], label=LABEL[:2], name=np.array(["b", "a"]))
    write_meshes(tmp_path / "a_meshes.npz")
    with pytest.raises(ValueError, match="same names in the same order"):
        load_dataset(path)
    write_meshes(tmp_path / "b_meshes.npz")
    path = write_npz(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="one mesh a cloud; got 2 for 5"):
        load_dataset(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"vertex_offsets": np.array([0, 2, 9])}, "offsets must run from 0 to 5"),
        ({"vertex_offsets": np.array([0, 7, 3, 5])}, "offsets must not fall"),
        ({"face_offsets": np.array([0, 1, 2, 3])}, "got 3 vertex and 4 face offsets"),
        ({"faces": np.zeros((3, 4), int)}, r"three columns; got shape \(3, 4\)"),
        ({"name": np.array(["a"])}, "one name a mesh"),
    ],
)
def test_packed_meshes_that_do_not_fit_together_say_why(change: dict, reason: str, tmp_path: Path) -> None:
    write_meshes(tmp_path / "a.npz", **change)
    with pytest.raises(ValueError, match=f"a.npz cannot be read: .*{reason}"):
        PackedMeshes.load(tmp_path / "a.npz")
