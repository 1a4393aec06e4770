"""A cache of prototypes from the stream, after Uni-Adapter (Tamjidi et al., AAAI 2026), for any one model."""

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.adapt.base import Method, split_head
from purgegate.gate.purge import entropy
from purgegate.norms import Norm


class Cache(NamedTuple):
    """Centres of clusters of features, the class of each, and how much certainty went into it."""

    centers: Float[Tensor, "m W"]
    label: Int64[Tensor, " m"]
    weight: Float[Tensor, " m"]


class PrototypeCache(Method):
    """Each class has up to `size` cluster centres; their vote joins the model's own answer.

    Clouds join the cache one after another, with the weight exp(−`sharpness` · entropy): as a new centre
    while their class has room, else moving the nearest one, whose past counts `memory`. Centres that
    point alike share their labels by `smoothing`. A batch joins before it is answered, as a single cloud of
    the paper does. There both answers are cosines; here a centre counts as a row of the last layer.
    """

    writes: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        *,
        size: int = 30,
        sharpness: float = 10.0,
        memory: float = 0.99,
        smoothing: float = 0.3,
        threshold: float = 0.5,
        norm: Norm = "source",
        seed: int = 0,
    ) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, the centres of a class; got {size}")
        if smoothing < 0 or not 0 <= memory <= 1:
            raise ValueError(
                f"smoothing must be at least 0 and memory in [0, 1]; got {smoothing} and {memory}"
            )
        self.size, self.sharpness, self.memory = size, sharpness, memory
        self.smoothing, self.threshold = smoothing, threshold
        super().__init__(model, norm=norm, seed=seed)

    @torch.no_grad()
    def start(self) -> None:
        """An empty cache."""
        self.hidden, self.last = split_head(self.model, "cache")
        rows = self.last.weight
        label = torch.empty(0, dtype=torch.long, device=rows.device)
        self.cache = Cache(rows.new_empty(0, rows.shape[1]), label, rows.new_empty(0))
        self.length = rows.norm(dim=1).mean()

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Take the batch in, then fuse both answers."""
        features = self.hidden(self.model.encode(self.model.tokenize(points)))
        own, features = self.last(features).float(), features.float()
        weight = torch.exp(-self.sharpness * entropy(own))
        directions = F.normalize(features)
        for direction, label, each in zip(directions, own.argmax(dim=1), weight, strict=True):
            self.cache = joined(self.cache, direction, label, each, size=self.size, memory=self.memory)
        votes = self.vote(directions, own.shape[1])
        return fuse(own, features.norm(dim=1, keepdim=True) * self.length * votes)

    def vote(self, directions: Float[Tensor, "B W"], classes: int) -> Float[Tensor, "B C"]:
        """For each class, the mean cosine to its centres, labels smoothed; 0 without any."""
        label = F.one_hot(self.cache.label, classes).to(directions)
        alike = (self.cache.centers @ self.cache.centers.T).float()
        shared = smooth(label, alike.where(alike > self.threshold, 0.0), by=self.smoothing)
        return (directions @ self.cache.centers.T).float() @ shared / label.sum(dim=0).clamp(min=1)


def joined(
    cache: Cache,
    direction: Float[Tensor, " W"],
    label: Int64[Tensor, ""],
    weight: Float[Tensor, ""],
    *,
    size: int,
    memory: float,
) -> Cache:
    """The cache with one cloud more."""
    members = (cache.label == label).nonzero().squeeze(1)
    if len(members) < size:
        new = direction[None], label[None], weight[None]
        return Cache(*(torch.cat(pair) for pair in zip(cache, new, strict=True)))
    nearest = members[(cache.centers[members] @ direction).argmax()]
    past = memory * cache.weight[nearest]
    total = (weight + past).clamp(min=1e-30)  # a certainty of exp(-40) is still one
    center = (weight * direction + past * cache.centers[nearest]) / total
    centers, weights = cache.centers.clone(), cache.weight.clone()
    centers[nearest], weights[nearest] = F.normalize(center, dim=0), total
    return Cache(centers, cache.label, weights)


def smooth(label: Float[Tensor, "m C"], alike: Float[Tensor, "m m"], *, by: float) -> Float[Tensor, "m C"]:
    """Labels that differ little between centres which are alike: (I + by · L) Z = labels.

    L is the normalised Laplacian of the graph, so that a crowd of centres smooths no more than a few.
    """
    alike = alike - torch.diag(alike.diagonal())
    root = alike.sum(dim=1).clamp(min=1e-12).rsqrt() * (alike.sum(dim=1) > 0)
    eye = torch.eye(len(alike), dtype=alike.dtype, device=alike.device)
    laplacian = torch.diag((root > 0).to(alike)) - root[:, None] * alike * root
    return torch.cholesky_solve(label, torch.linalg.cholesky(eye + by * laplacian))


def fuse(own: Float[Tensor, "B C"], other: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
    """The mean of two answers, each weighted by the uncertainty of the other."""
    doubt, doubt_of_other = (entropy(x)[:, None] + 1e-12 for x in (own, other))
    return (doubt_of_other * own + doubt * other) / (doubt + doubt_of_other)
