"""Data sets by name or path, as clean or corrupted test sets."""

import json
from collections.abc import Iterator
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from purgegate.io.clouds import reading
from purgegate.io.folders import load_clouds
from purgegate.io.labelled import Dataset
from purgegate.io.packages import SPLITS, load_package
from purgegate.io.public_sets import PUBLIC_SETS, load_layout, load_public_set
from purgegate.points.shapes import make_shapes
from purgegate.typing import Points, StrPath

__all__ = ["NAMES", "Dataset", "batches", "load_corrupted", "load_dataset"]

ROOT = Path("data")  # where named data sets are looked for, unless told
NAMES = ("shapes", *PUBLIC_SETS)


def load_dataset(name_or_path: StrPath, *, root: StrPath | None = None, split: str = "test") -> Dataset:
    """Load a data set by name, from under `root`, or from a path of any known layout.

    A file of one cloud is a set of one, without a label (-1) and without classes. Clouds that come one a file
    are brought to 2,048 points and into the unit sphere; all others stay as they are.
    """
    if not isinstance(name_or_path, (str, PathLike)):
        raise ValueError(f"a data set is given by a name or a path; got {type(name_or_path).__name__}")
    if not str(name_or_path):
        raise ValueError("a data set is given by a name or a path; got an empty text")
    if split not in SPLITS:
        raise ValueError(f"the split must be one of {', '.join(SPLITS)}; got {split!r}")
    if name_or_path == "shapes":
        return Dataset(*make_shapes(split))
    if name_or_path in PUBLIC_SETS:
        return load_public_set(str(name_or_path), root=Path(root or ROOT), split=split)
    path = Path(root or "") / name_or_path
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: give an existing path, or a name of {', '.join(NAMES)}")
    if path.is_dir():
        return load_layout(path, split=split)
    return load_package(path, split=split) or load_clouds([path], None)


def load_corrupted(folder: StrPath, corruption: str, *, severity: int) -> Dataset:
    """Load one corrupted version of a data set, from `data_<corruption>_<severity>.npy` or its .h5 forms."""
    folder = Path(folder)
    cell = f"{corruption}_{severity}"
    names = [f"data_{cell}.npy", f"data_{cell}.h5", f"{cell}.h5"]
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{folder / names[0]} is missing: make it with `purgegate corrupt SOURCE {folder} "
            f"--corruption {corruption} --severity {severity}`, or take a published set such as ModelNet40-C"
        )
    if path.suffix == ".npy" and not (folder / "label.npy").is_file():
        raise FileNotFoundError(f"{folder / 'label.npy'} is missing: it holds the labels of {path.name}")
    data = load_package(path, split="test", classes=_class_names(folder / "classes.json"))
    if data is None:
        raise ValueError(f"{path} must hold clouds of shape (n, N, 3), named `data` in an .h5 file")
    return data


def batches(
    data: Dataset, size: int, *, generator: np.random.Generator | None = None
) -> Iterator[tuple[Points, Int64[Tensor, " B"]]]:
    """Cut a data set into batches, in its own order or shuffled by a generator."""
    order = np.arange(len(data.label)) if generator is None else generator.permutation(len(data.label))
    for batch in cut(len(order), size):
        index = order[batch]
        yield torch.from_numpy(data.points[index]), torch.from_numpy(data.label[index])


def cut(count: int, size: int) -> list[slice]:
    """Where batches of so many clouds lie; the last may be smaller.

    A single cloud that is left over joins the batch before it: alone it has no statistics.
    """
    if size < 1:
        raise ValueError(f"a batch must hold at least one cloud; got size {size}")
    cuts = [*range(0, count, size), count]
    if size > 1 and len(cuts) > 2 and cuts[-1] - cuts[-2] == 1:
        del cuts[-2]
    return [slice(*ends) for ends in pairwise(cuts)]


def _class_names(path: Path) -> list[str] | None:
    """Read class names in the order of their labels, if a file tells them."""
    if not path.is_file():
        return None
    with reading(path):
        names = json.loads(path.read_text("utf-8"))
        if not isinstance(names, list):
            raise ValueError("it must be a list of class names")
    return [str(name) for name in names]
