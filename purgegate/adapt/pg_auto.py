"""Ours: repair the cloud, pool the statistics of the stream, look twice. No gradient, no source data.

A cloud's way: strays are purged, then label-free tests over the last clouds decide whether the stream is
tilted or seen from one side, then up to two views of the repaired cloud are answered, and their mean is the
answer. The repairs assume upright objects whose faces look along the axes, as the source's do.
"""

from collections import deque
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from purgegate.adapt.base import Method, Prediction, split_head
from purgegate.adapt.purge_gate import Score, SourceDistance
from purgegate.adapt.t3a import FILTER_K, Templates
from purgegate.gate.purge import entropy
from purgegate.gate.statistics import SourceStatistics
from purgegate.norms import Norm
from purgegate.points.repair.parts import complete, horizontal_offset, solidity, viewpoint
from purgegate.points.repair.scale import rescale
from purgegate.points.repair.strays import isolation, replace_strays, strays
from purgegate.points.repair.tilt import Tilt, tilt, upright
from purgegate.pools import State, nest, unnest
from purgegate.tokens import Tokens
from purgegate.typing import Points

STAGES = ("strays", "tilt", "parts", "scale")
CLASSIFIERS = (None, "t3a")

Headed = tuple[Float[Tensor, "B W"], Float[Tensor, "B C"]]  # what the last layer sees, and logits

# Chosen on the even half of the ModelNet40-C shapes (docs/beyond.md).
WINDOW = 32  # clouds that a decision looks back on
OFFSET, HIDDEN = 0.12, 0.06  # seen from one side: centroid off the middle, hardly a point behind another
SOLID = 0.12  # least spread of a cloud in parts of the greatest; flatter ones are no evidence
GAIN = 0.03  # tilted: so much more of the faces looks along the axes behind a turn
STAY = 0.75  # a stage that acts goes on until its statistic falls below this part of the bound
ALL_SOURCE = 1e9  # a prior beside which no stream counts
MARGIN = 0.5  # nats by which a repair may make answers less certain before it is left out


class Found(NamedTuple):
    """What the tests measure on one cloud."""

    offset: float
    hidden: float
    gain: float


class Window:
    """What the method remembers of the last clouds, and the stage that acts on them."""

    def __init__(self) -> None:
        self.stage = ""
        self.found: deque[Found] = deque(maxlen=WINDOW)
        self.losses: dict[str, deque[float]] = {}
        self.few: dict[int, bool] = {}  # by view: whether the stream has few classes

    def decide(self, found: Sequence[Found]) -> str:
        """The repair that the last clouds, these included, ask for: "parts", "tilt" or none."""
        self.found.extend(found)
        offset, hidden, gain = (list(column) for column in zip(*self.found, strict=True))
        parts, tilt = (STAY if self.stage == stage else 1.0 for stage in ("parts", "tilt"))
        if fmean(offset) > OFFSET * parts and median(hidden) < HIDDEN / parts:
            self.stage = "parts"
        else:
            self.stage = "tilt" if median(gain) > GAIN * tilt else ""
        return self.stage

    def loses(self, what: str, losses: Sequence[float], *, margin: float) -> bool:
        """Whether a choice costs more certainty than this, in the mean over the last clouds."""
        kept = self.losses.setdefault(what, deque(maxlen=WINDOW))
        kept.extend(losses)
        return fmean(kept) > margin

    def state(self) -> State:
        """All that is remembered, as tensors."""
        losses = {name: torch.tensor(list(kept), dtype=torch.float64) for name, kept in self.losses.items()}
        few = {str(place): torch.tensor(few) for place, few in self.few.items()}
        found = torch.tensor(list(self.found), dtype=torch.float64).reshape(-1, len(Found._fields))
        stage = torch.tensor(("", *STAGES).index(self.stage))
        return {"stage": stage, "found": found} | nest("losses", losses) | nest("few", few)

    def load_state(self, state: State) -> None:
        """Go on where `state` was called."""
        self.stage = ("", *STAGES)[int(state["stage"])]
        self.found = deque((Found(*each) for each in state["found"].tolist()), maxlen=WINDOW)
        held = unnest("losses", state).items()
        self.losses = {name: deque(kept.tolist(), maxlen=WINDOW) for name, kept in held}
        self.few = {int(place): bool(few) for place, few in unnest("few", state).items()}


