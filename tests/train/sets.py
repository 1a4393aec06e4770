"""A data set that a small model learns in seconds, and runs over it."""

import numpy as np
import torch

from purgegate.io.labelled import Dataset
from purgegate.train.data import Examples, farthest_first
from purgegate.train.joint import joint
from purgegate.train.loop import Run
from purgegate.train.schedule import Schedule
from purgegate.train.supervised import supervised
from tests.models import joint_model


def boxes(count: int, *, points: int = 96, seed: int = 0) -> Dataset:
    """Random points in boxes of three proportions."""
    rng = np.random.default_rng(seed)
    label = np.arange(count) % 3
    sides = np.array([[1, 1, 1], [1, 0.2, 0.2], [1, 1, 0.1]])[label]
    clouds = rng.uniform(-1, 1, (count, points, 3)) * sides[:, None]
    return Dataset(clouds.astype(np.float32), label, ("cube", "bar", "plate"))


def examples(count: int = 18, **options: int) -> Examples:
    """The boxes as training takes them."""
    return farthest_first(boxes(count, **options), 80)


def box_model(*, seed: int = 0, depth: int = 1) -> torch.nn.Module:
    """A small model for the boxes, with all auxiliary modules."""
    model = joint_model(seed=seed, depth=depth, classes=3)
    model.points = model.config["points"] = 64
    return model


def new_run(*, objectives: tuple[str, ...] = (), **schedule: float) -> Run:
    """A run that has not begun."""
    numbers = {"epochs": 3, "batch": 8, "lr": 2e-3, "pool": 80, **schedule}
    objective = joint(objectives, smoothing=0.1) if objectives else supervised(0.1)
    return Run(box_model(), objective, schedule=Schedule(**numbers))
