"""What a cloud costs each method, from measured rows, and how long units take on many workers."""

import heapq
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from statistics import median

from purgegate.io.results import Row

Measured = dict[tuple[str, ...], float]


class Costs:
    """Seconds of one thread per cloud, by method and, where rows tell it, by weights."""

    def __init__(self, rows: Iterable[Row]) -> None:
        found: dict[tuple[str, ...], list[float]] = {}
        for row in rows:
            spent = row.get("seconds", 0.0) * row.get("threads", 1) / row["total"]
            if spent > 0:
                for key in ((row["method"], str(row.get("weights"))), (row["method"],)):
                    found.setdefault(key, []).append(spent)
        self._found: Measured = {key: median(values) for key, values in found.items()}

    def per_cloud(self, method: str, weights: str) -> float | None:
        """Seconds with these weights, or else with any; None of a method that no row has."""
        return self._found.get((method, weights), self._found.get((method,)))

    def knows(self, method: str, weights: str) -> bool:
        """Whether a row tells the cost with these weights."""
        return (method, weights) in self._found


@cache
def shipped_costs() -> Costs:
    """The costs that came with the package: every method of recipes/cost.toml, by a tiny model."""
    return Costs(shipped_rows())


def shipped_rows() -> list[Row]:
    """The rows of docs/results/cost."""
    text = files("purgegate").joinpath("costs.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def seconds_on(workers: int, units: Sequence[float], *, each: float = 0.0, apart: float = 0.0) -> float:
    """How long units take if every worker takes the next one when it is free.

    `each` is what a unit costs its worker beside its work, `apart` what it costs the one process that sends
    tasks and writes rows, for which workers wait in a line.
    """
    free = [0.0] * min(workers, max(len(units), 1))
    sender = end = 0.0
    for seconds in units:
        sender = max(sender, free[0]) + apart
        done = sender + each + seconds
        heapq.heapreplace(free, done)
        end = max(end, done)
    return end
