"""What the test-time-training methods hang on a classifier: a decoder, a second last layer, spheres.

Each is an entry of the model's `auxiliary`, under the name of its objective; a plain classifier has none.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.backbones.attention import Trunk
from purgegate.heads import HIDDEN

DEPTH = 4  # blocks of a decoder, as released


class Decoder(Trunk):
    """Blocks in a row, and a last normalisation."""

    def __init__(self, width: int, *, depth: int, heads: int) -> None:
        super().__init__(width, depth=depth, heads=heads, drop_path=0.0)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Float[Tensor, "B T D"], positions: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The tokens behind the last block, normalised."""
        return self.norm(super().forward(x, positions))


class MaskedDecoder(nn.Module):
    """Point-MAE's decoder: from visible tokens to the points of masked patches; published names."""

    def __init__(self, width: int, *, heads: int, group_size: int, depth: int = DEPTH) -> None:
        super().__init__()
        self.mask_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.decoder_pos_embed = position_embedding(width)
        self.MAE_decoder = Decoder(width, depth=depth, heads=heads)
        self.increase_dim = nn.Sequential(nn.Linear(width, 3 * group_size))

    def forward(
        self,
        visible: Float[Tensor, "B v D"],
        visible_centers: Float[Tensor, "B v 3"],
        masked_centers: Float[Tensor, "B m 3"],
    ) -> Float[Tensor, "B m K 3"]:
        """The points of the masked patches, relative to their centres."""
        batch, masked, _ = masked_centers.shape
        x = torch.cat([visible, self.mask_token.expand(batch, masked, -1)], dim=1)
        positions = self.decoder_pos_embed(torch.cat([visible_centers, masked_centers], dim=1))
        rebuilt = self.MAE_decoder(x, positions)[:, -masked:]
        return self.increase_dim(rebuilt).unflatten(-1, (-1, 3))


class SkeletonDecoder(nn.Module):
    """SMART-PC's decoder: one sphere a token, its centre relative to the patch's and its radius."""

    def __init__(self, width: int, *, heads: int, depth: int = DEPTH) -> None:
        super().__init__()
        self.position = position_embedding(width)
        self.decoder = Decoder(width, depth=depth, heads=heads)
        self.center = nn.Linear(width, 3)
        self.radius = nn.Linear(width, 1)

    def forward(
        self, tokens: Float[Tensor, "B G D"], centers: Float[Tensor, "B G 3"]
    ) -> tuple[Float[Tensor, "B G 3"], Float[Tensor, "B G"]]:
        """Centres and radii of the spheres."""
        x = self.decoder(tokens, self.position(centers))
        return centers + self.center(x), self.radius(x).squeeze(-1)


class RotationHead(nn.Linear):
    """TTT-Rot's second last layer: which of four turns; the hidden layers of the class head are shared."""

    def __init__(self) -> None:
        super().__init__(HIDDEN, 4)


AUXILIARY = ("masked", "rotation", "skeleton")


def make_auxiliary(name: str, model: Any, *, depth: int = DEPTH) -> nn.Module:
    """A new module for the objective, of the model's width and heads."""
    if name not in AUXILIARY:
        raise ValueError(f"an auxiliary objective must be one of {', '.join(AUXILIARY)}; got {name!r}")
    if name == "rotation":
        return RotationHead()
    if "heads" not in model.config:
        raise ValueError(
            f"the objective {name} needs a backbone of attention blocks, for its decoder has the same heads; "
            f"{type(model).__name__} has none: use rotation, or a Point-MAE"
        )
    width, heads = model.config["width"], model.config["heads"]
    if name == "masked":
        return MaskedDecoder(width, heads=heads, group_size=model.group_size, depth=depth)
    return SkeletonDecoder(width, heads=heads, depth=depth)


def attach_auxiliary(model: Any, state: dict[str, Tensor]) -> None:
    """Hang those modules on the model that the tensors of a file fill."""
    for name in AUXILIARY:
        keys = [key for key in state if key.startswith(f"auxiliary.{name}.")]
        blocks = [int(key.split(".blocks.")[1].split(".")[0]) for key in keys if ".blocks." in key]
        if keys:
            model.auxiliary[name] = make_auxiliary(name, model, depth=1 + max(blocks, default=0))


def position_embedding(width: int) -> nn.Sequential:
    """From a centre to a token's position."""
    return nn.Sequential(nn.Linear(3, 128), nn.GELU(), nn.Linear(128, width))
