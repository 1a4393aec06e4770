"""Small data sets for the tests to write and to compare with."""

from pathlib import Path

import h5py
import numpy as np

from purgegate.io.datasets import Dataset

RNG = np.random.default_rng(0)
CLOUDS = RNG.uniform(-1, 1, size=(5, 16, 3)).astype(np.float32)
LABEL = np.array([0, 1, 1, 0, 2])
CLASSES = ("airplane", "bathtub", "night_stand")
OFF = "OFF4 4 0\n0 0 0\n{size} 0 0\n0 {size} 0\n0 0 {size}\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n"


def write_h5(path: Path, points: np.ndarray, label: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["data"], file["label"] = points, label


def write_npz(path: Path, **more: np.ndarray) -> Path:
    np.savez(path, **({"points": CLOUDS, "label": LABEL, "classes": np.array(CLASSES)} | more))
    return path


def in_unit_sphere(points: np.ndarray) -> bool:
    radius = np.linalg.norm(points, axis=2).max(axis=1)
    return bool(np.allclose(radius, 1, atol=1e-5) and np.allclose(points.mean(axis=1), 0, atol=1e-5))


def assert_same(data: Dataset, points: np.ndarray, label: np.ndarray) -> None:
    assert data.points.dtype == np.float32
    assert data.label.dtype == np.int64
    assert np.array_equal(data.points, points)
    assert np.array_equal(data.label, label)
