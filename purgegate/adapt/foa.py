"""FOA (Niu et al., ICML 2024): features shifted back to the source's, and prompts found without gradients."""

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from purgegate.adapt.base import Method
from purgegate.adapt.evolution import EvolutionStrategy, default_population
from purgegate.adapt.features import FeatureStatistics, class_tokens, context_norms
from purgegate.adapt.options import describe_option
from purgegate.fingerprints import model_fingerprint
from purgegate.gate.purge import entropy
from purgegate.io.datasets import Dataset
from purgegate.norms import Norm
from purgegate.tokens import Tokens


@runtime_checkable
class SourceClouds(Protocol):
    """Source clouds that are read when they are first needed."""

    def described(self) -> str:
        """What a row of results says of them, before they are there."""

    def clouds(self) -> Any:
        """The clouds themselves, (n, N, 3)."""


GivenSource = Dataset | FeatureStatistics | SourceClouds | tuple[Any, Any]

_collected: dict[tuple[str, str, int], FeatureStatistics] = {}  # one pass per model and source


class FoaShift(Method):
    """Features moved by what the stream's running mean lacks to the source's, from the second batch on.

    `source` are clean source clouds, a data set or (points, label), of which `samples` are passed through the
    model once; or the `FeatureStatistics` of such a pass. Batch statistics (`norm="batch"`) undo the shift.
    """

    called: ClassVar[str] = "foa_shift"
    writes: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        *,
        source: GivenSource | None = None,
        samples: int = 512,
        strength: float = 1.0,
        norm: Norm = "source",
        seed: int = 0,
    ) -> None:
        if source is None:
            raise ValueError(
                f"{self.called} needs clean source clouds: give source=, a data set such as "
                'load_dataset("modelnet40", split="train"), (points, label), or FeatureStatistics'
            )
        if samples < 2:
            raise ValueError(
                f"samples must be at least 2, the source clouds that are looked at; got {samples}"
            )
        self.samples, self.strength, self._given_source = samples, strength, source
        super().__init__(model, norm=norm, seed=seed)
        if not isinstance(source, SourceClouds):
            self.statistics_of_source  # noqa: B018 (a source that cannot be is refused at once)

    @cached_property
    def statistics_of_source(self) -> FeatureStatistics:
        """The source's features, from one pass when first asked for."""
        source: Any = self._given_source
        if isinstance(source, FeatureStatistics):
            source.check(self._source)
            return source
        key = model_fingerprint(self._source) or "", describe_option(source), self.samples
        if key not in _collected or not key[0]:
            points = torch.as_tensor(source.clouds() if isinstance(source, SourceClouds) else source[0])
            count = min(self.samples, len(points))
            spread = torch.arange(count) * len(points) // count  # of every class, where they are sorted
            found = FeatureStatistics.collect(self._source, points[spread])
            _collected[key] = replace(found, made=describe_option(source))
        return _collected[key]

    def known_source(self) -> FeatureStatistics:
        """What stands for the source where its clouds are not at hand."""
        return self.statistics_of_source

    def start(self) -> None:
        """No stream seen."""
        self.history: Tensor | None = None

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """One forward."""
        feature = self.model.encode(self.model.tokenize(points))
        logits = self.model.head(feature + self.shift(feature))
        self.remember(feature.mean(dim=0))
        return logits

    def shift(self, feature: Float[Tensor, "B F"]) -> Tensor:
        """From the stream's mean to the source's."""
        wanted = self.statistics_of_source.feature.to(feature)  # made with the first batch, not the second
        if self.history is None:
            return torch.zeros_like(wanted)
        return self.strength * (wanted - self.history.to(feature))

    def remember(self, mean: Float[Tensor, " F"]) -> None:
        """A batch's mean joins the running one."""
        mean = mean.float()
        self.history = mean if self.history is None else 0.9 * self.history + 0.1 * mean


class Tried(NamedTuple):
    """What the model says with a prompt."""

    logits: Float[Tensor, "B C"]  # of shifted features
    feature: Float[Tensor, "B F"]
    value: Float[Tensor, ""]  # the less, the better


