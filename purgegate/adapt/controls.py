"""Controls: how much of a gain comes from choosing among several answers, whichever tokens are dropped."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.base import Method
from purgegate.adapt.purge_gate import SIZES, PurgeGate
from purgegate.gate.purge import most_certain
from purgegate.imports import path_of
from purgegate.norms import Norm
from purgegate.points.sampling import random_view
from purgegate.tokens import Tokens


class RandomPurge(PurgeGate):
    """The gate with scores that are drawn: as many tokens dropped, but any."""

    draws = True

    def __init__(
        self,
        model: Any,
        *,
        purge: Sequence[int] = SIZES,
        norm: Norm = "batch",
        select: str = "cloud",
        seed: int = 0,
    ) -> None:
        super().__init__(model, self.draw, purge=purge, norm=norm, select=select, seed=seed)

    @property
    def family(self) -> str:
        """The score is the class's own."""
        return path_of(type(self))

    def draw(self, model: Any, tokens: Tokens) -> Float[Tensor, "B G"]:
        """A score for each token that knows nothing of it."""
        return torch.rand(tokens.features.shape[:2], generator=self.generator).to(tokens.features)


class RandomStarts(Method):
    """Nothing dropped: patches cut from several random starts, and the most certain answer of each cloud.

    The first view is the cloud as it came, so that one view is the model itself.
    """

    writes: ClassVar[bool] = False
    draws = True

    def __init__(self, model: Any, *, views: int = 6, norm: Norm = "batch", seed: int = 0) -> None:
        if views < 1:
            raise ValueError(f"views must be at least 1; got {views}")
        self.views = views
        super().__init__(model, norm=norm, seed=seed)

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """One forward a view."""
        count, others = points.shape[1], range(self.views - 1)
        views = [points, *(random_view(points, count, generator=self.generator) for _ in others)]
        candidates = torch.stack([self.logits(view) for view in views], dim=1)
        return candidates[torch.arange(len(points), device=candidates.device), most_certain(candidates)]
