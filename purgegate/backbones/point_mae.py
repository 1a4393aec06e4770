"""The Point-MAE classifier (Pang et al., ECCV 2022): patches, a class token, a plain transformer."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.backbones.attention import Trunk
from purgegate.backbones.base import PatchClassifier, check_sizes
from purgegate.heads import classifier
from purgegate.tokens import PatchEmbed, Tokens

# Rows of the largest of several sets of tokens up to which they are encoded together.
TOGETHER = 256


class PointMAE(PatchClassifier):
    """A transformer over patch tokens and a class token; its parts keep their published names."""

    def __init__(
        self,
        *,
        classes: int,
        width: int = 384,
        depth: int = 12,
        heads: int = 6,
        groups: int = 64,
        group_size: int = 32,
        encoder_widths: tuple[int, int, int] = (128, 256, 512),
        drop_path: float = 0.1,
        points: int = 1024,
    ) -> None:
        super().__init__()
        sizes = {"width": width, "depth": depth, "heads": heads, "groups": groups, "group_size": group_size}
        check_sizes(classes=classes, points=points, drop_path=drop_path, **sizes)
        if width % heads:
            raise ValueError(f"width must be a multiple of heads; got width {width} and {heads} heads")
        others = {"encoder_widths": list(encoder_widths), "drop_path": drop_path, "points": points}
        self.config: dict[str, Any] = {"classes": classes, **sizes, **others}
        self.classes, self.width, self.points = classes, width, points
        self.groups, self.group_size = groups, group_size
        self.encoder = PatchEmbed(width, widths=encoder_widths)
        self.pos_embed = nn.Sequential(nn.Linear(3, 128), nn.GELU(), nn.Linear(128, width))
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.cls_pos = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.blocks = Trunk(width, depth=depth, heads=heads, drop_path=drop_path)
        self.norm = nn.LayerNorm(width)
        self.class_head = classifier(2 * width, classes)
        self.auxiliary = nn.ModuleDict()  # what test-time training needs beside a classifier, by objective

    def encode(self, tokens: Tokens) -> Float[Tensor, "B F"]:
        """Any number of tokens to the class token and the maximum of the others behind the last block."""
        return self.pool(*self.contextualise(tokens))

    def encode_many(self, many: Sequence[Tokens]) -> list[Float[Tensor, "B F"]]:
        """`encode` of each; small ones go through the blocks together, one product per layer for all.

        Together they pay where each alone would leave the processor waiting for calls, and without gradients.
        """
        rows = max(tokens.features.shape[:2].numel() for tokens in many)
        alone = torch.is_grad_enabled() or self.training or many[0].features.device.type != "cpu"
        if alone or len(many) == 1 or rows > TOGETHER:
            return [self.encode(tokens) for tokens in many]
        pairs = [self._with_class_token(tokens) for tokens in many]
        sizes = [(x.shape[0], x.shape[1]) for x, _ in pairs]
        x, positions = (torch.cat([each.flatten(0, 1) for each in side]) for side in zip(*pairs, strict=True))
        parts = self.norm(self.blocks.packed(x, positions, sizes)).split([a * b for a, b in sizes])
        contexts = [part.unflatten(0, size) for part, size in zip(parts, sizes, strict=True)]
        return [self.pool(context[:, 0], context[:, 1:]) for context in contexts]

    @staticmethod
    def pool(own: Float[Tensor, "B D"], others: Float[Tensor, "B G D"]) -> Float[Tensor, "B F"]:
        """What the class head sees of a context: the class token and the maximum of the others."""
        return torch.cat([own, others.amax(dim=1)], dim=-1)

    def contextualise(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B G D"]]:
        """The class token and the others behind the last block, normalised."""
        x = self.norm(self.blocks(*self._with_class_token(tokens)))
        return x[:, 0], x[:, 1:]

    def class_attention(self, tokens: Tokens) -> tuple[Float[Tensor, " D"], Float[Tensor, "B G D"]]:
        """The class token's query and the tokens' keys in the first block, all heads together."""
        first: Any = self.blocks.blocks[0]
        query, key, _ = first.attn.qkv.weight.chunk(3)
        own = first.norm1(self.cls_token + self.cls_pos).flatten()
        return query @ own, first.norm1(tokens.placed()) @ key.T

    def after_first_block(self, tokens: Tokens) -> Float[Tensor, "B G D"]:
        """The tokens behind the first block, positions added: the input of the second."""
        x, positions = self._with_class_token(tokens)
        return (self.blocks.blocks[0](x + positions) + positions)[:, 1:]

    @staticmethod
    def recognises(state: dict[str, Tensor]) -> bool:
        """Say whether a state dict looks like that of a Point-MAE."""
        return any(key.startswith("blocks.blocks.") for key in state)

    @staticmethod
    def sizes_of(state: dict[str, Tensor]) -> dict[str, Any]:
        """The sizes that the shapes of a state dict show; groups, group size and heads are not there."""
        widths = "first_conv.0", "first_conv.3", "second_conv.0"
        return {
            "classes": state["class_head.8.weight"].shape[0],
            "width": state["blocks.blocks.0.norm1.weight"].shape[0],
            "depth": 1 + max(int(key.split(".")[2]) for key in state if key.startswith("blocks.blocks.")),
            "encoder_widths": tuple(state[f"encoder.{name}.weight"].shape[0] for name in widths),
        }

    def _with_class_token(self, tokens: Tokens) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]:
        batch = len(tokens.features)
        x = torch.cat([self.cls_token.expand(batch, -1, -1), tokens.features], dim=1)
        positions = torch.cat([self.cls_pos.expand(batch, -1, -1), tokens.positions], dim=1)
        return x, positions
