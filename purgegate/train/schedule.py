"""The numbers of a training run, and the optimiser that they ask for."""

import math
from dataclasses import dataclass

import torch
from torch import nn

MOST_POINTS = 1 << 17  # of a cloud, to draw a step's points from
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Schedule:
    """Everything that decides the outcome of a run, apart from the data, the model and the objective."""

    epochs: int
    seed: int = 0
    batch: int = 32
    lr: float = 1e-3
    floor: float = 1e-6  # learning rate of the last step
    warmup: float = 1.0  # epochs in which the learning rate rises
    weight_decay: float = 0.05
    clip: float = 10.0  # greatest norm of the gradient
    smoothing: float = 0.2  # of the labels
    augment: bool = True  # scale and shift
    pool: int = 1200  # a step's points are drawn from this many farthest points
    precision: str = "float32"  # of the products; bfloat16 is a third faster where the processor has it

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {self.precision!r}")
        for name in ("epochs", "pool", "lr", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)}")
        for name, most in (("warmup", math.inf), ("smoothing", 1), ("seed", 1 << 63), ("pool", MOST_POINTS)):
            if not 0 <= getattr(self, name) < most:
                raise ValueError(f"{name} must be at least 0 and less than {most}; got {getattr(self, name)}")
        if self.batch < 2:
            raise ValueError(
                f"batch must be at least 2, for BatchNorm has no variance in one; got {self.batch}"
            )


def learning_rate(schedule: Schedule, step: int, *, steps: int) -> float:
    """A straight rise over the warm-up, then half a cosine down to the floor at the last of all steps."""
    warmup = min(round(schedule.warmup * steps / schedule.epochs), steps - 1)
    if step < warmup:
        return schedule.lr * (step + 1) / warmup
    share = (step - warmup) / max(steps - 1 - warmup, 1)
    return schedule.floor + (schedule.lr - schedule.floor) * (1 + math.cos(math.pi * share)) / 2


def make_adamw(
    model: nn.Module, *, lr: float, weight_decay: float, free: tuple[str, ...] = ("token", "cls_pos")
) -> torch.optim.Optimizer:
    """AdamW; vectors, and what has one of the `free` words in its name, do not decay."""
    decayed: list[nn.Parameter] = []
    undecayed: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        exempt = parameter.ndim <= 1 or any(word in name for word in free)
        (undecayed if exempt else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr)
