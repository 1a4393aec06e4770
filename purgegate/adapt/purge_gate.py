"""Purge-Gate (ICCV 2025): drop the tokens farthest from the source, keep the most certain answer."""

import logging
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from purgegate.adapt.base import Method, Prediction
from purgegate.backbones.base import HasClassToken, HasPatches, encode_each
from purgegate.gate.purge import entropy, most_certain, survivors
from purgegate.gate.scores import class_distance, source_distance, standardise
from purgegate.gate.statistics import SourceStatistics
from purgegate.imports import path_of
from purgegate.norms import NORMS, Norm
from purgegate.tokens import Tokens

log = logging.getLogger("purgegate")

SELECTS = ("cloud", "batch")
SIZES = (0, 2, 4, 8, 16, 32)  # the paper's

Score = Callable[[Any, Tokens], Float[Tensor, "B G"]]
Kept = list[Callable[[], Tokens]]  # what makes the tokens that stay at each purge size
Gated = tuple[Float[Tensor, "B G"], Kept]  # with the scores of all


class SourceDistance:
    """PG-SP: score tokens by their distance from the source statistics."""

    name = "pg_sp"

    def __init__(self, statistics: SourceStatistics) -> None:
        self.statistics = statistics

    @property
    def options(self) -> dict[str, Any]:
        """What rows of results say of the score."""
        return {"statistics": self.statistics.described()}

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


class PurgeGate(Method):
    """A backbone behind the gate: clouds in, logits out, nothing learned and nothing to forget.

    `norm="survivors"` scores tokens under source statistics and gives BatchNorm those of the patches that
    stay, so that what is purged has no part in them. `select="batch"` takes one purge size for all clouds of
    a batch, that of the least mean entropy.
    """

    writes: ClassVar[bool] = False
    norms: ClassVar[tuple[str, ...]] = (*NORMS, "survivors")

    def __init__(
        self,
        model: Any,
        score: Score,
        *,
        purge: Sequence[int] = SIZES,
        norm: Norm = "batch",
        select: str = "cloud",
        seed: int = 0,
    ) -> None:
        self.score, self.purge, self.select = score, _sizes(purge), select
        super().__init__(model, norm=norm, seed=seed)
        if norm == "survivors" and not isinstance(model, HasPatches):
            raise ValueError(
                f"norm='survivors' needs a model with the methods cut and embed; {type(model).__name__} "
                "has none: use norm='batch'"
            )
        if select not in SELECTS:
            raise ValueError(f"select must be one of {', '.join(SELECTS)}; got {select!r}")
        if hasattr(score, "check"):
            score.check(model)
        self._check_sizes(getattr(model, "groups", max(self.purge) + 1))

    @property
    def family(self) -> str:
        """The gate is called by its score; one that cannot be imported again has no name of its own."""
        path = getattr(self.score, "name", None) or path_of(getattr(self.score, "__func__", self.score))
        return "" if "<" in path else path

    @property
    def options(self) -> dict[str, Any]:
        """The gate's own options and those of its score."""
        own = super().options
        own.pop("score", None)
        return own | getattr(self.score, "options", {})

    @property
    def given(self) -> dict[str, Any]:
        """The gate's own options that are not the usual."""
        return {name: value for name, value in super().given.items() if name != "score"}

    @property
    def least_batch(self) -> int:
        """How many clouds a batch must have."""
        return 2 if self.norm in ("batch", "survivors") else 1

    def decide(self, points: Tensor) -> Prediction:
        """Tokenise and score once, then finish the forward at every purge size."""
        scores, kept = self.gate_late(points) if self.norm == "survivors" else self.gate(points)
        finish = self._finish_apart if self.pooled else self._finish_together
        return self._choose(torch.stack(finish(len(points), kept), dim=1), scores)

    def _finish_together(self, clouds: int, kept: Kept) -> list[Float[Tensor, "B C"]]:
        """Logits at every purge size, encoded in one pass where the model can."""
        with self.statistics(clouds, norm="batch" if self.norm == "survivors" else None):
            features = encode_each(self.model, (tokens() for tokens in kept))
            return [self.model.head(feature) for feature in features]

    def _finish_apart(self, clouds: int, kept: Kept) -> list[Float[Tensor, "B C"]]:
        """The same with a pool for every size: each is another view of the stream."""
        answers = []
        for size, tokens in zip(self.purge, kept, strict=True):
            with self.statistics(clouds, view=f"purge {size}"):
                answers.append(self.model.head(self.model.encode(tokens())))
        return answers

    def gate(self, points: Tensor) -> Gated:
        """Scores, and for each purge size the tokens that stay."""
        with self.statistics(len(points), view="tokens"):
            tokens = self.model.tokenize(points)
            scores = self._scored(tokens)
        kept = (tokens if not size else tokens.keep(survivors(scores, size)) for size in self.purge)
        return scores, [partial(_itself, each) for each in kept]

    def gate_late(self, points: Tensor) -> Gated:
        """The same, with tokens made anew from the patches that stay, under their own statistics."""
        with self.statistics(len(points), norm="source"):
            patches = self.model.cut(points)
            scores = self._scored(self.model.embed(*patches))
        kept = (patches if not size else _at(survivors(scores, size), *patches) for size in self.purge)
        return scores, [partial(self.model.embed, *each) for each in kept]

    def _scored(self, tokens: Tokens) -> Float[Tensor, "B G"]:
        self._check_sizes(tokens.features.shape[1])
        scores = self.score(self.model, tokens)
        _check_scores(scores, tokens)
        return scores

    def _choose(self, candidates: Float[Tensor, "B S C"], scores: Float[Tensor, "B G"]) -> Prediction:
        """The most certain answer of each cloud, or of the batch."""
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

    def _check_sizes(self, groups: int) -> None:
        """Refuse sizes that leave no token; of the paper's, those that do not fit are left out."""
        wrong = [size for size in self.purge if not 0 <= size < groups]
        if wrong and self.purge == SIZES:
            self.purge = tuple(size for size in SIZES if size < groups)
            log.warning("purge sizes %s are left out: the model has %d tokens", wrong, groups)
        elif wrong:
            raise ValueError(
                f"purge sizes must lie in [0, {groups}), the number of tokens; got {wrong}: give others"
            )


def _itself(tokens: Tokens) -> Tokens:
    return tokens


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
