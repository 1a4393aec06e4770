"""Class labels and self-supervised objectives together in one model, on one pass over the patches."""

from collections.abc import Callable, Collection
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.norms import momentum
from purgegate.train.data import Batch
from purgegate.train.masked import masked_view_loss
from purgegate.train.rotation import UP, rotation_view_loss
from purgegate.train.skeleton import skeleton_view_loss
from purgegate.train.supervised import Objective, Outcome
from purgegate.train.view import View

ViewLoss = Callable[[View, torch.Generator], Float[Tensor, ""]]

# Turned clouds need a second pass through the whole model, so this part of a batch is turned in each step.
TURNED = 1 / 4


def part_rotation_loss(view: View, generator: torch.Generator, *, axis: int = UP) -> Float[Tensor, ""]:
    """The loss of a batch's first part, turned, unseen by running BatchNorm statistics."""
    count = max(int(TURNED * len(view.centers)), 2)
    with momentum(view.model, 0.0):
        part = View(view.model, view.centers[:count], view.patches[:count])
        return rotation_view_loss(part, generator, axis=axis)


OBJECTIVES: dict[str, ViewLoss] = {
    "masked": masked_view_loss,  # MATE
    "rotation": part_rotation_loss,  # TTT-Rot
    "skeleton": skeleton_view_loss,  # SMART-PC
}


def joint(names: Collection[str], *, smoothing: float, axis: int = UP) -> Objective:
    """Cross-entropy of the classes, plus each named objective with weight 1; turns are about `axis`.

    The class feature is that of all tokens, as at test time (MATE's option "cyclic").
    """
    chosen = OBJECTIVES | {"rotation": partial(part_rotation_loss, axis=axis)}

    def objective(model: nn.Module, batch: Batch, generator: torch.Generator) -> Outcome:
        view = View.of(model, batch.points)
        logits = model.head(view.feature)  # type: ignore[operator]
        losses = {"class": F.cross_entropy(logits, batch.label, label_smoothing=smoothing)}
        for name in names:
            losses[name] = chosen[name](view, generator)
        return Outcome(losses, logits)

    return objective
