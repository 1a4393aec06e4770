"""What the program asks of a backbone: three doors, and windows that some methods look through."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from purgegate.points.patches import cut_patches
from purgegate.tokens import PatchEmbed, Tokens

MOST = 1 << 20  # of any size: far more than a model has, and few enough to be refused before memory is taken


@runtime_checkable
class Backbone(Protocol):
    """A classifier in three steps. A person's own model needs these three methods and no base class."""

    def tokenize(self, points: Tensor) -> Tokens:
        """Clouds (B, N, 3) to patch tokens."""

    def encode(self, tokens: Tokens) -> Float[Tensor, "B F"]:
        """Any number of tokens to one feature a cloud."""

    def head(self, feature: Float[Tensor, "B F"]) -> Float[Tensor, "B C"]:
        """A cloud's feature to class logits."""


@runtime_checkable
class HasClassToken(Protocol):
    """A backbone whose first block lets a class token attend to the others."""

    def class_attention(self, tokens: Tokens) -> tuple[Float[Tensor, " D"], Float[Tensor, "B G D"]]:
        """The class token's query and the tokens' keys in the first block, all heads together."""


@runtime_checkable
class EncodesMany(Protocol):
    """A backbone that encodes several sets of tokens faster together than one after another."""

    def encode_many(self, many: Sequence[Tokens]) -> list[Float[Tensor, "B F"]]:
        """`encode` of each."""


def encode_each(model: Backbone, many: Iterable[Tokens]) -> Iterable[Float[Tensor, "B F"]]:
    """`encode` of each set of tokens, together where the model can, else one after another."""
    return model.encode_many(list(many)) if isinstance(model, EncodesMany) else map(model.encode, many)


@runtime_checkable
class HasPatches(Protocol):
    """A backbone whose first door has two steps, so that some patches can be embedded without the others."""

    def cut(self, points: Tensor) -> tuple[Float[Tensor, "B G 3"], Float[Tensor, "B G K 3"]]:
        """Clouds (B, N, 3) to centres and patches, each patch relative to its centre."""

    def embed(self, centers: Float[Tensor, "B G 3"], patches: Float[Tensor, "B G K 3"]) -> Tokens:
        """Patches to tokens."""


class PatchClassifier(nn.Module):
    """What our own backbones share: patches embedded alike, and the three doors in a row."""

    groups: int
    group_size: int
    encoder: PatchEmbed
    pos_embed: nn.Sequential
    class_head: nn.Sequential
    precision = "float32"  # of products without gradients

    def tokenize(self, points: Tensor) -> Tokens:
        """Clouds (B, N, 3) to patch tokens."""
        return self.embed(*self.cut(points))

    def cut(self, points: Tensor) -> tuple[Float[Tensor, "B G 3"], Float[Tensor, "B G K 3"]]:
        """Clouds (B, N, 3) to centres and patches, each patch relative to its centre."""
        return cut_patches(points, groups=self.groups, group_size=self.group_size)

    def embed(self, centers: Float[Tensor, "B G 3"], patches: Float[Tensor, "B G K 3"]) -> Tokens:
        """Patches, each relative to its centre, to tokens."""
        return Tokens(self.encoder(patches), self.pos_embed(centers), centers)

    def encode(self, tokens: Tokens) -> Float[Tensor, "B F"]:
        """Any number of tokens to one feature a cloud."""
        raise NotImplementedError  # each backbone has its own

    def head(self, feature: Float[Tensor, "B F"]) -> Float[Tensor, "B C"]:
        """A cloud's feature to class logits."""
        return self.class_head(feature)

    def forward(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Clouds (B, N, 3) to class logits."""
        return self.head(self.encode(self.tokenize(points)))


def check_sizes(*, drop_path: Any = 0.0, **sizes: Any) -> None:
    """Refuse a size that is no whole number of at least 1, and a rate that is none: files tell anything."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool):
            raise ValueError(f"{name} must be a whole number; got {size!r}")
        if not 1 <= size <= MOST:
            raise ValueError(f"{name} must be at least 1{f' and at most {MOST:,}' * (size > 1)}; got {size}")
    if not isinstance(drop_path, (int, float)) or not 0 <= drop_path < 1:
        raise ValueError(f"drop_path must lie in [0, 1); got {drop_path!r}")
