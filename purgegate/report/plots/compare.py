"""Means that may be compared: over the same corruptions, with their spread over seeds."""

import logging
from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from purgegate.io.results import Row
from purgegate.report.names import options_of, rank
from purgegate.report.tables import SHARED, accuracy

Method = tuple[str, str]  # name and options
Place = tuple[str, Any]  # corruption and severity

log = logging.getLogger("purgegate")


class Value(NamedTuple):
    """A mean over corruptions, and its standard deviation over seeds (0 for one seed)."""

    mean: float
    spread: float


def compare(
    rows: Sequence[Row], key_of: Callable[[Row], Any], *, measure: Callable[[Row], float] = accuracy
) -> tuple[dict[Any, Value], list[Place]]:
    """The mean of each key over the cells and seeds that all have, and those cells.

    A key that lacks some of the others' cells, as after a run that was broken off, is left out.
    """
    cells = by_key_place_seed(
        rows, key_of, lambda row: (row["corruption"], row.get("severity")), measure=measure
    )
    most = max(len(each) for each in cells.values())
    whole = {key: each for key, each in cells.items() if len(each) == most}
    common = sorted(set.intersection(*(set(each) for each in whole.values())), key=str)
    if not common:
        raise ValueError("what is compared must share at least one corruption; these rows share none")
    for key in cells.keys() - whole.keys():
        log.warning("%s is left out of the plot: it has %d of %d cells", key, len(cells[key]), most)
    seeds = set.intersection(*(set(each[place]) for each in whole.values() for place in common))
    return {key: _value([each[place] for place in common], seeds) for key, each in whole.items()}, common


def by_key_place_seed(
    rows: Sequence[Row],
    key_of: Callable[[Row], Any],
    place_of: Callable[[Row], Any],
    *,
    measure: Callable[[Row], float] = accuracy,
) -> dict[Any, dict[Any, dict[Any, float]]]:
    """What was measured, by key, place and seed."""
    cells: dict[Any, dict[Any, dict[Any, float]]] = {}
    for row in rows:
        cells.setdefault(key_of(row), {}).setdefault(place_of(row), {})[row.get("seed")] = measure(row)
    return cells


def method_of(row: Row) -> Method:
    """What a line of a plot stands for."""
    return row["method"], options_of(row)


def in_order(methods: set[Method]) -> list[Method]:
    """Methods in the order of the tables."""
    return sorted(methods, key=lambda method: (rank(method[0]), method[1]))


def mean_label(cells: Sequence[Place]) -> str:
    """The label of an axis of means over these cells."""
    if len(cells) == 1:
        return f"accuracy, {cells[0][0]}, %"
    return f"mean accuracy over {len(cells)} corruptions, %"


def headings(
    panels: Sequence[Sequence[Row]],
    *,
    shown: Sequence[str] = ("dataset", "severity", "weights", "total"),
    apart: Sequence[str] = (),
    varying: Sequence[str] = (),
) -> tuple[str, list[str]]:
    """What all panels share of what is shown, and for each what sets it apart from the others.

    Each panel tells what is in `apart`, and what differs but for what varies within a panel.
    """
    firsts = [panel[0] for panel in panels]
    differing = [name for name in SHARED if len({str(row.get(name)) for row in firsts}) > 1]
    implied = ("fingerprint",) if "weights" in differing else ()
    own = [*apart, *(name for name in differing if name not in (*apart, *varying, *implied))]
    common = [name for name in shown if name not in (*own, *varying)]
    return describe(firsts[0], *common), [describe(row, *own) for row in firsts]


def describe(row: Row, *names: str) -> str:
    """Facts of a row for people; what it does not tell is left out."""
    texts = {
        "severity": "severity {}",
        "batch": "batches of {}",
        "reset": "reset: {}",
        "points": "{} points",
        "threads": "threads: {}",
        "total": "{:,} clouds",
    }
    facts = {name: texts.get(name, "{}").format(row[name]) for name in names if row.get(name)}
    if "severity" in names and row.get("corruption") == "clean":
        facts["severity"] = "clean"
    return ", ".join(facts[name] for name in names if name in facts)


def _value(cells: list[dict], seeds: set) -> Value:
    means = [fmean(cell[seed] for cell in cells) for seed in sorted(seeds, key=str)]
    mean = fmean(means) if means else fmean(fmean(cell.values()) for cell in cells)
    return Value(mean, stdev(means) if len(means) > 1 else 0.0)