class AutoGate(Method):
    """Stages of repair, then the mean of one or two views, under statistics pooled over the stream.

    With `classifier="t3a"` confident features of the stream re-estimate the classes. `statistics` serve the
    shift score alone. The method's first form is `stages=("strays",), views=1, norm="blend"`.
    """

    writes: ClassVar[bool] = False

    def __init__(
        self,
        model: Any,
        *,
        statistics: SourceStatistics | None = None,
        stages: Sequence[str] = STAGES,
        views: int = 2,
        norm: Norm = "pool",
        classifier: str | None = None,
        seed: int = 0,
    ) -> None:
        if unknown := set(stages) - set(STAGES):
            raise ValueError(f"stages must be some of {', '.join(STAGES)}; got {', '.join(sorted(unknown))}")
        if views not in (1, 2):
            raise ValueError(f"views must be 1 or 2; got {views}")
        if classifier not in CLASSIFIERS:
            raise ValueError(f"classifier must be None or 't3a'; got {classifier!r}")
        self.stages = tuple(stage for stage in STAGES if stage in stages)
        self.views, self.classifier = views, classifier
        self.score: Score = SourceDistance(statistics) if statistics else center_isolation
        if isinstance(self.score, SourceDistance):
            self.score.check(model)
        self.scale_matters = "scale" not in self.stages
        super().__init__(model, norm=norm, seed=seed)

    @property
    def options(self) -> dict[str, Any]:
        """Statistics have no part in the answer."""
        return {name: value for name, value in super().options.items() if name != "statistics"}

    def start(self) -> None:
        """No cloud seen."""
        self.window = Window()
        self.templates: dict[int, Templates] = {}

    def state(self) -> State:
        """The window and the templates of the views too."""
        found = super().state() | nest("window", self.window.state())
        for place, templates in self.templates.items():
            found |= nest(f"templates/{place}", templates.state())
        return found

    def load_state(self, state: State) -> None:
        """The window and the templates of the views too."""
        super().load_state(state)
        self.window.load_state(unnest("window", state))
        held = unnest("templates", state)
        for place in {key.partition("/")[0] for key in held}:
            self._templates_of(int(place)).load_state(unnest(place, held))

    def decide(self, points: Tensor) -> Prediction:
        """Repair, look, and take the mean; `purge` counts points."""
        stray = strays(points) if "strays" in self.stages else torch.zeros_like(points[..., 0]).bool()
        views, stage = self._views(replace_strays(points, stray))
        answers, tokens = zip(*(self._look(view, place) for place, view in enumerate(views)), strict=True)
        candidates = torch.stack(answers, dim=1)
        scores = self.score(self.model, tokens[0])
        return Prediction(
            logits=self._mean(candidates, stage),
            candidates=candidates,
            entropy=entropy(candidates),
            purge=_distinct_strays(points, stray),
            scores=scores,
            shift=scores.mean(dim=1),
            strays=stray,
            stages=("strays",) * bool(stray.any()) + (stage,) * bool(stage),
        )

    def _views(self, points: Points) -> tuple[list[Points], str]:
        """What is looked at, the repaired cloud first, and the stage that made it."""
        found = tilt(points) if "tilt" in self.stages else None
        stage = self.window.decide(self._tests(points, found))
        if stage == "parts":
            views = [self._framed(complete(points)[0]), points]
        elif stage == "tilt" and found:
            views = [self._framed(upright(points, found)), self._framed(points)]
        else:
            first = self._framed(points)
            views = [first, _other_start(first)]
        return views[: self.views], stage

    def _tests(self, points: Points, found: Tilt | None) -> list[Found]:
        """What the window needs to know of each cloud; a stage that is off is never asked for."""
        offset, hidden = [0.0] * len(points), [1.0] * len(points)
        if "parts" in self.stages:
            # A flat cloud hides nothing of itself from anywhere: that says nothing of who saw it.
            seen = torch.where(solidity(points) < SOLID, 1.0, viewpoint(points)[1])
            offset, hidden = horizontal_offset(points).tolist(), seen.tolist()
        gain = found.gain.tolist() if found else [0.0] * len(points)
        return [Found(*each) for each in zip(offset, hidden, gain, strict=True)]

    def _framed(self, points: Points) -> Points:
        return rescale(points)[0] if "scale" in self.stages else points

    def _look(self, points: Points, place: int) -> tuple[Float[Tensor, "B C"], Tokens]:
        """Logits of one view, which has a pool of its own, and its tokens."""
        if self.pooled:
            tokens, (hidden, logits) = self._in_pool(points, place)
        else:
            with self.statistics(len(points)):
                tokens = self.model.tokenize(points)
                hidden, logits = self._head(self.model.encode(tokens))
        if self.classifier:
            logits = self._templates_of(place).answer(hidden)
        return logits, tokens

    def _in_pool(self, points: Points, place: int) -> tuple[Tokens, Headed]:
        """Under the view's pool, unless the stream has few classes: then its statistics are theirs.

        The head, which sees one feature per cloud, shows it: it is run with the source's statistics and with
        its pool's, and where the source's have been the more certain of late, they are taken everywhere.
        """
        clouds, few = len(points), self.window.few.get(place, False)
        self.pool_of(f"view {place}").prior = ALL_SOURCE if few else self.pool_prior
        with self.statistics(clouds, view=f"view {place}"):
            tokens = self.model.tokenize(points)
            feature = self.model.encode(tokens)
        source = self._headed(feature, norm="source")
        pooled = self._headed(feature, view=f"head {place}")
        losses = (entropy(pooled[1]) - entropy(source[1])).tolist()
        self.window.few[place] = self.window.loses(f"head {place}", losses, margin=0.0)
        if not self.window.few[place]:
            return tokens, pooled
        if not few:  # found out by this batch, which is answered again
            with self.statistics(clouds, norm="source"):
                tokens = self.model.tokenize(points)
                source = self._head(self.model.encode(tokens))
        return tokens, source

    def _headed(self, feature: Float[Tensor, "B F"], **statistics: str) -> Headed:
        with self.statistics(len(feature), **statistics):
            return self._head(feature)

    def _head(self, feature: Float[Tensor, "B F"]) -> Headed:
        """What the last layer sees, where a classifier asks for it, and the logits."""
        if not self.classifier:
            return feature, self.model.head(feature)
        hidden, last = split_head(self.model, "pg_auto with classifier='t3a'")
        found = hidden(feature)
        return found, last(found)

    def _templates_of(self, place: int) -> Templates:
        if place not in self.templates:
            last = split_head(self.model, "pg_auto with classifier='t3a'")[1]
            self.templates[place] = Templates(last, filter_k=FILTER_K)
        return self.templates[place]

    def _mean(self, candidates: Float[Tensor, "B V C"], stage: str) -> Float[Tensor, "B C"]:
        """The views' mean share of each class; a repair that unsettles the answers is left out."""
        if candidates.shape[1] == 1 or (not stage and self.window.few.get(0)):
            return candidates[:, 0]
        if stage:
            repaired, plain = entropy(candidates).unbind(dim=1)
            if self.window.loses(stage, (repaired - plain).tolist(), margin=MARGIN):
                return candidates[:, 1]
        return candidates.softmax(dim=-1).mean(dim=1).clamp(min=torch.finfo(candidates.dtype).tiny).log()


def center_isolation(model: Any, tokens: Tokens) -> Float[Tensor, "B G"]:
    """How far each patch's centre lies from the others: a score for any backbone, with no source data."""
    return isolation(tokens.centers)


def _other_start(points: Points) -> Points:
    """The same clouds with another point first, from which other patches are cut."""
    middle, view = points.shape[1] // 2, points.clone()
    view[:, 0], view[:, middle] = points[:, middle], points[:, 0]
    return view


def _distinct_strays(points: Points, stray: Bool[Tensor, "B N"]) -> Tensor:
    """How many points were purged: copies, which small clouds have of their points, count as one."""
    pairs = zip(points, stray, strict=True)
    counts = [len(cloud[own].unique(dim=0)) if own.any() else 0 for cloud, own in pairs]
    return torch.tensor(counts, device=points.device)
