"""DUA (Mirza et al., CVPR 2022): running BatchNorm statistics moved by one sample at a time."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.adapt.base import Method, dropping, moving_statistics, positive_or_all
from purgegate.adapt.views import jitter, random_angles
from purgegate.points.sampling import random_view
from purgegate.points.transforms import turn_by
from purgegate.train.rotation import UP


class Dua(Method):
    """Before it is answered, each cloud moves the statistics by copies of itself, less and less.

    The momentum starts at `momentum`, shrinks by `decay` with every step, and stays `floor` above that. After
    `samples` clouds the statistics rest, as in DUA's experiments; None or "all" goes on for ever. The paper's
    released code is `whole_batch=True, augment=False, decay=1.0, floor=0.0, samples=None, dropout=True` with
    `steps=0`, that is, the source model.
    """

    draws = True

    def __init__(
        self,
        model: Any,
        *,
        copies: int = 48,
        steps: int = 1,
        momentum: float = 0.1,
        decay: float = 0.94,
        floor: float = 0.005,
        samples: int | str | None = 80,
        augment: bool = True,
        whole_batch: bool = False,
        dropout: bool = False,
        axis: int = UP,
        seed: int = 0,
    ) -> None:
        if copies < 2:
            raise ValueError(f"copies must be at least 2, for one has no variance in the head; got {copies}")
        self.copies, self.steps, self.samples = copies, steps, positive_or_all(samples, "samples", least=0)
        self.momentum, self.decay, self.floor = momentum, decay, floor
        self.augment, self.whole_batch, self.dropout, self.axis = augment, whole_batch, dropout, axis
        buffers = dict(model.named_buffers()) if isinstance(model, nn.Module) else {}
        if not any(name.endswith("running_mean") for name in buffers):
            raise ValueError(
                "dua needs a torch module with BatchNorm layers that keep running statistics; "
                f"{type(model).__name__} has none"
            )
        super().__init__(model, norm="source", seed=seed)

    def start(self) -> None:
        """No cloud seen, the first momentum."""
        self.seen, self.pace = 0, self.momentum
        self.drops = torch.Generator().manual_seed(self.seed)  # apart: copies are the same with dropout

    @torch.no_grad()
    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Cloud by cloud while the statistics move, then all at once."""
        moving = len(points) if self.samples is None else min(max(self.samples - self.seen, 0), len(points))
        size = max(moving, 1) if self.whole_batch else 1
        parts = [points[begin : min(begin + size, moving)] for begin in range(0, moving, size)]
        answers = [self._moved(part) for part in parts]
        if moving < len(points):
            answers.append(self.logits(points[moving:]))
        return torch.cat(answers)

    def _moved(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Move the statistics, then answer under them."""
        for _ in range(self.steps):
            self._move(points)
        self.seen += len(points)
        return self.logits(points)

    def _move(self, points: Tensor) -> None:
        """One forward of copies, for the sake of its statistics."""
        self.pace *= self.decay
        copies = points.repeat(self.copies, 1, 1)
        if self.augment:
            # Equal copies have no variance in the head: running variances would shrink, and logits explode.
            count = min(points.shape[1], getattr(self.model, "points", 1024))
            copies = random_view(copies, count, generator=self.generator)
            angles = random_angles(len(copies), generator=self.generator)
            copies = turn_by(copies, angles, axis=self.axis)
            copies = jitter(copies, generator=self.generator)
        moving = moving_statistics(self.model, self.pace + self.floor)
        with moving, dropping(self.model, self.drops, active=self.dropout):
            self.logits(copies)
