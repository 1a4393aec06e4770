"""Which points of a cloud a method left out."""

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from purgegate.adapt.base import Prediction
from purgegate.points.neighbours import nearest_neighbours
from purgegate.typing import Points


@torch.no_grad()
def purged_points(model: Any, points: Points, found: Prediction) -> Bool[Tensor, "B N"]:
    """The strays, or the points whose nearest patch was purged; none where a method purges nothing."""
    if found.strays is not None:
        return found.strays
    if not found.scores.shape[1] or not found.purge.any():
        return torch.zeros(points.shape[:2], dtype=torch.bool, device=points.device)
    patch = nearest_neighbours(model.tokenize(points).centers, points, 1)[..., 0]
    rank = found.scores.argsort(dim=1, stable=True).argsort(dim=1)
    dropped = rank >= (found.scores.shape[1] - found.purge)[:, None]
    return dropped.gather(1, patch)
