"""A batch on its way through a model, kept at each stage, so that several objectives share one pass."""

from functools import cached_property
from typing import Any

from jaxtyping import Float
from torch import Tensor

from purgegate.points.patches import cut_patches
from purgegate.tokens import Tokens


class View:
    """Patches, tokens and context of clouds, each computed once, when first asked for."""

    def __init__(
        self, model: Any, centers: Float[Tensor, "B G 3"], patches: Float[Tensor, "B G K 3"]
    ) -> None:
        self.model, self.centers, self.patches = model, centers, patches

    @classmethod
    def of(cls, model: Any, points: Float[Tensor, "B N 3"]) -> "View":
        """The view of whole clouds."""
        return cls(model, *cut_patches(points, groups=model.groups, group_size=model.group_size))

    @cached_property
    def tokens(self) -> Tokens:
        """Patch tokens."""
        return self.model.embed(self.centers, self.patches)

    @cached_property
    def context(self) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B G D"]]:
        """The class token and the others behind the last block."""
        return self.model.contextualise(self.tokens)

    @cached_property
    def feature(self) -> Float[Tensor, "B F"]:
        """What the class head sees, from the context where the backbone has one."""
        if not hasattr(self.model, "contextualise"):
            return self.model.encode(self.tokens)
        return self.model.pool(*self.context)

    def auxiliary(self, name: str) -> Any:
        """The model's module for an objective."""
        if name not in self.model.auxiliary:
            raise ValueError(
                f"the objective {name!r} needs a model trained with it, such as "
                f"point_mae_tiny.modelnet40_joint; this one has {', '.join(self.model.auxiliary) or 'none'}"
            )
        return self.model.auxiliary[name]
