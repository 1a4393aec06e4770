"""LN-TTA: every LayerNorm rescaled to the gain and shift that the class token alone would have there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.adapt.base import Method
from purgegate.backbones.base import HasClassToken
from purgegate.norms import Norm
from purgegate.tokens import Tokens

VARIANTS = ("full", "simple")

Rule = Callable[[nn.LayerNorm, Tensor], Tensor | None]


class LNTTA(Method):
    """One forward, nothing learned: the source model knows its own gains from the class token's path.

    With the gain s and shift m of a layer, `simple` gives s·y + m; `full` first takes off the mean of the
    layer's own shifts and the size of its own scales. `duplicate` answers a single cloud as a batch of two
    equals, as released; its head then has no variance, and `norm="blend"` does better.
    """

    writes: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        *,
        variant: str = "full",
        duplicate: bool = False,
        norm: Norm = "batch",
        seed: int = 0,
    ) -> None:
        if variant not in VARIANTS:
            raise ValueError(f"variant must be one of {', '.join(VARIANTS)}; got {variant!r}")
        if not isinstance(model, HasClassToken) or not hasattr(model, "contextualise"):
            raise ValueError(
                f"ln_tta needs a class token (methods `class_attention` and `contextualise`); "
                f"{type(model).__name__} has none: use source_bn or pg_sp"
            )
        self.variant, self.duplicate = variant, duplicate
        super().__init__(model, norm=norm, seed=seed)

    @torch.no_grad()
    def start(self) -> None:
        """The shift and gain of each LayerNorm on the class token's way through the empty model."""
        self.prototypes: dict[nn.LayerNorm, tuple[Tensor, Tensor]] = {}
        parameter = next(self.model.parameters())
        nothing = Tokens(*(parameter.new_empty(1, 0, width) for width in (self.model.width,) * 2 + (3,)))
        with ruling(self.model, self._record):
            self.model.contextualise(nothing)

    @property
    def least_batch(self) -> int:
        """How many clouds a batch must have."""
        return 1 if self.duplicate else super().least_batch

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """One forward through rescaled layers."""
        batch = len(points)
        points = points.repeat(2, 1, 1) if self.duplicate and batch == 1 else points
        with ruling(self.model, self._rescale):
            return self.logits(points)[:batch]

    def _record(self, layer: nn.LayerNorm, y: Tensor) -> None:
        self.prototypes[layer] = y.mean(), _rms(y)

    def _rescale(self, layer: nn.LayerNorm, y: Tensor) -> Tensor | None:
        if layer not in self.prototypes:
            return None
        shift, gain = self.prototypes[layer]
        if self.variant == "full":
            y, gain = y - layer.bias.mean(), gain / _rms(layer.weight)
        return gain * y + shift


@contextmanager
def ruling(model: nn.Module, rule: Rule) -> Iterator[None]:
    """Every LayerNorm's output passes through a rule; what the rule returns, if anything, replaces it."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.LayerNorm)]
    handles = [layer.register_forward_hook(lambda layer, _, y: rule(layer, y)) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _rms(x: Tensor) -> Float[Tensor, ""]:
    return x.square().mean().sqrt()
