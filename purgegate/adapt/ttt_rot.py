"""TTT-Rot (Sun et al., ICML 2020; on clouds as in MATE's comparison): tell four turns apart."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.adapt.training import SelfTraining
from purgegate.points.transforms import turn_by, turn_quarters
from purgegate.train.rotation import UP, rotation_logits
from purgegate.train.view import View


class TTTRot(SelfTraining):
    """Copies of a cloud are turned by random quarters, and the model learns to tell by how many.

    The paper's released code is `radians=True, lr=1e-7, online=False, dropout=True` with `steps=0`, that is,
    the source model: 90, 180 and 270 are taken for radians, about the axis y.
    """

    called: ClassVar[str] = "ttt_rot"
    objective: ClassVar[str] = "rotation"
    part: ClassVar[str] = "rotation head"

    def __init__(
        self,
        model: Any,
        *,
        lr: float = 1e-5,
        weight_decay: float = 0.05,
        copies: int = 48,
        online: bool = True,
        steps: int | None = None,
        every: int = 1,
        dropout: bool = False,
        axis: int = UP,
        radians: bool = False,
        seed: int = 0,
    ) -> None:
        self.axis, self.radians = axis, radians
        super().__init__(
            model,
            lr=lr,
            weight_decay=weight_decay,
            copies=copies,
            online=online,
            steps=steps,
            every=every,
            dropout=dropout,
            seed=seed,
        )

    def draw(self) -> Int64[Tensor, " n"]:
        """How many quarters each copy is turned by."""
        return torch.randint(4, (self.copies,), generator=self.generator)

    def loss(self, point: Float[Tensor, "1 N 3"]) -> Float[Tensor, ""]:
        """Cross-entropy of the turns, mean over the copies."""
        drawn = self.draw().to(point.device)
        # Without dropout, copies turned alike are equal: each turn goes through the model once, weighted.
        turns, counts = (drawn, torch.ones_like(drawn)) if self.dropout else drawn.unique(return_counts=True)
        losses = F.cross_entropy(rotation_logits(self._turned(point, turns)), turns, reduction="none")
        return (counts / counts.sum() * losses).sum()

    def _turned(self, point: Float[Tensor, "1 N 3"], turns: Int64[Tensor, " t"]) -> View:
        """A cloud at several turns: these move patches and centres, but cut no others."""
        if self.radians:  # cut anew, as released: Adam's steps follow the sign of the smallest gradients
            points = point.expand(len(turns), -1, -1)
            return View.of(self.model, turn_by(points, -90.0 * turns, axis=1))
        view = View.of(self.model, point)
        parts = (x.expand(len(turns), *x.shape[1:]) for x in (view.centers, view.patches))
        return View(self.model, *(turn_quarters(x, turns, axis=self.axis) for x in parts))
