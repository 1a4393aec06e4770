"""Purge first, normalise after: strays go before patches are cut, and no statistics see them."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.purge_gate import Prediction, PurgeGate, Score
from purgegate.points.patches import check_clouds
from purgegate.points.repair.strays import isolation, replace_strays, strays
from purgegate.tokens import Tokens


def center_isolation(model: Any, tokens: Tokens) -> Float[Tensor, "B G"]:
    """How far each patch's centre lies from the others: a score for any backbone, with no source data."""
    return isolation(tokens.centers)


class AutoGate(PurgeGate):
    """The gate before the patches: one forward a cloud, for batches of any size, with no source data.

    A stray point becomes the centre of a patch of its own and spoils others; one that is purged before
    patches are cut spoils none. BatchNorm takes the statistics of what is left, as far as the batch can be
    trusted. `score` only tells how far the cloud lies from the source.
    """

    def __init__(self, model: Any, score: Score = center_isolation, *, norm: str = "blend") -> None:
        super().__init__(model, score, purge=(0,), norm=norm)
        self.name, self.options = "pg_auto", {"norm": norm}

    @torch.no_grad()
    def predict(self, points: Tensor) -> Prediction:
        """Purge points, then one forward; `purge` counts points here, not tokens."""
        check_clouds(points, self.model)
        stray = strays(points)
        found = super().predict(replace_strays(points, stray))
        return found._replace(purge=stray.sum(dim=1))
