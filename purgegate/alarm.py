"""An alarm with a promise: over a whole stream that does not change, it rings with probability alpha at most.

A bet against "this stream is the source" (a test martingale, after POEM, NeurIPS 2024): each cloud's entropy
under the source model has a rank among entropies of clean clouds, and money is put on ranks above or below
the middle. Nobody multiplies money by 1 / alpha in a fair game with a greater probability than alpha (Ville).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

RATE = 2 / math.sqrt(3)  # how fast the stake moves, as in POEM
STAKE = 0.9  # of what could be lost at once
RECENT = 1024  # ranks kept to look for the place of the change
SPLIT = 16.0  # the square of how many standard errors two means must lie apart, for a change


class Alarm(NamedTuple):
    """What the alarm says after a cloud; clouds are counted from 1."""

    state: str  # "learning" what is usual where no reference was given, "quiet" or "ringing"
    evidence: float = 0.0  # logarithm of the money as a share of what rings: 1 rings, below 0 speaks against
    seen: int = 0
    rang: int | None = None  # at which cloud
    since: int | None = None  # the first cloud of the change: after it the bet began to win
    located: int | None = None  # the same by least squares, where the mean of the ranks changed
    rank: float | None = None  # mean rank of the entropies since: 0.5 as the source, above it less sure
    shift: float | None = None  # mean shift score since
    before: float | None = None  # mean shift score before
    stages: tuple[tuple[str, int], ...] = ()  # repairs since, with the clouds on which they acted

    def line(self) -> str:
        """The alarm as one line of a log."""
        acted = ", ".join(f"{stage} {count}" for stage, count in self.stages) or "none"
        surer = "less" if (self.rank or 0) > 0.5 else "more"
        moved = (
            ""
            if self.shift is None
            else f"; shift {_number(self.before)} before, {_number(self.shift)} since"
        )
        return (
            f"alarm at cloud {self.rang}: since cloud {self.since} the model is {surer} sure than on its "
            f"source (mean rank {_number(self.rank)}, usual 0.5){moved}; repairs since: {acted}"
        )


class Watch:
    """Takes in one cloud after the other and says whether the stream is still the source.

    `entropies` are those of clean clouds that the model was not trained on, under the model as it was
    trained. Without them the first `learn` clouds of the stream are taken for clean. Half of `alpha` is for
    the bet, half for the chance that so few entropies misplace the middle.
    """

    def __init__(self, entropies: Sequence[float] | None, *, alpha: float = 0.01, learn: int = 128) -> None:
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must lie between 0 and 1, the probability of a false alarm; got {alpha}")
        if learn < 2 or (entropies is not None and len(entropies) < 2):
            raise ValueError("the alarm needs the entropies of at least 2 clean clouds")
        self.alpha, self.learn, self._given = alpha, learn, entropies
        self.needed = math.log(2 / alpha)
        self.reset()

    def reset(self) -> None:
        """Forget the stream; a new promise begins."""
        self.usual = [] if self._given is None else sorted(self._given)
        self.seen = 0
        self.rang: int | None = None
        self.located: int | None = None
        self.money, self.stake, self.steps = 0.0, 0.0, 0.0  # the first as a logarithm
        self.least = 0.0
        self.recent: deque[float] = deque(maxlen=RECENT)
        self._before = _Sums()
        self._since = _Sums()

    @property
    def learning(self) -> bool:
        """Whether the clouds are still taken as what is usual."""
        return self._given is None and len(self.usual) < self.learn

    @property
    def margin(self) -> float:
        """How far the mean rank of source clouds may lie from the middle, by chance of the entropies.

        A rank is uniform, so a mean of n of them is sub-Gaussian with variance 1 / (12 n).
        """
        return math.sqrt(math.log(4 / self.alpha) / (6 * len(self.usual)))

    def push(self, entropy: float, *, shift: float | None = None, stages: Iterable[str] = ()) -> bool:
        """Take in a cloud; True if the alarm rings with this one."""
        self.seen += 1
        if self.learning:
            self._before.add(None, shift, stages)
            self.usual.append(float(entropy))
            self.usual = self.usual if self.learning else sorted(self.usual)
            return False
        rank = self.rank(entropy)
        self._since.add(rank, shift, stages)
        self.recent.append(rank)
        self._bet(rank)
        if self.rang is not None or self.money < self.needed:
            return False
        self.rang = self.seen
        split = change_point(list(self.recent))
        self.located = None if split is None else self.seen - len(self.recent) + split + 1
        return True

    def rank(self, entropy: float) -> float:
        """The share of clean clouds with less entropy; of equals, half."""
        return (bisect_left(self.usual, entropy) + bisect_right(self.usual, entropy)) / 2 / len(self.usual)

    def read(self) -> Alarm:
        """What the alarm says now."""
        if self.learning:
            return Alarm("learning", seen=self.seen)
        evidence = self.money / self.needed
        if self.rang is None:
            return Alarm("quiet", evidence, self.seen)
        return Alarm(
            "ringing", evidence, self.seen, self.rang,
            since=self.seen - self._since.clouds + 1,
            located=self.located,
            rank=self._since.rank(),
            shift=self._since.shift(),
            before=self._before.shift(),
            stages=tuple(sorted(self._since.stages.items())),
        )  # fmt: skip

    def _bet(self, rank: float) -> None:
        """Pay out the stake, then move it along the gradient of the money's logarithm."""
        margin, middle = self.margin, rank - 0.5
        side = math.copysign(1, self.stake or middle)
        gain = max(side * middle - margin, 0.0) * side if self.stake == 0 else middle - margin * side
        factor = 1 + self.stake * gain
        self.money += math.log(factor)
        slope = gain / factor
        self.steps += slope**2
        most = STAKE / (0.5 + margin)
        moved = self.stake + (RATE * slope / math.sqrt(self.steps) if self.steps else 0.0)
        self.stake = min(max(moved, -most), most)
        if self.money < self.least and self.rang is None:  # whatever changed, it changed after this cloud
            self.least = self.money
            self._before.join(self._since)
            self._since = _Sums()

    def state(self) -> dict[str, Any]:
        """All that the alarm knows, as plain values."""
        names = ("usual", "seen", "rang", "located", "money", "stake", "steps", "least")
        plain = {name: getattr(self, name) for name in names if name != "usual" or self._given is None}
        return plain | {
            "recent": list(self.recent),
            "before": self._before.state(),
            "since": self._since.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        self.reset()
        state = dict(state)
        self.recent.extend(state.pop("recent"))
        self._before, self._since = (_Sums(*state.pop(name)) for name in ("before", "since"))
        for name, value in state.items():
            setattr(self, name, value)


def change_point(ranks: Any) -> int | None:
    """The place from which ranks have another mean: the split that explains most of their variance.

    None where even the best split is no better than chance would find among so many. Nearer to the change
    than ADWIN, which only says by when it has noticed one.
    """
    values = np.asarray(ranks, dtype=float)
    spread = values.var() if len(values) > 1 else 0.0
    if spread == 0:
        return None
    count = np.arange(1, len(values))
    gap = (values - values.mean()).cumsum()[:-1]
    gain = gap**2 * len(values) / (count * (len(values) - count))  # of the sum of squares
    best = int(gain.argmax())
    left = max(spread * len(values) - gain[best], 1e-12 * spread) / len(values)
    return best + 1 if gain[best] > SPLIT * left else None


class _Sums:
    """Sums over a stretch of a stream."""

    def __init__(
        self, clouds: int = 0, ranks: float = 0.0, shifts: float = 0.0, scored: int = 0,
        stages: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.clouds, self.ranks, self.shifts, self.scored = clouds, ranks, shifts, scored
        self.stages = Counter(stages or {})

    def add(self, rank: float | None, shift: float | None, stages: Iterable[str]) -> None:
        self.clouds += 1
        self.ranks += rank or 0.0
        self.shifts += shift or 0.0
        self.scored += shift is not None
        self.stages.update(stages)

    def join(self, other: "_Sums") -> None:
        self.clouds += other.clouds
        self.ranks += other.ranks
        self.shifts += other.shifts
        self.scored += other.scored
        self.stages.update(other.stages)

    def rank(self) -> float | None:
        return self.ranks / self.clouds if self.clouds else None

    def shift(self) -> float | None:
        return self.shifts / self.scored if self.scored else None

    def state(self) -> list[Any]:
        return [self.clouds, self.ranks, self.shifts, self.scored, dict(self.stages)]


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
