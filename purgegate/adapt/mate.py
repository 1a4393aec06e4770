"""MATE (Mirza et al., ICCV 2023): adapt by rebuilding the hidden nine tenths of the test cloud."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.training import SelfTraining
from purgegate.train.masked import masked_loss


class Mate(SelfTraining):
    """Copies of a cloud, each with its own mask, are rebuilt from what the masks leave visible.

    The copies share one patch embedding, and only visible tokens enter the encoder. The learning rate is the
    published one for ModelNet; for other sets it is 1e-4. Purge-Gate's tables quote the standard setting,
    `online=False`; the released code is `dropout=True`, for drop-path is at work in its steps.
    """

    called: ClassVar[str] = "mate"
    objective: ClassVar[str] = "masked"
    part: ClassVar[str] = "decoder"

    def loss(self, point: Float[Tensor, "1 N 3"]) -> Float[Tensor, ""]:
        """Chamfer distance between the hidden patches and what the decoder makes of the others."""
        return masked_loss(self.model, point, self.generator, copies=self.copies)
