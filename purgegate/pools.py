"""BatchNorm statistics pooled over a stream: all clouds so far, with a prior worth some of the source's."""

from types import NoneType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

PRIOR = 16.0  # clouds that the source's statistics are worth

State = dict[str, Tensor]


def nest(name: str, state: State) -> State:
    """A state as a part, of this name, of a greater one."""
    return {f"{name}/{key}": value for key, value in state.items()}


def unnest(name: str, state: State) -> State:
    """The part of this name of a state."""
    start = f"{name}/"
    return {key.removeprefix(start): value for key, value in state.items() if key.startswith(start)}


def make_pool(options: dict[str, Any]) -> "Pool":
    """A pool of the prior and memory that a recipe gives."""
    numbers = all(isinstance(each, (int, float, NoneType)) for each in options.values())
    if not options.keys() <= {"prior", "memory"} or not numbers:
        raise ValueError(f"a pool is given by the numbers prior and memory; got {options}")
    return Pool(**options)


class Pool:
    """First and second moments of a stream at every BatchNorm, relative to the source's means.

    A batch is normalised with (prior × source + clouds before + its own) and taken in afterwards. `memory`
    lets a cloud's weight fall to 1/e after so many others; None forgets nothing. Two views of a cloud need
    two pools.
    """

    def __init__(self, *, prior: int | float = PRIOR, memory: int | float | None = None) -> None:
        if not prior > 0:
            raise ValueError(f"prior must be positive, the clouds that the source is worth; got {prior}")
        if memory is not None and not memory > 0:
            raise ValueError(f"memory must be positive, or None to forget nothing; got {memory}")
        self.prior, self.memory = float(prior), None if memory is None else float(memory)
        self.weight = 0.0  # clouds in the pool
        self.sums: dict[int, Float[Tensor, "2 D"]] = {}
        self._pending: dict[int, list[Tensor]] = {}
        self._clouds = 0

    def described(self) -> str | dict[str, float | None]:
        """What a row of results says of it."""
        usual = (self.prior, self.memory) == (PRIOR, None)
        return "pool" if usual else {"prior": self.prior, "memory": self.memory}

    def join(
        self, place: int, clouds: int, layer: Any, mean: Float[Tensor, " D"], var: Float[Tensor, " D"]
    ) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """Mean and variance of source, stream and this batch together, at the layer of this place."""
        shift, known = mean - layer.running_mean, layer.running_var
        own = torch.stack([shift, var + shift.square()])
        self._pending.setdefault(place, []).append(own.detach().double())
        self._clouds = clouds
        total = self.prior + self.weight + clouds
        before = self.sums.get(place, torch.zeros((), dtype=torch.float64)).to(own.device)
        first, second = (before.to(own.dtype) + clouds * own) / total
        return layer.running_mean + first, (self.prior / total) * known + second - first.square()

    def take_in(self) -> None:
        """Add the batch that was joined last; a layer that it passed several times counts it once."""
        kept = self._kept(self._clouds)
        for place, moments in self._pending.items():
            before = self.sums.get(place, torch.zeros_like(moments[0]))
            self.sums[place] = kept * before + self._clouds * torch.stack(moments).mean(dim=0)
        self.weight = kept * self.weight + self._clouds
        self.forget_pending()

    def forget_pending(self) -> None:
        """Drop what was joined and not taken in."""
        self._pending, self._clouds = {}, 0

    def reset(self) -> None:
        """Forget the stream."""
        self.weight, self.sums = 0.0, {}
        self.forget_pending()

    def state(self) -> State:
        """All that the pool knows, as tensors."""
        return {"weight": torch.tensor(self.weight, dtype=torch.float64)} | {
            f"sums.{place}": sums for place, sums in self.sums.items()
        }

    def load_state(self, state: State) -> None:
        """Go on where `state` was called."""
        self.forget_pending()
        self.weight = float(state["weight"])
        self.sums = {
            int(name.removeprefix("sums.")): sums.double()
            for name, sums in state.items()
            if name.startswith("sums.")
        }

    def _kept(self, clouds: int) -> float:
        return 1.0 if self.memory is None else float(torch.exp(torch.tensor(-clouds / self.memory)))
