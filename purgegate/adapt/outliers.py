"""Plain tools: outliers removed as point-cloud libraries do it, then nothing but the BatchNorm reset."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.spatial import cKDTree
from torch import Tensor

from purgegate.adapt.base import Method, Prediction
from purgegate.kernels.parallel import over_clouds
from purgegate.norms import Norm
from purgegate.points.repair.strays import replace_strays
from purgegate.typing import Points


class Removing(Method):
    """The control on clouds whose outliers were replaced by copies of other points."""

    writes: ClassVar[bool] = False

    def outliers(self, points: Points) -> Bool[Tensor, "B N"]:
        """Which points are taken out."""
        raise NotImplementedError  # each tool has its own

    def decide(self, points: Tensor) -> Prediction:
        """Take points out, then one forward; `purge` counts points."""
        out = self.outliers(points)
        found = super().decide(replace_strays(points, out))
        return found._replace(purge=out.sum(dim=1), strays=out, stages=("strays",) * bool(out.any()))

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """One forward."""
        return self.logits(points)


class StatisticalRemoval(Removing):
    """Points whose mean distance to their neighbours lies `ratio` standard deviations above their cloud's."""

    def __init__(
        self, model: Any, *, neighbours: int = 20, ratio: float = 2.0, norm: Norm = "batch", seed: int = 0
    ) -> None:
        if neighbours < 2:
            raise ValueError(f"neighbours must be at least 2, the point itself included; got {neighbours}")
        self.neighbours, self.ratio = neighbours, ratio
        super().__init__(model, norm=norm, seed=seed)

    def outliers(self, points: Points) -> Bool[Tensor, "B N"]:
        """Which points are taken out."""
        return statistical_outliers(points, neighbours=self.neighbours, ratio=self.ratio)


class RadiusRemoval(Removing):
    """Points with no more than `least` of the cloud, themselves included, within `radius`.

    The radius is one of clouds of about unit size, as models take them.
    """

    def __init__(
        self, model: Any, *, least: int = 4, radius: float = 0.15, norm: Norm = "batch", seed: int = 0
    ) -> None:
        if least < 1 or not radius > 0:
            raise ValueError(f"least must be at least 1 and radius positive; got {least} and {radius}")
        self.least, self.radius = least, radius
        super().__init__(model, norm=norm, seed=seed)

    def outliers(self, points: Points) -> Bool[Tensor, "B N"]:
        """Which points are taken out."""
        return radius_outliers(points, least=self.least, radius=self.radius)


def statistical_outliers(points: Points, *, neighbours: int = 20, ratio: float = 2.0) -> Bool[Tensor, "B N"]:
    """Open3D's rule: the point itself is one of its neighbours, and the deviation is that of a sample."""
    return _over_clouds(partial(_statistical, neighbours=neighbours, ratio=ratio), points)


def radius_outliers(points: Points, *, least: int, radius: float) -> Bool[Tensor, "B N"]:
    """Open3D's rule: a point stays that has more than `least` within the radius, itself included."""
    return _over_clouds(partial(_sparse, least=least, radius=radius), points)


def _over_clouds(rule: Any, points: Points) -> Bool[Tensor, "B N"]:
    """The rule on every cloud; one of which it would leave nothing is left as it is."""
    clouds = points.detach().float().cpu().numpy()
    out = np.zeros(clouds.shape[:2], dtype=bool)

    def fill(clouds: np.ndarray, out: np.ndarray) -> None:
        for cloud, row in zip(clouds, out, strict=True):
            found = rule(cloud)
            row[:] = found & ~found.all()

    over_clouds(fill, clouds, out)
    return torch.from_numpy(out).to(points.device)


def _statistical(cloud: Float[np.ndarray, "N 3"], *, neighbours: int, ratio: float) -> Bool[np.ndarray, " N"]:
    if len(cloud) < 2:
        return np.zeros(len(cloud), dtype=bool)
    distance = cKDTree(cloud).query(cloud, k=np.arange(1, min(neighbours, len(cloud)) + 1))[0]
    mean = distance.mean(axis=1)
    return mean > mean.mean() + ratio * mean.std(ddof=1)


def _sparse(cloud: Float[np.ndarray, "N 3"], *, least: int, radius: float) -> Bool[np.ndarray, " N"]:
    # The distance to the neighbour that would be one too many tells, for a fraction of the time of a count.
    if len(cloud) <= least:
        return np.zeros(len(cloud), dtype=bool)
    distance = cKDTree(cloud).query(cloud, k=[least + 1])[0][:, 0]
    return distance > radius
