"""The clouds that a person wants to see: files, or the objects of a data set, broken on the spot if asked."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from purgegate.figures.objects import choose, corrupted_clouds
from purgegate.io.clouds import read_cloud
from purgegate.io.labelled import Dataset, labelled
from purgegate.points.transforms import swap_up
from purgegate.typing import Cloud, StrPath


class Exhibit(NamedTuple):
    """A cloud that can be shown: its name, its class where known, and how it is read."""

    name: str
    truth: str
    place: int  # in its set: corruptions draw by it
    read: Callable[[], Dataset]  # a set of this cloud alone

    def cloud(self, corruption: str, severity: int, *, points: int) -> Cloud:
        """The cloud as it is, or corrupted as `purgegate corrupt` does it; z is up."""
        data = self.read()
        if not corruption:
            return data.points[0]
        (bad,) = corrupted_clouds(data, corruption, severity=severity, points=points, first=self.place)
        return bad


def exhibit_files(paths: Sequence[StrPath], *, up: str = "z", drop_invalid: bool = False) -> list[Exhibit]:
    """One file each, read when it is shown."""
    for path in paths:
        if not Path(path).exists():
            raise FileNotFoundError(f"{path} is missing: give clouds or meshes, or the name of a data set")

    def read(path: StrPath) -> Dataset:
        cloud = read_cloud(path, drop_invalid=drop_invalid)
        return labelled((swap_up(cloud) if up == "y" else cloud)[None], None)

    return [Exhibit(Path(path).name, "", place, partial(read, path)) for place, path in enumerate(paths)]


def exhibit_data(data: Dataset, *, places: Sequence[int] | None = None) -> list[Exhibit]:
    """Objects of a data set, all of them or those at some places."""
    wanted = range(len(data.label)) if places is None else places
    names = [data.classes[label] if data.classes else "cloud" for label in data.label]
    truths = [name if data.classes else "" for name in names]
    return [
        Exhibit(f"{names[place]} {place}", truths[place], place, partial(choose, data, [place]))
        for place in wanted
    ]


def spread_places(data: Dataset, count: int) -> list[int]:
    """So many places, spread over a data set."""
    return np.unique(np.linspace(0, len(data.label) - 1, count).round().astype(int)).tolist()
