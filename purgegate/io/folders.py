"""Data sets as folders of cloud files, each cloud brought to the same size and into the unit sphere."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from purgegate.io.clouds import read_cloud
from purgegate.io.formats import READERS
from purgegate.io.labelled import Dataset, labelled
from purgegate.io.meshes import MeshFiles
from purgegate.io.packages import SPLITS
from purgegate.points.transforms import unit_sphere
from purgegate.typing import Cloud

POINTS = 2048  # twice what a model reads, because one corruption halves its clouds


def load_folder(folder: Path, *, split: str) -> Dataset:
    """Read a folder of class folders, parted into train and test above or below them or not at all.

    A folder of cloud files alone is a set without labels.
    """
    top = folder / split if (folder / split).is_dir() else folder
    parents = [folder / part for part in SPLITS if (folder / part).is_dir()] or [folder]
    classes = sorted({child.name for parent in parents for child in _subfolders(parent)})
    if not classes:
        return load_clouds(_cloud_files(top, folder), None)
    files = [(file, index) for index, name in enumerate(classes) for file in _class_files(top / name, split)]
    if not files:
        raise ValueError(
            f"{folder} must hold class folders with cloud files of the split {split!r}; it has none"
        )
    return load_clouds([file for file, _ in files], [label for _, label in files], classes=classes)


def load_clouds(
    files: Sequence[Path], label: Sequence[int] | None, *, classes: Sequence[str] | None = None
) -> Dataset:
    """Read one cloud per file; meshes are sampled, and stay at hand if all files are meshes."""
    clouds = [_standard(file, np.random.default_rng(index)) for index, file in enumerate(files)]
    meshes = MeshFiles(files) if all(READERS[file.suffix.lower()].always_mesh for file in files) else None
    return labelled(
        np.stack(clouds), None if label is None else np.array(label), classes=classes, meshes=meshes
    )


def resize(points: Cloud, count: int, *, generator: np.random.Generator) -> Float32[np.ndarray, "{count} 3"]:
    """Keep a random part of a larger cloud; keep all of a smaller one and repeat some of it."""
    if len(points) >= count:
        return points[generator.choice(len(points), count, replace=False)]
    return np.concatenate([points, points[generator.choice(len(points), count - len(points))]])


def _standard(file: Path, generator: np.random.Generator) -> Cloud:
    points = resize(read_cloud(file, generator=generator, samples=POINTS), POINTS, generator=generator)
    return unit_sphere(points.astype(np.float64)).astype(np.float32)


def _subfolders(folder: Path) -> Iterable[Path]:
    return (child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _class_files(folder: Path, split: str) -> list[Path]:
    """List the files of a class, in this split where the class is parted."""
    parted = any((folder / part).is_dir() for part in SPLITS)
    folder = folder / split if parted else folder
    return _readable(folder) if folder.is_dir() else []


def _cloud_files(folder: Path, given: Path) -> list[Path]:
    files = _readable(folder)
    if not files:
        raise ValueError(f"{given} must hold cloud files or class folders; it has none that can be read")
    return files


def _readable(folder: Path) -> list[Path]:
    files = sorted(child for child in folder.iterdir() if child.suffix.lower() in READERS)
    return [file for file in files if not file.name.startswith(".")]
