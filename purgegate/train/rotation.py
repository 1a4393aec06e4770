"""Which of four turns: the self-supervised task of TTT-Rot (Sun et al., ICML 2020; in 3D, Shin et al.)."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

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
    turned = View(view.model, turn(view.centers, label, axis=axis), turn(view.patches, label, axis=axis))
    return F.cross_entropy(rotation_logits(turned), label)


def rotation_logits(view: View) -> Float[Tensor, "B 4"]:
    """Logits of the four turns; all but the last layer is shared with the class head."""
    hidden = view.model.class_head[:-1](view.feature)
    return view.auxiliary("rotation")(hidden)


def turn(
    x: Float[Tensor, "B *axes 3"], quarters: Int64[Tensor, " B"], *, axis: int
) -> Float[Tensor, "B *axes 3"]:
    """Each cloud turned about an axis by so many times 90 degrees, exactly."""
    cosine = torch.tensor([1.0, 0.0, -1.0, 0.0]).to(x)[quarters]
    sine = torch.tensor([0.0, 1.0, 0.0, -1.0]).to(x)[quarters]
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix = torch.zeros(len(x), 3, 3).to(x)
    matrix[:, axis, axis] = 1
    matrix[:, first, first] = matrix[:, second, second] = cosine
    matrix[:, first, second], matrix[:, second, first] = sine, -sine
    return (x.flatten(1, -2) @ matrix).view_as(x)
