"""Controls: how much of a gain comes from choosing among several answers, whichever tokens are dropped."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.base import Method
from purgegate.adapt.purge_gate import SIZES, PurgeGate
from purgegate.gate.purge import most_certain
from purgegate.points.sampling import random_view
from purgegate.tokens import Tokens


class RandomPurge(PurgeGate):
    """The gate with scores that are drawn: as many tokens dropped, but any."""

    def __init__(
        self,
        model: Any,
        *,
        purge: Sequence[int] = SIZES,
        norm: str = "batch",
        select: str = "cloud",
        seed: int = 0,
    ) -> None:
        super().__init__(model, self.draw, purge=purge, norm=norm, select=select)
        self.seed = seed
        self.reset()

    def reset(self) -> None:
        """Draw from the start again."""
        self.generator = torch.Generator().manual_seed(self.seed)

    def draw(self, model: Any, tokens: Tokens) -> Float[Tensor, "B G"]:
        """A score for each token that knows nothing of it."""
        return torch.rand(tokens.features.shape[:2], generator=self.generator).to(tokens.features)


class RandomStarts(Method):
    """Nothing dropped: patches cut from several random starts, and the most certain answer of each cloud.

    The first view is the cloud as it came, so that one view is the model itself.
    """

    writes: ClassVar[bool] = False

    def __init__(self, model: Any, *, views: int = 6, norm: str = "batch", seed: int = 0) -> None:
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
