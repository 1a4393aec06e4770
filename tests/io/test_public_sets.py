"""Data sets in the layouts in which they are published, written small by the tests."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from purgegate.io.class_names import SCANOBJECTNN, SHAPENET
from purgegate.io.datasets import Dataset, load_dataset
from purgegate.io.folders import POINTS
from tests.io.small_sets import (
    CLASSES,
    CLOUDS,
    LABEL,
    OFF,
    assert_same,
    in_unit_sphere,
    write_h5,
)


def test_modelnet40_as_a_tree_of_off_files(tmp_path: Path) -> None:
    for size, name in enumerate(["chair", "airplane"], start=1):
        for split, count in (("train", 1), ("test", 2)):
            folder = tmp_path / "ModelNet40" / name / split
            folder.mkdir(parents=True)
            for index in range(count):
                (folder / f"{name}_{index:04}.off").write_text(OFF.format(size=100 * size))
    data = load_dataset("modelnet40", root=tmp_path)
    assert data.points.shape == (4, POINTS, 3)
    assert (data.label.tolist(), data.classes) == ([0, 0, 1, 1], ("airplane", "chair"))
    assert in_unit_sphere(data.points)
    assert len(load_dataset("modelnet40", root=tmp_path, split="train").label) == 2
    assert data.meshes is not None
    vertices, faces = data.meshes[3]
    assert np.linalg.norm(vertices, axis=1).max() == pytest.approx(1)
    np.testing.assert_allclose(vertices.min(axis=0), -vertices.max(axis=0))
    assert len(faces) == 4


def test_modelnet40_as_lists_of_h5_files(tmp_path: Path) -> None:
    folder = tmp_path / "modelnet40_ply_hdf5_2048"
    write_h5(folder / "ply_data_test0.h5", CLOUDS[:3], LABEL[:3, None])
    write_h5(folder / "ply_data_test1.h5", CLOUDS[3:], LABEL[3:, None])
    listed = "".join(f"data/modelnet40_ply_hdf5_2048/ply_data_test{index}.h5\n" for index in (0, 1))
    (folder / "test_files.txt").write_text(listed)
    (folder / "shape_names.txt").write_text("\n".join(CLASSES))
    for data in (load_dataset("modelnet40", root=tmp_path), load_dataset(folder)):
        assert_same(data, CLOUDS, LABEL)
        assert data.classes == CLASSES
    with pytest.raises(FileNotFoundError, match=r"train_files\.txt is missing"):
        load_dataset(folder, split="train")


@pytest.fixture
def resampled(tmp_path: Path) -> Path:
    folder = tmp_path / "modelnet40_normal_resampled"
    names = ["airplane_0001", "night_stand_0002", "bathtub_0003"]
    for name, cloud in zip(names, CLOUDS, strict=False):
        owner = folder / name.rsplit("_", 1)[0]
        owner.mkdir(parents=True)
        np.savetxt(owner / f"{name}.txt", np.hstack([cloud, cloud]), delimiter=",", fmt="%.6f")
    (folder / "modelnet40_test.txt").write_text("\n".join(names) + "\n")
    (folder / "modelnet40_shape_names.txt").write_text("\n".join(CLASSES) + "\n")
    return folder


def test_modelnet40_resampled_as_text(resampled: Path) -> None:
    data = load_dataset("modelnet40", root=resampled.parent)
    assert (data.label.tolist(), data.classes) == ([0, 2, 1], CLASSES)
    assert data.points.shape == (3, POINTS, 3)
    assert in_unit_sphere(data.points)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_modelnet40_resampled_as_a_cache_is_read_before_the_text(resampled: Path, protocol: int) -> None:
    clouds = [np.hstack([cloud, cloud]) for cloud in CLOUDS]
    label = [np.array([value], np.int32) for value in LABEL]
    with (resampled / "modelnet40_test_16pts_fps.dat").open("wb") as file:
        pickle.dump([clouds, label], file, protocol=protocol)
    assert_same(load_dataset(resampled), CLOUDS, LABEL)


def test_a_cache_cannot_run_code(resampled: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "boom",)

    with (resampled / "modelnet40_test_16pts_fps.dat").open("wb") as file:
        pickle.dump([[Bomb()], [0]], file)
    with pytest.raises(ValueError, match=r"fps\.dat cannot be read: it may hold arrays and lists only"):
        load_dataset(resampled)
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("scanobjectnn_obj_only", "main_split_nobg/{}_objectdataset.h5"),
        ("scanobjectnn_obj_bg", "main_split/{}_objectdataset.h5"),
        ("scanobjectnn_pb_t50_rs", "main_split/{}_objectdataset_augmentedrot_scale75.h5"),
    ],
)
def test_scanobjectnn_in_its_three_forms(name: str, file: str, tmp_path: Path) -> None:
    write_h5(tmp_path / "h5_files" / file.format("training"), CLOUDS[:2], LABEL[:2])
    write_h5(tmp_path / "h5_files" / file.format("test"), CLOUDS, LABEL)
    data = load_dataset(name, root=tmp_path)
    assert_same(data, CLOUDS, LABEL)
    assert data.classes == SCANOBJECTNN
    assert_same(load_dataset(name, root=tmp_path / "h5_files", split="train"), CLOUDS[:2], LABEL[:2])


def test_shapenet55_counts_classes_by_their_wordnet_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "ShapeNet55-34"
    (folder / "shapenet_pc").mkdir(parents=True)
    (folder / "ShapeNet-55").mkdir()
    names = ["04554684-1a2b.npy", "02691156-10155655850468db78d106ce0a280f87.npy"]
    for name, cloud in zip(names, CLOUDS, strict=False):
        np.save(folder / "shapenet_pc" / name, cloud)
    (folder / "ShapeNet-55" / "test.txt").write_text("\n".join(names))
    data = load_dataset("shapenet55", root=tmp_path)
    assert data.label.tolist() == [54, 0]
    assert data.classes == tuple(SHAPENET.values())
    assert (len(data.classes), data.classes[54], data.classes[0]) == (55, "washer", "airplane")
    assert in_unit_sphere(data.points)
    (folder / "ShapeNet-55" / "test.txt").write_text("00000000-a.npy\n")
    with pytest.raises(ValueError, match="does not name: 00000000"):
        load_dataset("shapenet55", root=tmp_path)


def test_shapenetcore_as_lists_of_h5_files(tmp_path: Path) -> None:
    folder = tmp_path / "shapenetcorev2_hdf5_2048"
    write_h5(folder / "test0.h5", CLOUDS, LABEL[:, None])
    (folder / "test_files.txt").write_text("test0.h5\n")
    (folder / "shape_names.txt").write_text("\n".join(CLASSES))
    assert_same(load_dataset("shapenetcore", root=tmp_path), CLOUDS, LABEL)


@pytest.mark.parametrize("name", ["modelnet40", "scanobjectnn_obj_bg", "shapenet55"])
def test_a_missing_benchmark_says_where_it_is_published(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{name} is missing: .* must hold one of .*; published as"):
        load_dataset(name, root=tmp_path)


def test_an_unknown_name_or_split_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match="modelnet41 is missing: give an existing path, or a name of shapes"
    ):
        load_dataset("modelnet41", root=tmp_path)
    with pytest.raises(ValueError, match="split must be one of train, test; got 'validation'"):
        load_dataset("modelnet40", root=tmp_path, split="validation")


def test_shapes_need_no_files() -> None:
    data = load_dataset("shapes")
    assert isinstance(data, Dataset)
    assert data.meshes is not None
    assert len(data.meshes) == len(data.points) == len(data.label)
    assert set(data.label.tolist()) == set(range(len(data.classes)))
