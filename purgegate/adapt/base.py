"""What every method is: clouds in, logits out, `reset` to forget; and what it says of itself."""

import copy
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from purgegate.adapt.guard import Guard, worth_comparing
from purgegate.adapt.options import describe_option
from purgegate.backbones.base import Backbone
from purgegate.gate.purge import entropy
from purgegate.imports import path_of
from purgegate.norms import NORMS, Norm, attribute, batch_norms, momentum, statistics_from
from purgegate.points.patches import check_clouds
from purgegate.pools import PRIOR, Pool, State, make_pool, nest, unnest
from purgegate.tokens import PatchEmbed
from purgegate.twins import evaluation_twin


@runtime_checkable
class Adapter(Protocol):
    """A model that adapts to what it sees."""

    def __call__(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Class logits of clouds (B, N, 3)."""

    def reset(self) -> None:
        """Forget every cloud seen so far."""


class Forward(NamedTuple):
    """What one forward of a model ends with."""

    feature: Float[Tensor, "B F"]
    logits: Float[Tensor, "B C"]

    @classmethod
    def of(cls, model: Any, points: Tensor) -> "Forward":
        """Of a model on clouds."""
        feature = model.encode(model.tokenize(points))
        return cls(feature, model.head(feature))


class Prediction(NamedTuple):
    """What a method knows of a batch: the chosen answer and how it was found."""

    logits: Float[Tensor, "B C"]
    candidates: Float[Tensor, "B S C"]  # the logits at every purge size, or of every view
    entropy: Float[Tensor, "B S"]
    purge: Int64[Tensor, " B"]  # how much was dropped for the chosen answer: tokens, or points with pg_auto
    scores: Float[Tensor, "B G"]  # distance of each token from the source; none where a method has no score
    shift: Float[Tensor, " B"]  # mean of the scores: how far the cloud lies from the source; or NaN
    strays: Bool[Tensor, "B N"] | None = None  # which points were purged, where points are
    stages: tuple[str, ...] = ()  # the repairs that acted on the batch
    source: "Forward | None" = None  # of the source model on the clouds as they came, if the method made it

    def at(self, rows: list[int]) -> "Prediction":
        """Those of some clouds."""
        parts: dict[str, Any] = {
            name: each[rows] for name, each in self._asdict().items() if isinstance(each, Tensor)
        }
        source = self.source and Forward(*(each[rows] for each in self.source))
        return self._replace(**parts, source=source)

    @classmethod
    def by(cls, adapter: Any, points: Tensor) -> "Prediction":
        """By any adapter, of which some say no more than logits."""
        return adapter.predict(points) if hasattr(adapter, "predict") else cls.of(adapter(points).detach())

    @property
    def whole(self) -> int:
        """Of how many tokens or points `purge` counts; 0 where a method purges nothing."""
        return self.scores.shape[1] if self.strays is None else self.strays.shape[1]

    @classmethod
    def of(cls, logits: Float[Tensor, "B C"]) -> "Prediction":
        """Of a method that gives logits and nothing else."""
        batch = len(logits)
        return cls(
            logits,
            candidates=logits[:, None],
            entropy=entropy(logits[:, None]),
            purge=torch.zeros(batch, dtype=torch.long, device=logits.device),
            scores=logits.new_empty(batch, 0),
            shift=logits.new_full((batch,), torch.nan),
        )


class Method:
    """Common ground of the methods: checked clouds, a BatchNorm mode, a seed, and a way back to the source.

    A method that writes to its model works on a copy, any other on a twin: the given model is never touched,
    and two methods of one model share nothing but weights that neither changes. A subclass sets up its state
    in `start` and answers a batch in `answer`. Its options are the arguments of its constructor.
    """

    writes: ClassVar[bool] = True  # whether anything of the model changes with the clouds
    draws: bool = False  # whether its answers depend on the seed
    norms: ClassVar[tuple[str, ...]] = NORMS
    watch: bool = True  # whether it warns of clouds and streams that mislead; a measurement does not
    scale_matters: bool = True  # whether clouds must come in the model's frame

    name: str = ""  # what rows of results call it, once it is made by name
    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> "Method":
        """Remember the arguments, defaults filled in, for `options`."""
        self = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind(self, *args, **options)
        bound.apply_defaults()
        self._arguments = dict(list(bound.arguments.items())[2:])  # without self and the model
        return self

    @torch.inference_mode(False)
    def __init__(self, model: Any, *, norm: Norm = "source", seed: int = 0) -> None:
        if not isinstance(model, Backbone):
            raise ValueError(
                f"a model needs the methods tokenize, encode and head; got {type(model).__name__}"
            )
        norm = make_pool(norm) if isinstance(norm, dict) else norm
        if not isinstance(norm, Pool) and norm not in self.norms:
            raise ValueError(f"norm must be one of {', '.join(self.norms)}; got {norm!r}")
        self.norm, self.seed = norm, seed
        self._source = copy.deepcopy(model) if self.writes else evaluation_twin(model)
        self.reset()

    @property
    def family(self) -> str:
        """What the method is apart from its options: the import path of its class."""
        return path_of(type(self))

    @property
    def options(self) -> dict[str, Any]:
        """All options as they are in force, in the form of a row of results."""
        found = {
            name: vars(self).get(name, value)
            for name, value in self._arguments.items()
            if self.draws or name != "seed"
        }
        return {name: describe_option(value) for name, value in found.items()}

    @property
    def given(self) -> dict[str, Any]:
        """Those of the options that were given other than their defaults, as tables show them."""
        defaults = inspect.signature(type(self).__init__).parameters
        plain = {name: describe_option(value) for name, value in self._arguments.items() if name != "seed"}
        return {name: v for name, v in plain.items() if v != describe_option(defaults[name].default)}

    @property
    def pooled(self) -> bool:
        """Whether BatchNorm statistics are pooled over the stream."""
        return isinstance(self.norm, Pool) or self.norm == "pool"

    @property
    def pool_prior(self) -> float:
        """Clouds that the source's statistics are worth in a pool."""
        return self.norm.prior if isinstance(self.norm, Pool) else PRIOR

    @property
    def least_batch(self) -> int:
        """How many clouds a batch must have."""
        return 2 if self.norm == "batch" else 1

    @torch.inference_mode(False)
    def reset(self) -> None:
        """Forget every cloud seen so far: model, optimiser, the method's own state and its randomness."""
        self.model: Any = copy.deepcopy(self._source) if self.writes else self._source
        if self.writes and isinstance(self.model, nn.Module):
            # What a person froze is frozen for them; the copy is the method's.
            self.model.requires_grad_(True).eval()
        self.generator = torch.Generator().manual_seed(self.seed)
        self.pools: dict[str, Pool] = {}
        self._batch_norms = batch_norms(self.model)
        self.guard = Guard(type(self).__name__)
        self.start()

    def start(self) -> None:
        """What the method keeps, as it is before the first batch."""

    def state(self) -> State:
        """All that was learned from the clouds so far, as tensors that nobody changes; see `load_state`.

        A subclass that keeps more than pools and randomness adds it here and takes it in `load_state`.
        """
        if self.writes:
            raise ValueError(
                f"{self.name or type(self).__name__} writes to the weights of its model, and what it learned "
                "cannot be taken out of them: use a method that does not, such as pg_auto"
            )
        found = {"generator": self.generator.get_state()}
        for view, pool in self.pools.items():
            found |= nest(f"pools/{view}", pool.state())
        return found

    def load_state(self, state: State) -> None:
        """Go on where `state` was called: with the same model and options, answers are the same from here."""
        self.reset()
        self.generator.set_state(state["generator"])
        held = unnest("pools", state)
        for view in {key.rpartition("/")[0] for key in held}:
            self.pool_of(view).load_state(unnest(view, held))

    def __call__(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Class logits of clouds (B, N, 3)."""
        return self.predict(points).logits

    def predict(self, points: Tensor) -> Prediction:
        """The answer with what is known of it, dropout off, BatchNorm in the method's mode."""
        check_clouds(points, self.model)
        with torch.inference_mode(False), torch.set_grad_enabled(self.writes):
            points = points.clone() if points.is_inference() else points.detach()
            found = self.decide(points)
            if self.watch:
                self._look_out(points, found.logits)
        return found

    @torch.no_grad()
    def _look_out(self, points: Tensor, logits: Float[Tensor, "B C"]) -> None:
        """Warn of what would be wrong without a word; the first batch is compared with the source's."""
        if self.scale_matters:
            self.guard.see_clouds(points)
        if not self.guard.begun and worth_comparing(self.norm, len(points)):
            with self.statistics(len(points), norm="source"):
                self.guard.see_source(logits, self.logits(points))
        self.guard.begun = True
        self.guard.see_numbers(logits)
        if self.writes:
            self.guard.see_answers(logits)

    def decide(self, points: Tensor) -> Prediction:
        """The prediction of checked clouds."""
        with self.statistics(len(points)):
            logits = self.answer(points)
        return Prediction.of(logits.detach())

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """What the paper's picture shows."""
        raise NotImplementedError  # each method has its own

    def logits(self, points: Tensor) -> Float[Tensor, "B C"]:
        """The model's answer as it stands."""
        return Forward.of(self.model, points).logits

    def statistics(
        self, clouds: int, *, norm: str | None = None, view: str = ""
    ) -> AbstractContextManager[None]:
        """BatchNorm in the method's mode, or another, for so many clouds; each view has a pool of its own."""
        norm = norm or ("pool" if isinstance(self.norm, Pool) else self.norm)
        pool = self.pool_of(view) if norm == "pool" else None
        return statistics_from(self._batch_norms, norm, clouds=clouds, pool=pool)

    def pool_of(self, view: str) -> Pool:
        """The pool of a view, at first an empty one of the prior and memory that the method was given."""
        if view not in self.pools:
            memory = self.norm.memory if isinstance(self.norm, Pool) else None
            self.pools[view] = Pool(prior=self.pool_prior, memory=memory)
        return self.pools[view]


def positive_or_all(value: int | str | None, name: str, *, least: int = 1) -> int | None:
    """How many at the most; "all", which a recipe can write, is None."""
    if value is None or value == "all":
        return None
    if not isinstance(value, int) or value < least:
        raise ValueError(f'{name} must be at least {least}, or None or "all" for no limit; got {value!r}')
    return value


def split_head(model: Any, method: str) -> tuple[nn.Module, nn.Linear]:
    """All of the head but its last layer, and that: as the model's `split_head()` says, or as can be seen."""
    if hasattr(model, "split_head"):
        return model.split_head()
    for head in (getattr(model, "class_head", None), model.head):
        if isinstance(head, nn.Linear):
            return nn.Identity(), head
        if isinstance(head, nn.Sequential) and isinstance(head[-1], nn.Linear):
            return head[:-1], head[-1]
    raise ValueError(
        f"{method} needs the last layer of the head: give {type(model).__name__} a method split_head() that "
        "returns a module for all of the head but its last layer, and that nn.Linear"
    )


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
