"""Class labels: the objective of every source model."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.train.data import Batch


class Outcome(NamedTuple):
    """Losses of a step by name, to be added, and class logits where the objective gives them."""

    losses: dict[str, Float[Tensor, ""]]
    logits: Float[Tensor, "B C"] | None = None


Objective = Callable[[nn.Module, Batch, torch.Generator], Outcome]


def supervised(smoothing: float) -> Objective:
    """Cross-entropy of the classes, their labels smoothed."""

    def objective(model: nn.Module, batch: Batch, generator: torch.Generator) -> Outcome:
        logits = model(batch.points)
        return Outcome({"class": F.cross_entropy(logits, batch.label, label_smoothing=smoothing)}, logits)

    return objective
