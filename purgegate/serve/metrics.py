"""What a server counts, in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from threading import Lock

from purgegate.answers import Answer

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class Metrics:
    """Requests by status, a histogram of their latency, and what the answers said; for many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.requests: Counter[int] = Counter()
        self.latency = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.batches = self.clouds = self.purged = self.unknown = self.alarms = 0
        self.shift, self.shifts = 0.0, 0

    def request(self, status: int, seconds: float) -> None:
        """Count a request that was answered so, after so long."""
        with self._lock:
            self.requests[status] += 1
            self.latency[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds

    def batch(self, answers: list[Answer]) -> None:
        """Count a batch of answers."""
        shifts = [answer.shift for answer in answers if answer.shift is not None]
        with self._lock:
            self.batches += 1
            self.clouds += len(answers)
            self.purged += sum(answer.purged for answer in answers)
            self.unknown += sum(bool(answer.unknown) for answer in answers)
            self.shift += sum(shifts)
            self.shifts += len(shifts)

    def alarm(self) -> None:
        """Count an alarm."""
        with self._lock:
            self.alarms += 1

    def text(self, *, queue: int, streams: dict[str, float]) -> str:
        """The page, with the clouds that wait now and each stream's evidence of a change."""
        with self._lock:
            return "\n".join([*self._lines(), *_gauges(queue, streams), ""])

    def _lines(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests by HTTP status.")
        for status, count in sorted(self.requests.items()):
            yield f'purgegate_requests_total{{status="{status}"}} {count}'
        yield from _head("latency_seconds", "histogram", "Seconds from a request to its answer.")
        passed = 0
        for bound, count in zip((*BOUNDS, "+Inf"), self.latency, strict=True):
            passed += count
            yield f'purgegate_latency_seconds_bucket{{le="{bound}"}} {passed}'
        yield f"purgegate_latency_seconds_sum {self.seconds}"
        yield f"purgegate_latency_seconds_count {passed}"
        for name, value, text in (
            ("batches_total", self.batches, "Batches that were answered."),
            ("clouds_total", self.clouds, "Clouds that were answered."),
            ("purged_total", self.purged, "Points or tokens that were purged."),
            ("unknown_total", self.unknown, "Clouds that were of no known class."),
            ("alarms_total", self.alarms, "Alarms of all streams."),
            ("shift_sum", self.shift, "Sum of the shift scores."),
            ("shift_count", self.shifts, "Clouds with a shift score."),
        ):
            yield from _head(name, "counter", text)
            yield f"purgegate_{name} {value}"


def _gauges(queue: int, streams: dict[str, float]) -> Iterator[str]:
    yield from _head("queue", "gauge", "Clouds that wait.")
    yield f"purgegate_queue {queue}"
    yield from _head("evidence", "gauge", "Evidence of a change of each stream; 1 rings the alarm.")
    for name, evidence in sorted(streams.items()):
        yield f'purgegate_evidence{{stream="{name}"}} {evidence}'


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP purgegate_{name} {text}"
    yield f"# TYPE purgegate_{name} {kind}"
