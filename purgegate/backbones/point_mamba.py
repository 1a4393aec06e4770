"""The PointMamba classifier (Liang et al., NeurIPS 2024): patches along two curves, a state-space model."""

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.backbones.base import PatchClassifier, check_sizes
from purgegate.backbones.mamba import Trunk
from purgegate.heads import classifier
from purgegate.points.curves import BITS, curve_orders
from purgegate.tokens import PatchEmbed, Tokens


class PointMamba(PatchClassifier):
    """Mamba blocks over patch tokens in two orders, no class token; its parts keep their published names.

    Fixed `bits` of the curves keep a cloud's logits independent of its batch; "auto" is the release's way.
    """

    def __init__(
        self,
        *,
        classes: int,
        width: int = 384,
        depth: int = 12,
        groups: int = 64,
        group_size: int = 32,
        encoder_widths: tuple[int, int, int] = (128, 256, 512),
        drop_path: float = 0.1,
        points: int = 1024,
        bits: int | Literal["auto"] = BITS,
    ) -> None:
        super().__init__()
        sizes = {"classes": classes, "width": width, "depth": depth, "groups": groups}
        sizes |= {"group_size": group_size, "points": points}
        check_sizes(drop_path=drop_path, **sizes)
        others = {"encoder_widths": list(encoder_widths), "drop_path": drop_path, "bits": bits}
        self.config: dict[str, Any] = {**sizes, **others}
        self.classes, self.width, self.points = classes, width, points
        self.groups, self.group_size, self.bits = groups, group_size, bits
        self.encoder = PatchEmbed(width, widths=encoder_widths)
        self.pos_embed = nn.Sequential(nn.Linear(3, 128), nn.GELU(), nn.Linear(128, width))
        self.OrderScale_gamma_1 = nn.Parameter(1 + 0.02 * torch.randn(width))
        self.OrderScale_beta_1 = nn.Parameter(0.02 * torch.randn(width))
        self.OrderScale_gamma_2 = nn.Parameter(1 + 0.02 * torch.randn(width))
        self.OrderScale_beta_2 = nn.Parameter(0.02 * torch.randn(width))
        self.blocks = Trunk(width, depth=depth, drop_path=drop_path)
        self.class_head = classifier(width, classes)
        self.auxiliary = nn.ModuleDict()  # what test-time training needs beside a classifier, by objective

    def encode(self, tokens: Tokens) -> Float[Tensor, "B F"]:
        """Any number of tokens, in whatever order, to the mean over both orders behind the last block."""
        return self.blocks(*self.serialise(tokens)).mean(dim=1)

    def serialise(self, tokens: Tokens) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]:
        """Features and positions along one curve and then along the other; features tell which it is."""
        first, second = (tokens.keep(order) for order in curve_orders(tokens.centers, bits=self.bits))
        x = torch.cat(
            [
                first.features * self.OrderScale_gamma_1 + self.OrderScale_beta_1,
                second.features * self.OrderScale_gamma_2 + self.OrderScale_beta_2,
            ],
            dim=1,
        )
        return x, torch.cat([first.positions, second.positions], dim=1)

    @staticmethod
    def recognises(state: dict[str, Tensor]) -> bool:
        """Say whether a state dict looks like that of a PointMamba."""
        return any(key.startswith("blocks.layers.") for key in state)

    @staticmethod
    def sizes_of(state: dict[str, Tensor]) -> dict[str, Any]:
        """The sizes that the shapes of a state dict show; groups and group size are not there."""
        widths = "first_conv.0", "first_conv.3", "second_conv.0"
        return {
            "classes": state["class_head.8.weight"].shape[0],
            "width": state["blocks.norm_f.weight"].shape[0],
            "depth": 1 + max(int(key.split(".")[2]) for key in state if key.startswith("blocks.layers.")),
            "encoder_widths": tuple(state[f"encoder.{name}.weight"].shape[0] for name in widths),
        }
