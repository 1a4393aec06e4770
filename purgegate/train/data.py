"""What training reads: whole sets in memory, and batches that depend on the seed and the epoch alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.io.datasets import Dataset
from purgegate.points.sampling import farthest_points, take


class Batch(NamedTuple):
    """Clouds as the model sees them in a step, the same points as they were, and their labels."""

    points: Float[Tensor, "B N 3"]
    clean: Float[Tensor, "B N 3"]
    label: Int64[Tensor, " B"]


@dataclass(frozen=True)
class Examples:
    """A labelled set as tensors, its points in farthest-point order."""

    points: Float[Tensor, "n N 3"]
    label: Int64[Tensor, " n"]

    def __len__(self) -> int:
        return self.points.shape[0]


def farthest_first(data: Dataset, count: int) -> Examples:
    """The `count` farthest points of every cloud, in that order; smaller clouds repeat theirs."""
    points = torch.from_numpy(data.points)
    parts = [take(part, farthest_points(part, count)) for part in points.split(256)]
    return Examples(torch.cat(parts), torch.from_numpy(data.label))


def steps_in(examples: Examples, batch: int) -> int:
    """How many batches `epoch_batches` gives."""
    return max((len(examples) + batch - 2) // batch, 1)


def epoch_batches(
    examples: Examples, epoch: int, *, seed: int, batch: int, points: int, augment: bool
) -> Iterator[Batch]:
    """All clouds once in a new order, each as a random subset of its points.

    Whatever is left over at the end joins the last batch if it were a single cloud, which has no variance.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(examples))
    bounds = list(range(batch, len(order) - 1, batch))
    for index in np.split(order, bounds):
        rows = torch.from_numpy(index)
        clean = random_subset(examples.points[rows], points, generator)
        seen = scale_and_shift(clean, generator) if augment else clean
        yield Batch(seen, clean, examples.label[rows])


def random_subset(
    points: Float[Tensor, "B N 3"], count: int, generator: np.random.Generator
) -> Float[Tensor, "B m 3"]:
    """`count` points of each cloud in random order, none twice unless it has too few."""
    ranks = generator.random(points.shape[:2]).argsort(axis=1)
    index = torch.from_numpy(ranks[:, np.arange(count) % points.shape[1]])
    return take(points, index)


def scale_and_shift(points: Float[Tensor, "B N 3"], generator: np.random.Generator) -> Float[Tensor, "B N 3"]:
    """Each cloud scaled by U(2/3, 3/2) and shifted by U(−0.2, 0.2) on every axis of its own."""
    shape = (len(points), 1, 3)
    scale = torch.from_numpy(generator.uniform(2 / 3, 3 / 2, shape)).to(points)
    shift = torch.from_numpy(generator.uniform(-0.2, 0.2, shape)).to(points)
    return points * scale + shift
