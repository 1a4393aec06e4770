"""SMART-PC (Bahri et al., ICML 2025): adapt by covering the test cloud with spheres."""

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from purgegate.adapt.base import affine_parameters, descend, moving_statistics
from purgegate.adapt.training import SelfTraining
from purgegate.adapt.views import random_angles
from purgegate.points.transforms import turn_by
from purgegate.train.rotation import UP
from purgegate.train.skeleton import skeleton_view_loss
from purgegate.train.view import View

LEARNED: dict[str, tuple[type[nn.Module], ...]] = {
    "all": (),
    "batch_norm": (_BatchNorm,),
    "norm": (_BatchNorm, nn.LayerNorm),
}


class SmartPC(SelfTraining):
    """Copies of a cloud, turned at random about the vertical, are covered with the model's spheres.

    Online, running BatchNorm statistics move with the copies by `momentum`; `backprop=False` moves nothing
    else. `learn` limits the steps to the scales and shifts of "batch_norm" or of every "norm". The head
    takes no part in the skeleton, so its statistics stay. Purge-Gate's tables quote the standard setting,
    `online=False`, where all statistics stay.
    """

    called: ClassVar[str] = "smart_pc"
    objective: ClassVar[str] = "skeleton"
    part: ClassVar[str] = "skeleton decoder"

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
        backprop: bool = True,
        momentum: float = 0.1,
        learn: str = "all",
        axis: int = UP,
        seed: int = 0,
    ) -> None:
        if learn not in LEARNED:
            raise ValueError(f"learn must be one of {', '.join(LEARNED)}; got {learn!r}")
        self.backprop, self.momentum, self.learn, self.axis = backprop, momentum, learn, axis
        super().__init__(
            model,
            lr=lr,
            weight_decay=weight_decay,
            copies=copies,
            online=online,
            steps=steps,
            every=every,
            seed=seed,
        )

    def start(self) -> None:
        """No cloud seen, a new optimiser over what is learned."""
        if LEARNED[self.learn]:
            affine_parameters(self.model, self.called, kinds=LEARNED[self.learn])
        super().start()

    def step(self, point: Float[Tensor, "1 N 3"]) -> None:
        """One step of training, of statistics, or of both."""
        if not self.backprop:
            # Nothing behind the embedding has statistics to move.
            with torch.no_grad(), moving_statistics(self.model, self.momentum):
                self._turned(point).tokens  # noqa: B018 (computed when asked for)
        elif self.online:
            with moving_statistics(self.model, self.momentum):
                loss = self.loss(point)
            descend(self.optimizer, loss)
        else:
            super().step(point)

    def loss(self, point: Float[Tensor, "1 N 3"]) -> Float[Tensor, ""]:
        """How badly the spheres cover the turned copies."""
        return skeleton_view_loss(self._turned(point), self.generator)

    def _turned(self, point: Float[Tensor, "1 N 3"]) -> View:
        """The cloud at random angles: these move patches and centres, but cut no others."""
        view = View.of(self.model, point)
        angles = random_angles(self.copies, generator=self.generator)
        parts = (x.expand(self.copies, *x.shape[1:]) for x in (view.centers, view.patches))
        return View(self.model, *(turn_by(x, angles, axis=self.axis) for x in parts))
