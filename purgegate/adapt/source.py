"""No adaptation, and the control: nothing but BatchNorm statistics taken from the batch."""

from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.base import Method
from purgegate.norms import Norm


class Source(Method):
    """The source model as it is; `norm="batch"` is the BatchNorm reset that other methods build on."""

    writes: ClassVar[bool] = False

    def __init__(self, model: Any, *, norm: Norm = "source", seed: int = 0) -> None:
        super().__init__(model, norm=norm, seed=seed)

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """One forward."""
        return self.logits(points)