class Foa(FoaShift):
    """Some tokens more, by which answers are certain and class tokens look like the source's at every block.

    An evolution strategy proposes them, a population a batch; with the best of the batch before, that makes
    so many passes behind one embedding. `weight` is that of the class tokens' look in a batch of 64. New
    tokens have no position, and no part in the maximum.
    """

    called: ClassVar[str] = "foa"
    draws = True

    def __init__(
        self,
        model: Any,
        *,
        source: GivenSource | None = None,
        samples: int = 512,
        prompts: int = 3,
        population: int | None = None,
        weight: float = 0.4,
        strength: float = 1.0,
        norm: Norm = "source",
        seed: int = 0,
    ) -> None:
        if not context_norms(model):
            raise ValueError(
                f"foa needs a class token (methods `class_attention`, `contextualise` and `pool`) and blocks "
                f"with norms; {type(model).__name__} has none: use foa_shift"
            )
        if prompts < 1 or (population is not None and population < 4):
            raise ValueError(
                f"prompts must be at least 1 and population 4; got {prompts} and {population}: "
                "foa_shift has no prompts"
            )
        self.prompts, self.weight = prompts, weight
        self.population = population or default_population(prompts * model.width)
        super().__init__(model, source=source, samples=samples, strength=strength, norm=norm, seed=seed)

    def start(self) -> None:
        """No stream seen, a new strategy, a first prompt as vision transformers draw it."""
        super().start()
        width = self.model.width
        self.norms_of_context = context_norms(self.model)
        self.strategy = EvolutionStrategy(self.prompts * width, population=self.population)
        most = math.sqrt(6 / (3 * 16**2 + width))
        draws = torch.rand(self.prompts * width, generator=self.generator, dtype=torch.float64)
        self.best = most * (2 * draws - 1)

    def answer(self, points: Tensor) -> Float[Tensor, "B C"]:
        """Try all candidates, keep the best, tell the strategy."""
        tokens = self.model.tokenize(points)
        candidates = torch.cat([self.strategy.ask(self.generator), self.best[None]])
        tried = [self.attempt(tokens, candidate) for candidate in candidates]
        values = torch.stack([each.value for each in tried]).double().cpu()
        self.strategy.tell(candidates, values)
        chosen = int(values.nan_to_num(nan=torch.inf).argmin())
        self.best = candidates[chosen]
        self.remember(torch.stack([each.feature.float().mean(dim=0) for each in tried]).mean(dim=0))
        return tried[chosen].logits

    def attempt(self, tokens: Tokens, prompt: Float[Tensor, " n"]) -> Tried:
        """One pass behind the embedding."""
        clouds, groups = tokens.features.shape[:2]
        new = prompt.to(tokens.features).view(1, self.prompts, -1).expand(clouds, -1, -1)
        nowhere = (torch.zeros_like(new), new.new_zeros(clouds, self.prompts, 3))
        pairs = zip(tokens, (new, *nowhere), strict=True)
        with class_tokens(self.norms_of_context) as seen:
            own, others = self.model.contextualise(Tokens(*(torch.cat(pair, dim=1) for pair in pairs)))
            strangeness = self.strangeness(seen(clouds))
        feature = self.model.pool(own, others[:, :groups])
        doubt = entropy(self.model.head(feature).float()).sum()
        logits = self.model.head(feature + self.shift(feature))
        return Tried(logits, feature, doubt + self.weight * clouds / 64 * strangeness)

    def strangeness(self, tokens: Float[Tensor, "B E"]) -> Float[Tensor, ""]:
        """How far mean and spread of class tokens lie from the source's; a cloud alone has no spread."""
        known = self.statistics_of_source
        apart = (tokens.mean(dim=0) - known.mean.to(tokens)).square().sum()
        if len(tokens) > 1:
            apart = apart + (tokens.std(dim=0) - known.std.to(tokens)).square().sum()
        return apart
