"""Masked autoencoding: rebuild hidden patches from the few visible ones (Point-MAE; MATE, ICCV 2023)."""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.tokens import Tokens
from purgegate.train.chamfer import chamfer_squared
from purgegate.train.view import View

RATIO = 0.9  # share of the patches that is hidden


def masked_loss(
    model: Any, points: Float[Tensor, "B N 3"], generator: torch.Generator, *, copies: int = 1
) -> Float[Tensor, ""]:
    """Chamfer distance between hidden patches and what the model makes of the others.

    `copies` of each cloud differ in their masks alone, and share one patch embedding.
    """
    return masked_view_loss(View.of(model, points), generator, copies=copies)


def masked_view_loss(view: View, generator: torch.Generator, *, copies: int = 1) -> Float[Tensor, ""]:
    """The same from a view."""
    decoder = view.auxiliary("masked")
    tokens = Tokens(*(x.repeat_interleave(copies, dim=0) for x in view.tokens))
    patches = view.patches.repeat_interleave(copies, dim=0)
    mask = random_mask(*tokens.centers.shape[:2], generator=generator)
    visible, hidden = (index.to(tokens.centers.device) for index in mask)
    seen, unseen = tokens.keep(visible), tokens.keep(hidden)
    _, context = view.model.contextualise(seen)
    rebuilt = decoder(context, seen.centers, unseen.centers)
    truth = patches.gather(1, hidden[..., None, None].expand(-1, -1, *patches.shape[2:]))
    return chamfer_squared(rebuilt.flatten(0, 1), truth.flatten(0, 1))


def random_mask(
    batch: int, groups: int, *, generator: torch.Generator, ratio: float = RATIO
) -> tuple[Int64[Tensor, "B v"], Int64[Tensor, "B m"]]:
    """Indices of the visible and of the hidden patches of each cloud, drawn at random, in their order."""
    hidden = int(ratio * groups)
    if not 0 < hidden < groups:
        raise ValueError(
            f"a mask of {ratio} hides {hidden} of {groups} patches: some must be hidden, some not"
        )
    order = torch.rand(batch, groups, generator=generator, device=generator.device).argsort(dim=1)
    return order[:, hidden:].sort(dim=1).values, order[:, :hidden].sort(dim=1).values
