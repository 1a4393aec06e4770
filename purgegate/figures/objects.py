"""The objects of a figure, corrupted on the spot as `purgegate corrupt` does it."""

from collections.abc import Sequence

import numpy as np

from purgegate.io.builder import chunks_of, corrupt_chunk, points_taken, scaled_sample
from purgegate.io.cells import Cell
from purgegate.io.labelled import Dataset
from purgegate.points.corruptions import strength_of
from purgegate.typing import Cloud


def choose(data: Dataset, index: Sequence[int]) -> Dataset:
    """The objects at these places."""
    if not index or min(index) < 0 or max(index) >= len(data.label):
        raise ValueError(
            f"objects must be named by numbers from 0 to {len(data.label) - 1}; got {list(index)}"
        )
    meshes = None if data.meshes is None else [data.meshes[each] for each in index]
    chosen = np.asarray(index)
    return Dataset(data.points[chosen], data.label[chosen], data.classes, meshes)


def clean_clouds(data: Dataset, *, points: int) -> list[Cloud]:
    """Clouds of `points` points that fill the unit sphere."""
    return list(scaled_sample(data.points, points))


def corrupted_clouds(
    data: Dataset, corruption: str, *, severity: int, points: int, seed: int = 0, first: int = 0
) -> list[Cloud]:
    """Every cloud corrupted by itself, z up before and after.

    With `first`, the place of the first object in its set, they are what `purgegate corrupt` makes of them.
    """
    strength_of(corruption, severity)
    clouds = scaled_sample(data.points, points_taken(corruption, points))
    chunks = chunks_of(Cell(corruption, severity), clouds, data.meshes, seed=seed, up="z", start=first)
    return [bad for chunk in chunks for bad in corrupt_chunk(chunk)]
