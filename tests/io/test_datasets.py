"""Data sets in one file or one cloud a file, corrupted sets, and batches."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from purgegate.io.datasets import Dataset, batches, load_corrupted, load_dataset
from purgegate.io.folders import POINTS, resize
from tests.io.small_sets import (
    CLASSES,
    CLOUDS,
    LABEL,
    OFF,
    RNG,
    assert_same,
    in_unit_sphere,
    write_h5,
    write_npz,
)


def test_an_npz_comes_back(tmp_path: Path) -> None:
    data = load_dataset(write_npz(tmp_path / "a.npz"))
    assert_same(data, CLOUDS, LABEL)
    assert (data.classes, data.meshes) == (CLASSES, None)
    torch.as_tensor(data.points), torch.as_tensor(data.label)  # which would warn of what cannot be written to


def test_an_npz_with_a_split_gives_the_split_asked_for(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", split=np.array([0, 1, 0, 1, 1]))
    assert_same(load_dataset(path, split="train"), CLOUDS[[0, 2]], LABEL[[0, 2]])
    assert_same(load_dataset(path), CLOUDS[[1, 3, 4]], LABEL[[1, 3, 4]])
    path = write_npz(tmp_path / "b.npz", split=np.zeros(5, int))
    with pytest.raises(ValueError, match="no clouds of the split 'test'"):
        load_dataset(path)


def test_packed_differences_are_the_points_they_were_made_from(tmp_path: Path) -> None:
    grid = RNG.integers(-1024, 1025, size=(2, 16, 3)).astype(np.int16)
    delta = np.diff(grid.transpose(0, 2, 1), axis=2, prepend=np.int16(0))
    np.savez_compressed(tmp_path / "a.npz", delta=delta, label=LABEL[:2], classes=CLASSES)
    assert_same(load_dataset(tmp_path / "a.npz"), grid / np.float32(1024), LABEL[:2])


def test_an_h5_file_comes_back_with_labels_in_a_column(tmp_path: Path) -> None:
    write_h5(tmp_path / "a.h5", CLOUDS, LABEL[:, None].astype(np.uint8))
    data = load_dataset(tmp_path / "a.h5")
    assert_same(data, CLOUDS, LABEL)
    assert data.classes == ("0", "1", "2")


def test_clouds_without_labels_have_none(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", CLOUDS)
    data = load_dataset(tmp_path / "a.npy")
    assert_same(data, CLOUDS, np.full(5, -1))
    assert data.classes == ()


def test_one_cloud_is_a_set_of_one_without_a_label(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "a.xyz", 5 + 3 * CLOUDS[0])
    data = load_dataset(tmp_path / "a.xyz")
    assert data.points.shape == (1, POINTS, 3)
    assert in_unit_sphere(data.points)
    assert (data.label.tolist(), data.classes) == ([-1], ())


def test_normals_in_a_set_are_dropped(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", points=np.concatenate([CLOUDS, CLOUDS], axis=2))
    assert_same(load_dataset(path), CLOUDS, LABEL)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"label": np.array([0, 1, 1, 0, 3])}, r"labels must lie in \[0, 2\]; got 0 to 3"),
        ({"label": np.array([0, 1, 1, 0, -1])}, r"labels must lie in \[0, 2\]; got -1 to 1"),
        ({"label": LABEL[:4]}, r"one label a cloud; got shape \(4,\) for 5 clouds"),
        ({"label": LABEL + 0.5}, "whole numbers; got fractions"),
        ({"label": np.array(list("abcde"))}, "whole numbers; got <U1"),
        ({"points": CLOUDS[..., :2]}, r"shape \(n, N, 3\).*got \(5, 16, 2\)"),
        ({"points": CLOUDS[None]}, r"shape \(n, N, 3\).*got \(1, 5, 16, 3\)"),
        ({"points": CLOUDS[:0]}, r"n and N at least 1; got \(0, 16, 3\)"),
        ({"points": np.where(CLOUDS > 0.99, np.nan, CLOUDS)}, r"of 5 clouds have NaN"),
        ({"points": CLOUDS.astype(float) * 1e300}, "5 of 5 clouds have NaN, infinite or far too large"),
        ({"split": np.zeros(4, int)}, "`split` must be one number a cloud"),
        ({"delta": CLOUDS}, "`delta` must be whole numbers"),
    ],
)
def test_a_set_that_does_not_fit_together_says_why(change: dict, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"a.npz cannot be read: .*{reason}"):
        load_dataset(write_npz(tmp_path / "a.npz", **change))


def test_a_folder_of_class_folders_mixes_formats(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden", "empty"):
        (tmp_path / name).mkdir()
    np.save(tmp_path / "a" / "1.npy", CLOUDS[0])
    (tmp_path / "b" / "1.off").write_text(OFF.format(size=3))
    np.savetxt(tmp_path / "b" / "2.xyz", CLOUDS[1])
    (tmp_path / "b" / "notes.md").write_text("not a cloud")
    data = load_dataset(tmp_path)
    assert (data.label.tolist(), data.classes) == ([0, 1, 1], ("a", "b", "empty"))
    assert data.points.shape == (3, POINTS, 3)
    assert data.meshes is None


def test_classes_keep_their_numbers_where_a_split_lacks_one(tmp_path: Path) -> None:
    for place in ("train/a", "train/b", "test/b"):
        (tmp_path / place).mkdir(parents=True)
        np.save(tmp_path / place / "1.npy", CLOUDS[0])
    assert load_dataset(tmp_path, split="train").label.tolist() == [0, 1]
    data = load_dataset(tmp_path)
    assert (data.label.tolist(), data.classes) == ([1], ("a", "b"))


def test_a_folder_without_clouds_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold cloud files or class folders"):
        load_dataset(tmp_path)
    (tmp_path / "chair").mkdir()
    with pytest.raises(ValueError, match="class folders with cloud files of the split 'test'"):
        load_dataset(tmp_path)


def test_loading_a_folder_twice_gives_the_same_points(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.off").write_text(OFF.format(size=1))
    np.save(tmp_path / "a" / "2.npy", RNG.normal(size=(3000, 3)))
    assert np.array_equal(load_dataset(tmp_path).points, load_dataset(tmp_path).points)


def test_resizing_keeps_all_of_a_small_cloud_and_a_part_of_a_large_one() -> None:
    larger = resize(CLOUDS[0], 20, generator=np.random.default_rng(0))
    assert np.array_equal(larger[:16], CLOUDS[0])
    smaller = resize(CLOUDS[0], 10, generator=np.random.default_rng(0))
    assert len(np.unique(smaller, axis=0)) == 10
    for cloud in (larger, smaller):
        assert {tuple(point) for point in cloud} <= {tuple(point) for point in CLOUDS[0]}


@pytest.mark.parametrize("name", ["data_shear_3.npy", "data_shear_3.h5", "shear_3.h5"])
def test_a_corrupted_set_comes_back(name: str, tmp_path: Path) -> None:
    if name.endswith(".npy"):
        np.save(tmp_path / name, CLOUDS.astype(float))
        np.save(tmp_path / "label.npy", LABEL[:, None])
    else:
        write_h5(tmp_path / name, CLOUDS, LABEL)
    data = load_corrupted(tmp_path, "shear", severity=3)
    assert_same(data, CLOUDS, LABEL)
    assert data.classes == ("0", "1", "2")
    (tmp_path / "classes.json").write_text(json.dumps(CLASSES))
    assert load_corrupted(tmp_path, "shear", severity=3).classes == CLASSES


def test_a_missing_corrupted_set_says_which_command_makes_it(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"purgegate corrupt SOURCE .* --corruption shear --severity 3`.*ModelNet40-C"
    ):
        load_corrupted(tmp_path, "shear", severity=3)
    np.save(tmp_path / "data_shear_3.npy", CLOUDS)
    with pytest.raises(FileNotFoundError, match=r"label\.npy is missing"):
        load_corrupted(tmp_path, "shear", severity=3)


def test_a_corrupted_set_that_does_not_fit_its_labels_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "data_shear_3.npy", CLOUDS)
    np.save(tmp_path / "label.npy", LABEL[:3])
    with pytest.raises(
        ValueError, match=r"data_shear_3\.npy cannot be read: there must be one label a cloud"
    ):
        load_corrupted(tmp_path, "shear", severity=3)
    (tmp_path / "classes.json").write_text("{}")
    with pytest.raises(ValueError, match="must be a list of class names"):
        load_corrupted(tmp_path, "shear", severity=3)


def test_batches_keep_the_order_and_the_last_partial_batch() -> None:
    parts = list(batches(Dataset(CLOUDS, LABEL, CLASSES), 3))
    assert [len(label) for _, label in parts] == [3, 2]
    assert torch.cat([points for points, _ in parts]).numpy().tolist() == CLOUDS.tolist()
    assert torch.cat([label for _, label in parts]).tolist() == LABEL.tolist()


def test_a_shuffle_follows_its_generator_and_loses_nothing() -> None:
    data = Dataset(CLOUDS, LABEL, CLASSES)
    orders = []
    for seed in (3, 3, 4):
        parts = list(batches(data, 2, generator=np.random.default_rng(seed)))
        points = torch.cat([points for points, _ in parts]).numpy()
        label = torch.cat([label for _, label in parts]).tolist()
        index = [int(np.flatnonzero((cloud == CLOUDS).all(axis=(1, 2)))[0]) for cloud in points]
        assert label == LABEL[index].tolist()
        assert sorted(index) == list(range(5))
        orders.append(index)
    assert orders[0] == orders[1] != orders[2]


def test_a_single_cloud_left_over_joins_the_batch_before_it() -> None:
    def sizes(count: int, size: int) -> list[int]:
        data = Dataset(np.zeros((count, 4, 3), np.float32), np.zeros(count, np.int64), CLASSES)
        return [len(label) for _, label in batches(data, size)]

    assert sizes(9, 4) == [4, 5]
    assert sizes(10, 4) == [4, 4, 2]
    assert sizes(8, 4) == [4, 4]
    assert sizes(1, 4) == [1]
    assert sizes(3, 1) == [1, 1, 1]


def test_a_batch_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one cloud; got size 0"):
        next(batches(Dataset(CLOUDS, LABEL, CLASSES), 0))


def test_the_real_modelnet40_test_set_comes_with_its_meshes(shared: Path) -> None:
    data = load_dataset(shared / "data" / "modelnet40_test.npz")
    assert data.points.shape == (2385, 2048, 3)
    assert len(data.classes) == 40
    assert data.meshes is not None
    assert len(data.meshes) == 2385
    differences = []
    for index in range(0, 2385, 24):
        boxes = [np.ptp(each, axis=0) for each in (data.meshes[index][0], data.points[index])]
        mesh, cloud = (box / np.linalg.norm(box) for box in boxes)
        differences.append(np.abs(mesh - cloud).max())
    # The same objects in the same axes have the same proportions; a few meshes lost parts when simplified.
    assert np.median(differences) < 0.01


@pytest.mark.slow
def test_the_real_modelnet40_train_set_is_found_by_name(shared: Path) -> None:
    data = load_dataset("modelnet40", root=shared / "data", split="train")
    assert data.points.shape == (9620, 2048, 3)
    assert np.linalg.norm(data.points[::100], axis=2).max() == pytest.approx(1, abs=0.01)


def test_real_laser_objects_have_five_classes(shared: Path) -> None:
    data = load_dataset("dales500.npz", root=shared / "data")
    assert (len(data.label), data.classes) == (499, ("building", "car", "fence", "pole", "tree"))
