"""LAME (Boudiaf et al., CVPR 2022): answers of a batch corrected so that like clouds are answered alike."""

from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.base import Method, split_head
from purgegate.norms import Norm

AFFINITIES = ("rbf", "knn", "linear")


class Lame(Method):
    """One forward, then a few products of small matrices; no weight changes and nothing is kept.

    `affinity` tells how alike two clouds are: "rbf" falls with the distance of their features, in units of
    the mean distance to the k-th nearest, the cloud itself counted; "knn" is 1 for the k nearest others;
    "linear" is the cosine. Other papers run it on clouds with `affinity="knn", k=3, steps=10`.
    """

    writes: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        *,
        affinity: str = "rbf",
        k: int = 5,
        weight: float = 1.0,
        steps: int = 100,
        symmetric: bool = False,
        norm: Norm = "source",
        seed: int = 0,
    ) -> None:
        if affinity not in AFFINITIES:
            raise ValueError(f"affinity must be one of {', '.join(AFFINITIES)}; got {affinity!r}")
        for name, count in {"k": k, "steps": steps}.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1; got {count}")
        self.affinity, self.k, self.weight = affinity, k, weight
        self.steps, self.symmetric = steps, symmetric
        super().__init__(model, norm=norm, seed=seed)

    def start(self) -> None:
        """Where the features of the last layer are found."""
        self.hidden, self.last = split_head(self.model, "lame")

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Log-probabilities after the correction."""
        features = self.hidden(self.model.encode(self.model.tokenize(points)))
        alike = affinities(F.normalize(features.float()), self.affinity, k=self.k)
        alike = (alike + alike.T) / 2 if self.symmetric else alike
        return agree(self.last(features).float(), self.weight * alike, steps=self.steps).logits


class Agreement(NamedTuple):
    """The corrected answers, and how many steps they took."""

    logits: Float[Tensor, "B C"]
    steps: int


def affinities(features: Float[Tensor, "B W"], kind: str, *, k: int) -> Float[Tensor, "B B"]:
    """How alike the clouds of a batch are, by features of unit length."""
    if kind == "linear":
        return features @ features.T
    distance = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")
    if kind == "rbf":
        width = distance.kthvalue(min(k, len(distance)), dim=1).values.mean()
        return torch.exp(-distance.square() / (2 * width.square()).clamp(min=1e-12))  # equal clouds: all ones
    # A cloud is no neighbour of its own, wherever equal ones are sorted.
    others = distance.fill_diagonal_(torch.inf).argsort(dim=1, stable=True)[:, : min(k, len(distance) - 1)]
    return torch.zeros_like(distance).scatter_(1, others, 1.0)


def agree(logits: Float[Tensor, "B C"], alike: Float[Tensor, "B B"], *, steps: int) -> Agreement:
    """Answers near the given ones and near those of like clouds, by a bound that falls with every step."""
    unary = -torch.log(logits.softmax(dim=1) + 1e-10)
    log_y, before = (-unary).log_softmax(dim=1), torch.inf
    for step in range(1, steps + 1):
        log_y = (alike @ log_y.exp() - unary).log_softmax(dim=1)
        energy = _energy(unary, alike, log_y.exp())
        if step > 2 and abs(energy - before) <= 1e-8 * abs(before):
            break
        before = energy
    return Agreement(log_y, step)


def _energy(unary: Float[Tensor, "B C"], alike: Float[Tensor, "B B"], y: Float[Tensor, "B C"]) -> float:
    pairs = (alike @ y) * y
    return float((unary * y - pairs + y * y.clamp(min=1e-20).log()).sum())
