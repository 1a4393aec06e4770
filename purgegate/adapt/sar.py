"""SAR (Niu et al., ICLR 2023): less entropy of the certain clouds, in a flat place, with a way back."""

import copy
import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from purgegate.adapt.base import Method, affine_parameters
from purgegate.gate.purge import entropy
from purgegate.norms import Norm

KINDS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm)


class Sar(Method):
    """One step a batch on scales and shifts, by the gradient at the worst place nearby; answers come before.

    Clouds whose entropy reaches `margin` · ln C teach nothing. `lr` is that of 64 clouds and shrinks with the
    batch. Norms of the last quarter of the blocks and behind them stay as they are. When the running mean of
    the entropies falls below `collapse`, the model returns to the source. Other papers run it on clouds with
    a rate of 1e-4 (here `lr=2e-4` at 32 clouds) and `steps=10, margin=0.2, rho=0.1`.
    """

    def __init__(
        self,
        model: Any,
        *,
        lr: float = 1e-3,
        margin: float = 0.4,
        rho: float = 0.05,
        steps: int = 1,
        collapse: float = 0.2,
        norm: Norm = "batch",
        seed: int = 0,
    ) -> None:
        if steps < 1:
            raise ValueError(f"steps must be at least 1; got {steps}: source_bn takes none")
        self.lr, self.margin, self.rho, self.steps, self.collapse = lr, margin, rho, steps, collapse
        super().__init__(model, norm=norm, seed=seed)

    def start(self) -> None:
        """A new optimiser over scales and shifts, and no entropy seen."""
        affine_parameters(self.model, "sar", kinds=KINDS)
        for layer in late_norms(self.model):
            layer.requires_grad_(False)
        self.parameters = [each for each in self.model.parameters() if each.requires_grad]
        self.optimizer = torch.optim.SGD(self.parameters, lr=self.lr, momentum=0.9)
        self.mean: float | None = None
        self._first = [each.detach().clone() for each in self.parameters]
        self._fresh = copy.deepcopy(self.optimizer.state_dict())

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Predict, then learn from the prediction."""
        for _ in range(self.steps):
            logits = self.logits(points)
            self._learn(points, logits)
        return logits

    def _learn(self, points: Tensor, logits: Float[Tensor, "B C"]) -> None:
        """Climb to the worst place nearby, take the gradient there, come back and step by it."""
        certain = self.margin * math.log(logits.shape[1])
        own = entropy(logits)
        chosen = own < certain
        if not chosen.any():
            return
        here = [each.detach().clone() for each in self.parameters]
        self._climb(own[chosen].mean())
        second = entropy(self.logits(points))[chosen]
        kept = second[second < certain]
        if len(kept):
            self._gradient(kept.mean())
        self._put(here)
        if len(kept):
            self._step(len(points))
            self._watch(float(kept.detach().mean()))

    def _climb(self, loss: Float[Tensor, ""]) -> None:
        self._gradient(loss)
        gradients = [each.grad for each in self.parameters if each.grad is not None]
        length = torch.stack([each.norm() for each in gradients]).norm()
        with torch.no_grad():
            for each in self.parameters:
                if each.grad is not None:
                    each.add_(each.grad, alpha=float(self.rho / (length + 1e-12)))

    def _gradient(self, loss: Float[Tensor, ""]) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()

    def _step(self, clouds: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * clouds / 64 * (2 if clouds == 1 else 1)
        self.optimizer.step()

    def _watch(self, found: float) -> None:
        """Return to the source where answers become all too certain."""
        self.mean = found if self.mean is None else 0.9 * self.mean + 0.1 * found
        if self.mean < self.collapse:
            self._put(self._first)
            self.optimizer.load_state_dict(copy.deepcopy(self._fresh))
            self.mean = None

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)


def late_norms(model: nn.Module) -> list[nn.Module]:
    """Norms of the last quarter of a model's blocks, one block at least, and LayerNorms beside the blocks."""
    lists = [list(each) for each in model.modules() if isinstance(each, nn.ModuleList)]
    blocks = max(lists, key=len, default=[])
    late = [norm for block in blocks[len(blocks) - _quarter(len(blocks)) :] for norm in _norms(block)]
    inside = {id(norm) for block in blocks for norm in _norms(block)}
    beside = [norm for norm in _norms(model) if isinstance(norm, nn.LayerNorm) and id(norm) not in inside]
    return late + (beside if blocks else [])


def _quarter(count: int) -> int:
    return max(count // 4, min(count, 1))


def _norms(module: nn.Module) -> list[nn.Module]:
    return [layer for layer in module.modules() if isinstance(layer, KINDS)]
