"""Purge-Gate (ICCV 2025): drop the tokens farthest from the source, keep the most certain answer."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.backbones.base import Backbone, HasClassToken, HasPatches
from purgegate.gate.purge import entropy, most_certain, survivors
from purgegate.gate.scores import class_distance, source_distance, standardise
from purgegate.gate.statistics import SourceStatistics
from purgegate.norms import NORMS, evaluating, statistics_from
from purgegate.points.patches import check_clouds
from purgegate.tokens import Tokens

SELECTS = ("cloud", "batch")
SIZES = (0, 2, 4, 8, 16, 32)  # the paper's

Score = Callable[[Any, Tokens], Float[Tensor, "B G"]]


class Prediction(NamedTuple):
    """What the gate knows of a batch: the chosen answer and how it was found."""

    logits: Float[Tensor, "B C"]
    candidates: Float[Tensor, "B S C"]  # the logits at every purge size
    entropy: Float[Tensor, "B S"]
    purge: Int64[Tensor, " B"]  # how many tokens were dropped for the chosen answer
    scores: Float[Tensor, "B G"]  # distance of each token from the source
    shift: Float[Tensor, " B"]  # mean of the scores: how far the cloud as a whole lies from the source


class SourceDistance:
    """PG-SP: score tokens by their distance from the source statistics."""

    name = "pg_sp"

    def __init__(self, statistics: SourceStatistics) -> None:
        self.statistics = statistics

    def check(self, model: Any) -> None:
        """Refuse statistics that another model made."""
        self.statistics.check(model)

    def __call__(self, model: Any, tokens: Tokens) -> Float[Tensor, "B G"]:
        """Distance of each token, standardised with its position added."""
        x, statistics = standardise(tokens.placed()), self.statistics
        if x.shape[-1] != len(statistics.mean):
            raise ValueError(
                f"source statistics must have the width of the tokens, {x.shape[-1]}; "
                f"got {len(statistics.mean)}: collect them with this model"
            )
        return source_distance(x, statistics.mean.to(x), statistics.std.to(x))


class ClassDistance:
    """PG-SF: score tokens by how little the class token would attend to them; no source data."""

    name = "pg_sf"

    def check(self, model: Any) -> None:
        """Refuse a model without a class token."""
        if not isinstance(model, HasClassToken):
            raise ValueError(
                f"PG-SF needs a class token (a method `class_attention`); {type(model).__name__} has none: "
                "use PG-SP, SourceDistance(statistics)"
            )

    def __call__(self, model: Any, tokens: Tokens) -> Float[Tensor, "B G"]:
        """Cosine distance between the class token's query and each token's key in the first block."""
        return class_distance(*model.class_attention(tokens))


class PurgeGate:
    """A backbone behind the gate: clouds in, logits out, nothing learned and nothing to forget.

    `norm="survivors"` scores tokens under source statistics and gives BatchNorm those of the patches that
    stay, so that what is purged has no part in them. `select="batch"` takes one purge size for all clouds of
    a batch, that of the least mean entropy.
    """

    def __init__(
        self,
        model: Any,
        score: Score,
        *,
        purge: Sequence[int] = SIZES,
        norm: str = "batch",
        select: str = "cloud",
    ) -> None:
        if not isinstance(model, Backbone):
            raise ValueError(
                f"a model needs the methods tokenize, encode and head; got {type(model).__name__}"
            )
        if norm == "survivors" and not isinstance(model, HasPatches):
            raise ValueError(
                f"norm='survivors' needs a model with the methods cut and embed; {type(model).__name__} "
                "has none: use norm='batch'"
            )
        for name, value, choices in (("norm", norm, (*NORMS, "survivors")), ("select", select, SELECTS)):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
        purge = _sizes(purge)
        if hasattr(score, "check"):
            score.check(model)
        self.model: Any = model
        self.score, self.purge, self.norm, self.select = score, purge, norm, select
        self.name = getattr(score, "name", None) or _plain_name(score)
        self.options: dict[str, Any] = {"purge": list(purge), "norm": norm, "select": select}
        if isinstance(score, SourceDistance):
            self.options["statistics"] = score.statistics.digest()
        self._check_sizes(getattr(model, "groups", max(purge) + 1))

    def __call__(self, points: Tensor) -> Float[Tensor, "B C"]:
        """The most certain logits of each cloud (B, N, 3)."""
        return self.predict(points).logits

    @torch.no_grad()
    def predict(self, points: Tensor) -> Prediction:
        """Tokenise and score once, then finish the forward at every purge size."""
        check_clouds(points, self.model)
        model, late = self.model, self.norm == "survivors"
        with evaluating(model):
            with statistics_from(model, "source" if late else self.norm, clouds=len(points)):
                patches = model.cut(points) if late else None
                tokens = model.embed(*patches) if patches else model.tokenize(points)
                self._check_sizes(tokens.features.shape[1])
                scores = self.score(model, tokens)
                _check_scores(scores, tokens)
            with statistics_from(model, "batch" if late else self.norm, clouds=len(points)):
                index = (survivors(scores, size) if size else None for size in self.purge)
                if patches:
                    kept = (model.embed(*(patches if i is None else _at(i, *patches))) for i in index)
                else:
                    kept = (tokens if i is None else tokens.keep(i) for i in index)
                candidates = torch.stack([model.head(model.encode(some)) for some in kept], dim=1)
        uncertainty = entropy(candidates)
        chosen = most_certain(candidates)
        if self.select == "batch":
            chosen = uncertainty.mean(dim=0).argmin().expand(len(chosen))
        rows = torch.arange(len(chosen), device=chosen.device)
        sizes = torch.tensor(self.purge, device=chosen.device)
        return Prediction(
            logits=candidates[rows, chosen],
            candidates=candidates,
            entropy=uncertainty,
            purge=sizes[chosen],
            scores=scores,
            shift=scores.mean(dim=1),
        )

    def reset(self) -> None:
        """Nothing to forget: each batch is answered by itself."""

    def _check_sizes(self, groups: int) -> None:
        wrong = [size for size in self.purge if not 0 <= size < groups]
        if wrong:
            raise ValueError(f"purge sizes must lie in [0, {groups}), the number of tokens; got {wrong}")


def _plain_name(score: Score) -> str:
    """The name of a function of a module; what else computes scores has none that tells it from others."""
    name = getattr(score, "__qualname__", "<>")
    return "" if "<" in name else name


def _sizes(purge: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in purge)
    except TypeError as error:
        raise ValueError(
            f"purge must be a sequence of whole numbers, such as (0, 2, 4); got {purge!r}"
        ) from error
    if not sizes:
        raise ValueError("purge needs at least one size; (0,) is the source model")
    return sizes


def _check_scores(scores: Tensor, tokens: Tokens) -> None:
    wanted = tuple(tokens.features.shape[:2])
    if tuple(scores.shape) != wanted or not scores.is_floating_point():
        raise ValueError(
            f"a score must give one floating-point number a token, {wanted}; got {scores.dtype} of shape "
            f"{tuple(scores.shape)}"
        )
    if scores.isnan().any():
        raise ValueError("a score must give numbers; got NaN for some tokens")


def _at(
    index: Int64[Tensor, "B m"], centers: Float[Tensor, "B G 3"], patches: Float[Tensor, "B G K 3"]
) -> tuple[Float[Tensor, "B m 3"], Float[Tensor, "B m K 3"]]:
    """The patches at these places of each cloud, with their centres."""
    rows = torch.arange(len(index), device=index.device)[:, None]
    return centers[rows, index], patches[rows, index]
