"""BFTT3D written plainly, as published: what the fast code must equal, and what a cloud costs without it.

Every neighbourhood of the batch is made at once, points are drawn one by one, and the alignment is a general
eigenproblem over matrices of all samples with each other.
"""

from typing import Any

import numpy as np
import scipy.linalg
import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = {"points": 1024, "stages": 3, "width": 72, "neighbours": 120}  # of Point-NN, as BFTT3D has it


class PlainBFTT3D:
    """Source logits fused with the vote of prototypes (`features` of unit length, `label`)."""

    def __init__(
        self, model: Any, features: Tensor, label: Tensor, *, width: int = 200, sizes: dict[str, int] = SIZES
    ) -> None:
        self.model, self.features, self.label, self.width, self.sizes = model, features, label, width, sizes

    @torch.no_grad()
    def __call__(self, points: Tensor) -> Tensor:
        """Fused logits of clouds (B, N, 3)."""
        source = self.model(points)
        target = F.normalize(plain_features(points, self.sizes))
        similarity = plain_similarity(target.numpy(), self.features.numpy(), self.width)
        one_hot = F.one_hot(self.label, source.shape[1]).float()
        votes = torch.exp(-205 * (1 - torch.from_numpy(similarity).float())) @ one_hot
        own, other = (-(x.softmax(1) * x.log_softmax(1)).sum(1).mean() for x in (source, votes))
        share = other / (own + other)
        return share * source + (1 - share) * votes


def plain_features(points: Tensor, sizes: dict[str, int]) -> Tensor:
    """Point-NN, stage upon stage: maximum plus mean over the points that are left."""
    x = plain_embedding(points, sizes["width"])
    for stage in range(1, sizes["stages"] + 1):
        index = plain_farthest(points, sizes["points"] >> stage)
        centers = gather(points, index)
        near = torch.cdist(centers, points).topk(sizes["neighbours"], largest=False).indices
        x = plain_stage(points, x, index, near)
        points = centers
    return x.amax(dim=1) + x.mean(dim=1)


def plain_stage(points: Tensor, x: Tensor, index: Tensor, near: Tensor) -> Tensor:
    """One stage with every tensor made."""
    center, own = gather(points, index)[:, :, None], gather(x, index)[:, :, None]
    change, offset = gather(x, near) - own, gather(points, near) - center
    change, offset = change / (change.std() + 1e-5), offset / (offset.std() + 1e-5)
    whole = torch.cat([change, own.expand_as(change)], dim=-1)
    weight = plain_embedding(offset, whole.shape[-1])
    whole = (whole + weight) * weight
    return F.gelu((whole.amax(dim=2) + whole.mean(dim=2)) / (1 + 1e-5) ** 0.5)


def plain_embedding(v: Tensor, width: int) -> Tensor:
    """Axis after axis, sine and cosine of falling frequencies in pairs."""
    period = 1000 ** (torch.arange(width // 6).to(v) / (width // 6))
    angle = 100 * v[..., None] / period
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-3)


def plain_farthest(points: Tensor, count: int) -> Tensor:
    """Farthest point sampling from the first point on, one point a turn for all clouds."""
    rows = torch.arange(len(points))
    index = torch.zeros(len(points), count, dtype=torch.long)
    distance = torch.full(points.shape[:2], float("inf")).to(points)
    for place in range(1, count):
        last = points[rows, index[:, place - 1]][:, None]
        distance = torch.minimum(distance, (points - last).square().sum(dim=-1))
        index[:, place] = distance.argmax(dim=1)
    return index


def gather(x: Tensor, index: Tensor) -> Tensor:
    """Rows of each cloud at these places."""
    return x[torch.arange(len(x)).view(-1, *[1] * (index.ndim - 1)), index]


def plain_similarity(target: np.ndarray, source: np.ndarray, width: int) -> np.ndarray:
    """The alignment as published: a general eigenproblem, smallest values first."""
    x = np.concatenate([source, target]).T.astype(np.float64)
    e = np.concatenate([np.full(len(source), 1 / len(source)), np.full(len(target), -1 / len(target))])
    m = np.outer(e, e) / np.linalg.norm(np.outer(e, e))
    h = np.eye(x.shape[1]) - 1 / x.shape[1]
    values, vectors = scipy.linalg.eig(x @ m @ x.T + np.eye(len(x)), x @ h @ x.T)
    z = vectors[:, np.argsort(values.real)[:width]].real.T @ x
    z /= np.linalg.norm(z, axis=0)
    return z[:, len(source) :].T @ z[:, : len(source)]
