"""What a stream has said so far, for a page that looks on."""

import math
import threading
import time
from collections import deque
from itertools import islice
from typing import Any, NamedTuple
from uuid import uuid4

from jaxtyping import Float
from torch import Tensor

from purgegate.alarm import Alarm
from purgegate.answers import Answer
from purgegate.figures.page_server import Routes, read_query
from purgegate.figures.scenes import pack

KEPT = 2000  # clouds of which the page shows how the stream went
PICTURES = 8  # clouds that are shown themselves
DRAWN = 512  # points of each
QUESTION = {"after": int}


class Answered(NamedTuple):
    """A cloud as the model saw it, the answer to it, and its class where that is known."""

    name: str
    points: Float[Tensor, "N 3"]
    answer: Answer
    truth: str = ""


class Timeline:
    """Takes in a stream's answers, and gives a page those that it has not seen; for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run, self._start = uuid4().hex, time.monotonic()
        self._clouds: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._pictures: deque[dict[str, Any]] = deque(maxlen=PICTURES)
        self._alarms: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._seen = self._known = self._right = self._failed = 0
        self._failure, self._ended = "", False

    @property
    def routes(self) -> Routes:
        """What a page's server answers."""
        return {"/stream": lambda query: self.since(**read_query(query, QUESTION))}

    def show(self, answered: Answered) -> None:
        """Take in an answer."""
        name, points, answer, truth = answered
        right = answer.name == truth if truth else None
        with self._lock:
            self._seen += 1
            self._known += right is not None
            self._right += bool(right)
            alarm = answer.alarm
            self._clouds.append(
                {
                    "number": self._seen,
                    "seconds": round(time.monotonic() - self._start, 3),
                    "right": right,
                    "shift": _finite(answer.shift),
                    "purged": answer.purged_share,
                    "alarm": alarm.state if alarm else None,
                    "evidence": _finite(alarm.evidence) if alarm and alarm.state != "learning" else None,
                }
            )
            self._pictures.append(
                {
                    "number": self._seen,
                    "name": name,
                    "class": answer.name,
                    "truth": truth,
                    "confidence": _finite(answer.confidence),
                    "unknown": bool(answer.unknown),
                    "stages": list(answer.stages),
                    "points": pack(points[:DRAWN]),  # prepared points are spread from the first on
                }
            )

    def ring(self, alarm: Alarm) -> None:
        """Take in the alarm, which rings at the last cloud; it counts clouds by itself."""
        with self._lock:
            since = self._seen - (alarm.rang or 0) + (alarm.since or 0)
            self._alarms.append({"number": self._seen, "since": since, "line": alarm.line()})

    def fail(self, name: str, reason: str) -> None:
        """Take in a cloud that could not be answered."""
        with self._lock:
            self._failed, self._failure = self._failed + 1, reason

    def end(self) -> None:
        """No cloud will come any more."""
        with self._lock:
            self._ended = True

    def since(self, after: int) -> dict[str, Any]:
        """What came after so many clouds, as JSON has it; the page of another run has to begin anew."""
        with self._lock:
            new = min(max(self._seen - after, 0), len(self._clouds))
            return {
                "run": self._run,
                "seen": self._seen,
                "known": self._known,
                "right": self._right,
                "failed": self._failed,
                "failure": self._failure,
                "ended": self._ended,
                "alarms": list(self._alarms),
                "clouds": list(islice(self._clouds, len(self._clouds) - new, None)),
                "pictures": [each for each in self._pictures if each["number"] > after],
            }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
