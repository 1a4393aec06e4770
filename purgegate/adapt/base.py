"""What every method is: clouds in, logits out, `reset` to forget."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from purgegate.backbones.base import Backbone
from purgegate.norms import NORMS, attribute, evaluating, momentum, statistics_from
from purgegate.points.patches import check_clouds
from purgegate.tokens import PatchEmbed


@runtime_checkable
class Adapter(Protocol):
    """A model that adapts to what it sees."""

    def __call__(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Class logits of clouds (B, N, 3)."""

    def reset(self) -> None:
        """Forget every cloud seen so far."""


class Method:
    """Common ground of the methods: checked clouds, a BatchNorm mode, a seed, and a way back to the source.

    A method that writes to its model works on a copy, so the given one is never touched and two methods of
    one model share nothing. A subclass sets up its state in `start` and answers a batch in `answer`.
    """

    writes: ClassVar[bool] = True  # whether anything of the model changes with the clouds

    @torch.inference_mode(False)
    def __init__(self, model: Any, *, norm: str, seed: int = 0) -> None:
        if not isinstance(model, Backbone):
            raise ValueError(
                f"a model needs the methods tokenize, encode and head; got {type(model).__name__}"
            )
        if norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}; got {norm!r}")
        self.norm, self.seed = norm, seed
        self._source = copy.deepcopy(model) if self.writes else model
        self.reset()

    @torch.inference_mode(False)
    def reset(self) -> None:
        """Forget every cloud seen so far: model, optimiser, the method's own state and its randomness."""
        self.model: Any = copy.deepcopy(self._source) if self.writes else self._source
        if self.writes and isinstance(self.model, nn.Module):
            # What a person froze is frozen for them; the copy is the method's.
            self.model.requires_grad_(True)
        self.generator = torch.Generator().manual_seed(self.seed)
        self.start()

    def start(self) -> None:
        """What the method keeps, as it is before the first batch."""

    def __call__(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Class logits of clouds (B, N, 3), dropout off, BatchNorm in the method's mode."""
        check_clouds(points, self.model)
        with (
            torch.inference_mode(False),
            torch.set_grad_enabled(self.writes),
            evaluating(self.model),
            statistics_from(self.model, self.norm, clouds=len(points)),
        ):
            return self.answer(points.clone() if points.is_inference() else points.detach()).detach()

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """What the paper's picture shows."""
        raise NotImplementedError

    def logits(self, points: Tensor) -> Float[Tensor, "B C"]:
        """The model's answer as it stands."""
        return self.model.head(self.model.encode(self.model.tokenize(points)))


def positive_or_all(value: int | str | None, name: str, *, least: int = 1) -> int | None:
    """How many at the most; "all", which a recipe can write, is None."""
    if value is None or value == "all":
        return None
    if not isinstance(value, int) or value < least:
        raise ValueError(f'{name} must be at least {least}, or None or "all" for no limit; got {value!r}')
    return value


def split_head(model: Any, method: str) -> tuple[nn.Module, nn.Linear]:
    """All of the head but its last layer, and that."""
    head = getattr(model, "class_head", None)
    if not isinstance(head, nn.Sequential) or not isinstance(head[-1], nn.Linear):
        raise ValueError(
            f"{method} needs a model whose head `class_head` is a Sequential that ends in a Linear; "
            f"{type(model).__name__} has none"
        )
    return head[:-1], head[-1]


def affine_parameters(
    model: Any, method: str, *, kinds: tuple[type[nn.Module], ...] = (_BatchNorm,)
) -> list[Tensor]:
    """Scale and shift of every normalisation of these kinds; all else of the model is frozen."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    layers = [layer for layer in modules if isinstance(layer, kinds) and layer.weight is not None]
    if not layers:
        names = " or ".join(kind.__name__.lstrip("_") for kind in kinds)
        raise ValueError(
            f"{method} needs a torch module with {names} layers that have a scale and a shift; "
            f"{type(model).__name__} has none: use source_bn, which learns nothing"
        )
    model.requires_grad_(False)
    return [parameter.requires_grad_() for layer in layers for parameter in layer.parameters()]


def descend(optimizer: torch.optim.Optimizer, loss: Float[Tensor, ""]) -> None:
    """One step down the gradient of the loss."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


@contextmanager
def dropping(model: Any, generator: torch.Generator, *, active: bool = True) -> Iterator[None]:
    """Dropout and drop-path at work, as released codes leave them, drawn from the generator."""
    if not active:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        layers = [layer for layer in model.modules() if not isinstance(layer, _BatchNorm)]
        with attribute(layers, "training", True):
            yield


@contextmanager
def moving_statistics(model: Any, value: float) -> Iterator[None]:
    """Every BatchNorm normalises with its batch and moves its running statistics there by this momentum."""
    # The embedding trains too: outside of training it folds its BatchNorms away.
    layers = [layer for layer in model.modules() if isinstance(layer, (_BatchNorm, PatchEmbed))]
    with momentum(model, value), attribute(layers, "training", True):
        yield
