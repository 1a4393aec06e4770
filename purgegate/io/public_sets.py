"""The public benchmarks in the layouts in which they are published, found by name under a root."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from purgegate.io.class_names import SCANOBJECTNN, SHAPENET
from purgegate.io.clouds import reading
from purgegate.io.folders import POINTS, load_clouds, load_folder
from purgegate.io.formats.arrays import load_h5
from purgegate.io.labelled import Dataset, labelled
from purgegate.io.packages import load_package
from purgegate.io.pickles import load_arrays


class Benchmark(NamedTuple):
    """Where a data set may lie under a root, who publishes it, and its class names if no file tells."""

    places: tuple[str, ...]
    published: str
    classes: tuple[str, ...] | None = None


def _scanobjectnn(file: str) -> Benchmark:
    folders = ("", "h5_files/", "ScanObjectNN/", "ScanObjectNN/h5_files/")
    published = "`h5_files` by the authors of ScanObjectNN, on request"
    return Benchmark(tuple(folder + file for folder in folders), published, SCANOBJECTNN)


SHAPENET_PLACES = ("", "ShapeNet55-34", "ShapeNet55", "shapenetcorev2_hdf5_2048")
SHAPENET_PUBLISHED = (
    "`ShapeNet55-34` with PoinTr and Point-MAE, and `shapenetcorev2_hdf5_2048` with PointCloudDatasets"
)

PUBLIC_SETS: dict[str, Benchmark] = {
    "modelnet40": Benchmark(
        (
            "",
            "modelnet40_ply_hdf5_2048",
            "modelnet40_normal_resampled",
            "ModelNet40",
            "modelnet40_{split}.npz",
            "modelnet40_{split}_delta.npz",
        ),
        "`ModelNet40` by Princeton, `modelnet40_ply_hdf5_2048` with PointNet, "
        "`modelnet40_normal_resampled` with PointNet++",
    ),
    "scanobjectnn_obj_only": _scanobjectnn("main_split_nobg/{part}_objectdataset.h5"),
    "scanobjectnn_obj_bg": _scanobjectnn("main_split/{part}_objectdataset.h5"),
    "scanobjectnn_pb_t50_rs": _scanobjectnn("main_split/{part}_objectdataset_augmentedrot_scale75.h5"),
    "shapenet55": Benchmark(SHAPENET_PLACES, SHAPENET_PUBLISHED),
    "shapenetcore": Benchmark(tuple(reversed(SHAPENET_PLACES)), SHAPENET_PUBLISHED),
}
PARTS = {"train": "training", "test": "test"}  # what ScanObjectNN calls its splits


def load_public_set(name: str, *, root: Path, split: str) -> Dataset:
    """Find a public data set by name in the first of its places, and read it."""
    places, published, classes = PUBLIC_SETS[name]
    for place in places:
        path = root / place.format(split=split, part=PARTS[split])
        if path.is_file():
            data = load_package(path, split=split, classes=classes)
            if data is not None:
                return data
        elif path.is_dir() and (place or layout(path)):
            return load_layout(path, split=split)
    wanted = ", ".join(place.format(split=split, part=PARTS[split]) for place in places if place)
    raise FileNotFoundError(f"{name} is missing: {root} must hold one of {wanted}; published as {published}")


def load_layout(folder: Path, *, split: str) -> Dataset:
    """Read a folder in whichever layout it has."""
    return (layout(folder) or load_folder)(folder, split=split)


def layout(folder: Path) -> Callable[..., Dataset] | None:
    """Recognise a published layout by the lists that lie in it."""
    return next((load for marker, load in LAYOUTS.items() if (folder / marker).is_file()), None)


def load_h5_list(folder: Path, *, split: str) -> Dataset:
    """Read the .h5 files named in `<split>_files.txt`; only their own names count, not the folders before."""
    names = [Path(line).name for line in _lines(folder / f"{split}_files.txt")]
    classes = _lines(folder / "shape_names.txt")
    parts = []
    for name in names:
        with reading(folder / name):
            arrays = load_h5(folder / name, names=("data", "label"))
            parts.append(labelled(arrays["data"], arrays["label"], classes=classes))
    points = np.concatenate([part.points for part in parts])
    return labelled(points, np.concatenate([part.label for part in parts]), classes=classes)


def load_resampled(folder: Path, *, split: str) -> Dataset:
    """Read `modelnet40_normal_resampled`: its cache if there is one, else its text files."""
    classes = _lines(folder / "modelnet40_shape_names.txt")
    caches = sorted(folder.glob(f"modelnet40_{split}_*pts_fps.dat"))
    if caches:
        with reading(caches[-1]):
            clouds, label = load_arrays(caches[-1])
            # Farthest points come first, so a prefix is again a farthest point sample.
            points = np.stack([np.asarray(cloud)[:POINTS, :3] for cloud in clouds])
            return labelled(points, np.concatenate([np.ravel(each) for each in label]), classes=classes)
    names = _lines(folder / f"modelnet40_{split}.txt")
    owners = [name.rsplit("_", 1)[0] for name in names]
    files = [folder / owner / f"{name}.txt" for owner, name in zip(owners, names, strict=True)]
    return load_clouds(files, _label(owners, classes, folder), classes=classes)


def load_shapenet55(folder: Path, *, split: str) -> Dataset:
    """Read ShapeNet55: one .npy a cloud, with its class number before the first dash of its name."""
    names = _lines(folder / "ShapeNet-55" / f"{split}.txt")
    label = _label([name.split("-")[0] for name in names], list(SHAPENET), folder)
    files = [folder / "shapenet_pc" / name for name in names]
    return load_clouds(files, label, classes=tuple(SHAPENET.values()))


def _label(owners: list[str], classes: list[str], folder: Path) -> list[int]:
    unknown = sorted(set(owners) - set(classes))
    if unknown:
        raise ValueError(f"{folder} lists clouds of classes that it does not name: {', '.join(unknown[:5])}")
    number = {name: index for index, name in enumerate(classes)}
    return [number[owner] for owner in owners]


def _lines(path: Path) -> list[str]:
    with reading(path):
        lines = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
        if not lines:
            raise ValueError("it lists nothing")
    return lines


LAYOUTS: dict[str, Callable[..., Dataset]] = {
    "shape_names.txt": load_h5_list,
    "modelnet40_shape_names.txt": load_resampled,
    "ShapeNet-55/test.txt": load_shapenet55,
}
