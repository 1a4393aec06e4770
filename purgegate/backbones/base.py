"""What the program asks of a backbone: three doors, and two windows that some methods look through."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from purgegate.tokens import Tokens


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
class HasFirstBlock(Protocol):
    """A backbone that shows its tokens behind the first block."""

    def after_first_block(self, tokens: Tokens) -> Float[Tensor, "B G D"]:
        """The tokens behind the first block, positions added: the input of the second."""
