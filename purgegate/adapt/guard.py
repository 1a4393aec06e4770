"""Warnings, once per adapter, of what is wrong without a word: clouds out of frame, streams that mislead."""

import logging
from collections import Counter, deque

from jaxtyping import Float
from torch import Tensor

from purgegate.gate.purge import entropy

# Distance of a cloud's farthest point from the origin that no prepared cloud has, corrupted ones included.
LEAST, MOST = 0.2, 5.0
UNSETTLED = 0.5  # nats by which statistics of the batch may make answers less certain than the source's
LAST, SAME = 64, 0.9  # so many of the last answers, of which so many are one class
WAY_OUT = 'use norm="pool" or norm="source", or mix the classes'

log = logging.getLogger("purgegate")


class Guard:
    """What an adapter has seen of its stream, as far as a warning needs it."""

    def __init__(self, name: str) -> None:
        self.name, self.warned = name, set[str]()
        self.labels: deque[int] = deque(maxlen=LAST)
        self.begun = False

    def see_clouds(self, points: Float[Tensor, "B N 3"]) -> None:
        """Warn of clouds that are not in the frame of any model."""
        reach = points.norm(dim=2).amax(dim=1).median().item()
        if not LEAST <= reach <= MOST:
            self._warn(
                "frame",
                "clouds reach %.3g from the origin where models know 1: bring them into the model's frame "
                "with pg.prepare(cloud, model)",
                reach,
            )

    def see_numbers(self, logits: Float[Tensor, "B C"]) -> None:
        """Warn of answers that are none."""
        bad = int((~logits.isfinite()).any(dim=1).sum())
        if bad:
            self._warn(
                "numbers",
                f"%d of {len(logits)} answers are NaN or infinite: its options let it diverge, as too high a "
                "learning rate does; give others, and reset()",
                bad,
            )

    def see_source(self, own: Float[Tensor, "B C"], source: Float[Tensor, "B C"]) -> None:
        """Warn of a batch whose own statistics unsettle the answers: mostly one of few classes."""
        lost = (entropy(own) - entropy(source)).mean().item()
        if lost > UNSETTLED:
            self._warn(
                "few classes",
                "the statistics of this batch make its answers less certain by %.2g nats, as those of few "
                f"classes do: {WAY_OUT}",
                lost,
            )

    def see_answers(self, logits: Float[Tensor, "B C"]) -> None:
        """Warn of a method that has come to answer one class alone."""
        self.labels.extend(logits.argmax(dim=1).tolist())
        (label, count), *_ = Counter(self.labels).most_common(1)
        if len(self.labels) == LAST and count > SAME * LAST:
            self._warn(
                "collapse",
                f"%d of the last {LAST} answers are class {label}: if the stream is of more, the method has "
                f"collapsed; reset() it, and {WAY_OUT}",
                count,
            )

    def _warn(self, kind: str, message: str, number: int | float) -> None:
        if kind not in self.warned:
            self.warned.add(kind)
            log.warning(f"%s: {message}", self.name, number)


def worth_comparing(norm: object, clouds: int) -> bool:
    """Whether statistics of the batch decide, on a batch large enough to be judged."""
    return norm in ("batch", "blend") and clouds >= 8
