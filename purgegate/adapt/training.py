"""Test-time training: some steps down a self-supervised loss of a cloud before it is answered."""

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.base import Method, descend, dropping
from purgegate.train.schedule import make_adamw


class SelfTraining(Method):
    """Cloud by cloud, with the objective that the source model was trained with beside its labels.

    Online, each cloud takes one step and the model stays adapted. The standard setting, `online=False`, takes
    twenty from the source weights for every cloud, so that no cloud knows of another. `every` lets only each
    n-th cloud train. Released codes train with `dropout=True`: dropout and drop-path at work in the steps.
    """

    draws = True
    called: ClassVar[str]
    objective: ClassVar[str]  # of the model's auxiliary modules
    part: ClassVar[str]  # what that is

    def __init__(
        self,
        model: Any,
        *,
        lr: float = 5e-5,
        weight_decay: float = 0.05,
        copies: int = 48,
        online: bool = True,
        steps: int | None = None,
        every: int = 1,
        dropout: bool = False,
        seed: int = 0,
    ) -> None:
        if self.objective not in getattr(model, "auxiliary", ()):
            raise ValueError(
                f"{self.called} needs a model with a {self.part}: train one with `purgegate train joint`"
            )
        for name, count in {"copies": copies, "every": every}.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1; got {count}")
        if every > 1 and not online:
            raise ValueError(f"every must be 1 where each cloud starts anew (online=False); got {every}")
        self.lr, self.weight_decay, self.copies, self.every = lr, weight_decay, copies, every
        self.dropout = dropout
        self.online, self.steps = online, steps if steps is not None else (1 if online else 20)
        super().__init__(model, norm="source", seed=seed)

    def start(self) -> None:
        """No cloud seen, a new optimiser."""
        self.seen = 0
        self.drops = torch.Generator().manual_seed(self.seed)  # apart: copies are the same with dropout
        self.model.eval()
        # As released: the class token's position decays, the tokens do not.
        self.optimizer = make_adamw(self.model, lr=self.lr, weight_decay=self.weight_decay, free=("token",))

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Train on each cloud, then answer it."""
        return torch.cat([self._answer_one(point[None]) for point in points])

    def _answer_one(self, point: Float[Tensor, "1 N 3"]) -> Float[Tensor, "1 C"]:
        if not self.online:
            self.reset()
        if self.seen % self.every == 0:
            for _ in range(self.steps):
                self.step(point)
        self.seen += 1
        with torch.no_grad():
            return self.logits(point)

    def step(self, point: Float[Tensor, "1 N 3"]) -> None:
        """One step of training."""
        with dropping(self.model, self.drops, active=self.dropout):
            loss = self.loss(point)
        descend(self.optimizer, loss)

    def loss(self, point: Float[Tensor, "1 N 3"]) -> Float[Tensor, ""]:
        """The self-supervised loss of one cloud."""
        raise NotImplementedError
