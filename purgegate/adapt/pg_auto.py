"""Purge first, normalise after: strays go before patches are cut, and no statistics see them."""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.base import Prediction
from purgegate.adapt.purge_gate import PurgeGate, Score
from purgegate.norms import Norm
from purgegate.points.repair.strays import isolation, replace_strays, strays
from purgegate.tokens import Tokens


def center_isolation(model: Any, tokens: Tokens) -> Float[Tensor, "B G"]:
    """How far each patch's centre lies from the others: a score for any backbone, with no source data."""
    return isolation(tokens.centers)


class AutoGate(PurgeGate):
    """The gate before the patches: one forward per cloud, for batches of any size, with no source data.

    A stray point becomes the centre of a patch of its own and spoils others; one that is purged before
    patches are cut spoils none. BatchNorm takes the statistics of what is left, as far as the batch can be
    trusted. `score` only tells how far the cloud lies from the source.
    """

    def __init__(self, model: Any, score: Score = center_isolation, *, norm: Norm = "blend") -> None:
        super().__init__(model, score, purge=(0,), norm=norm)

    @property
    def family(self) -> str:
        """The score has no part in the answer."""
        return "pg_auto"

    @property
    def options(self) -> dict[str, Any]:
        """The score has no part in the answer."""
        return {"norm": self.norm}

    def decide(self, points: Tensor) -> Prediction:
        """Purge points, then one forward; `purge` counts points here, not tokens."""
        stray = strays(points)
        found = super().decide(replace_strays(points, stray))
        return found._replace(purge=stray.sum(dim=1), strays=stray, stages=("strays",) * bool(stray.any()))
