"""MEMO (Zhang et al., NeurIPS 2022): for each cloud, a step towards copies that are answered alike."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.adapt.base import Method, descend
from purgegate.adapt.shot import mean_entropy
from purgegate.adapt.views import jitter, random_angles
from purgegate.norms import statistics_from
from purgegate.points.transforms import turn_by
from purgegate.pools import Pool
from purgegate.train.rotation import UP

SHIFT = 0.2  # a copy is moved by at most this much along each axis


class Memo(Method):
    """All weights take a step down the entropy of the mean answer of some copies, for each cloud anew.

    The first copy is the cloud itself; each other is turned about the vertical, jittered or moved, as in
    CloudFixer's comparison, which runs it with `lr=1e-6`. BatchNorm's statistics are the source's with
    the copies' as the last of `prior` + 1 parts, also for the answer, which is the cloud's own.
    """

    draws = True

    def __init__(
        self,
        model: Any,
        *,
        copies: int = 64,
        lr: float = 1e-5,
        weight_decay: float = 0.01,
        steps: int = 1,
        prior: float = 16.0,
        axis: int = UP,
        seed: int = 0,
    ) -> None:
        if min(copies, steps) < 1:
            raise ValueError(f"copies and steps must be at least 1; got {copies} and {steps}")
        if not prior > 0:
            raise ValueError(f"prior must be positive, the parts of the source's statistics; got {prior}")
        if not isinstance(model, nn.Module):
            raise ValueError(
                f"memo needs a torch module, whose weights learn; got {type(model).__name__}: use source_bn"
            )
        self.copies, self.lr, self.weight_decay, self.steps = copies, lr, weight_decay, steps
        self.prior, self.axis = prior, axis
        super().__init__(model, norm="source", seed=seed)

    def start(self) -> None:
        """The weights to which every cloud returns."""
        self._first = [each.detach().clone() for each in self.model.parameters()]

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Cloud by cloud; none knows of another."""
        return torch.cat([self._answer_one(point[None]) for point in points])

    def _answer_one(self, point: Float[Tensor, "1 N 3"]) -> Float[Tensor, "1 C"]:
        try:
            leaning = self._learn(self.augment(point))
            with torch.no_grad(), statistics_from(self._batch_norms, "pool", clouds=1, pool=leaning):
                return self.logits(point)
        finally:
            with torch.no_grad():
                for parameter, value in zip(self.model.parameters(), self._first, strict=True):
                    parameter.copy_(value)

    def _learn(self, copies: Float[Tensor, "A N 3"]) -> "Leaning":
        """Steps with a new optimiser, and the statistics of the last of them."""
        weights = self.model.parameters()
        optimizer = torch.optim.AdamW(weights, lr=self.lr, weight_decay=self.weight_decay)
        for _ in range(self.steps):
            leaning = Leaning(prior=self.prior)
            with statistics_from(self._batch_norms, "pool", clouds=1, pool=leaning):
                loss = mean_entropy(self.logits(copies))
            descend(optimizer, loss)
        return leaning

    def augment(self, point: Float[Tensor, "1 N 3"]) -> Float[Tensor, "A N 3"]:
        """The cloud and its copies, each changed in one way."""
        others = point.repeat(self.copies - 1, 1, 1)
        way = torch.randint(3, (len(others),), generator=self.generator).to(point.device)
        angles = random_angles(len(others), generator=self.generator)
        move = SHIFT * (2 * torch.rand(len(others), 1, 3, generator=self.generator) - 1).to(point)
        changed = (
            turn_by(others, angles, axis=self.axis),
            jitter(others, generator=self.generator),
            others + move,
        )
        return torch.cat([point, *(x[way == number] for number, x in enumerate(changed))])


class Leaning(Pool):
    """The source's statistics, leaning towards those of the first batch that passes."""

    def __init__(self, *, prior: float) -> None:
        super().__init__(prior=prior)
        self.first: dict[int, tuple[Tensor, Tensor]] = {}

    def join(
        self, place: int, clouds: int, layer: Any, mean: Float[Tensor, " D"], var: Float[Tensor, " D"]
    ) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """Each of mean and variance as `prior` parts of the source's and one of the first batch's."""
        # As released, statistics are constants of the step: no gradient goes through them.
        own = self.first.setdefault(place, (mean.detach().float(), var.detach().float()))
        share = 1 / (self.prior + 1)
        return layer.running_mean.lerp(own[0], share), layer.running_var.lerp(own[1], share)
