"""No adaptation, and the control: nothing but BatchNorm statistics taken from the batch."""

from typing import Any, ClassVar

from torch import Tensor

from purgegate.adapt.base import Forward, Method, Prediction
from purgegate.norms import Norm


class Source(Method):
    """The source model as it is; `norm="batch"` is the BatchNorm reset that other methods build on."""

    writes: ClassVar[bool] = False

    def __init__(self, model: Any, *, norm: Norm = "source", seed: int = 0) -> None:
        super().__init__(model, norm=norm, seed=seed)

    def decide(self, points: Tensor) -> Prediction:
        """One forward."""
        with self.statistics(len(points)):
            found = Forward.of(self.model, points)
        return Prediction.of(found.logits)._replace(source=found if self.norm == "source" else None)
