"""Which of four turns: the self-supervised task of TTT-Rot (Sun et al., ICML 2020; in 3D, Shin et al.)."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from purgegate.points.transforms import turn_quarters
from purgegate.train.view import View

UP = 2  # the axis of the turns: z points up in ModelNet and in `shapes`


def rotation_loss(
    model: Any, points: Float[Tensor, "B N 3"], generator: torch.Generator, *, axis: int = UP
) -> Float[Tensor, ""]:
    """Cross-entropy of the turn that each cloud was given, drawn at random."""
    return rotation_view_loss(View.of(model, points), generator, axis=axis)


def rotation_view_loss(view: View, generator: torch.Generator, *, axis: int = UP) -> Float[Tensor, ""]:
    """The same from a view of upright clouds: a turn moves patches and centres, but cuts no others."""
    label = torch.randint(4, (len(view.centers),), generator=generator, device=generator.device)
    label = label.to(view.centers.device)
    parts = (turn_quarters(x, label, axis=axis) for x in (view.centers, view.patches))
    turned = View(view.model, *parts)
    return F.cross_entropy(rotation_logits(turned), label)


def rotation_logits(view: View) -> Float[Tensor, "B 4"]:
    """Logits of the four turns; all but the last layer is shared with the class head."""
    hidden = view.model.class_head[:-1](view.feature)
    return view.auxiliary("rotation")(hidden)
