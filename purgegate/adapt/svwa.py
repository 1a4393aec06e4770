"""SVWA (Bahri et al., WACV 2025): an entropy step for each of some samplings, weights averaged."""

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from purgegate.adapt.base import Method, affine_parameters, descend, dropping
from purgegate.gate.purge import entropy
from purgegate.norms import Norm
from purgegate.points.sampling import random_view


class Svwa(Method):
    """Scales and shifts of all norms learn from each view by itself, then their mean answers the whole cloud.

    A view is a farthest point sampling from a random start. Every view starts from the same weights and the
    same state of Adam, whose state goes on from the last; `sequential` lets each go on from the one before.
    The released code is `released=True, sequential=True, dropout=True`, run with batches of 4: each view is
    sampled from the one before, so that all hold the same points, and what went into the last sampling is
    answered.
    """

    draws = True

    def __init__(
        self,
        model: Any,
        *,
        lr: float = 1e-3,
        views: int = 2,
        points: int = 512,
        steps: int = 1,
        sequential: bool = False,
        released: bool = False,
        dropout: bool = False,
        norm: Norm = "batch",
        seed: int = 0,
    ) -> None:
        for name, count in {"views": views, "points": points, "steps": steps}.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1; got {count}")
        self.lr, self.views, self.points, self.steps = lr, views, points, steps
        self.sequential, self.released, self.dropout = sequential, released, dropout
        super().__init__(model, norm=norm, seed=seed)

    def start(self) -> None:
        """A new optimiser over scales and shifts."""
        self.parameters = affine_parameters(self.model, "svwa", kinds=(_BatchNorm, nn.LayerNorm))
        self.optimizer = torch.optim.Adam(self.parameters, lr=self.lr)
        self.drops = torch.Generator().manual_seed(self.seed)  # apart: views are the same with dropout

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Learn from every view, then predict with the mean weights."""
        first, state = self._weights(), copy.deepcopy(self.optimizer.state_dict())
        learned, view = [], points
        for _ in range(self.views):
            sampled = view if self.released else points
            view = random_view(sampled, min(self.points, sampled.shape[1]), generator=self.generator)
            if not self.sequential:
                self._put(first)
                self.optimizer.load_state_dict(copy.deepcopy(state))
            self._learn(view)
            learned.append(self._weights())
        self._put([torch.stack(each).mean(dim=0) for each in zip(*learned, strict=True)])
        with torch.no_grad():
            return self.logits(sampled)

    def _learn(self, view: Tensor) -> None:
        for _ in range(self.steps):
            with dropping(self.model, self.drops, active=self.dropout):
                logits = self.logits(view)
            descend(self.optimizer, entropy(logits).mean())

    def _weights(self) -> list[Tensor]:
        return [each.detach().clone() for each in self.parameters]

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)
