"""TENT (Wang et al., ICLR 2021): less entropy, through the scale and shift of BatchNorm alone."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from purgegate.adapt.base import Method, affine_parameters, descend, dropping
from purgegate.gate.purge import entropy
from purgegate.norms import Norm


class Tent(Method):
    """One step down the mean entropy a batch; the answer is the one before the step.

    The paper's released code runs it with `lr=5e-3, weight_decay=0.5, dropout=True`. `layer_norm` adapts
    LayerNorm too.
    """

    def __init__(
        self,
        model: Any,
        *,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        steps: int = 1,
        layer_norm: bool = False,
        dropout: bool = False,
        norm: Norm = "batch",
        seed: int = 0,
    ) -> None:
        if steps < 1:
            raise ValueError(f"steps must be at least 1; got {steps}: source_bn takes none")
        self.lr, self.weight_decay, self.steps = lr, weight_decay, steps
        self.layer_norm, self.dropout, self.draws = layer_norm, dropout, dropout
        super().__init__(model, norm=norm, seed=seed)

    def start(self) -> None:
        """A new optimiser over scales and shifts."""
        kinds = (_BatchNorm, nn.LayerNorm) if self.layer_norm else (_BatchNorm,)
        parameters = affine_parameters(self.model, "tent", kinds=kinds)
        self.optimizer = torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Predict, then learn from the prediction."""
        for _ in range(self.steps):
            with dropping(self.model, self.generator, active=self.dropout):
                logits = self.logits(points)
            descend(self.optimizer, entropy(logits).mean())
        return logits
