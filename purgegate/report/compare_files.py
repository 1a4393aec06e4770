"""Two files of results side by side: which cells differ, by how much, and whether by more than chance."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from scipy.special import bdtr

from purgegate.io.results import KEYS, Row, unpack_answers
from purgegate.report.layout import MISSING, Grid, TableCell, number
from purgegate.report.names import COLUMNS, options_of, rank, title_of
from purgegate.report.tables import accuracy, load_rows
from purgegate.typing import StrPath

SMALL = 0.05  # a p-value that one cell in twenty has by chance


class Pair(NamedTuple):
    """The same cell in both files."""

    first: Row
    second: Row

    @property
    def difference(self) -> float:
        """Points that the second is better by."""
        return accuracy(self.second) - accuracy(self.first)

    def changes(self) -> tuple[int, int] | None:
        """Clouds that only the first has right, and only the second; None where rows do not keep them."""
        answers = unpack_answers(self.first), unpack_answers(self.second)
        if answers[0] is None or answers[1] is None or self.first.get("data") != self.second.get("data"):
            return None
        return int((answers[0] & ~answers[1]).sum()), int((answers[1] & ~answers[0]).sum())


class Comparison(NamedTuple):
    """Cells of both files in the order of the tables, and those of one file alone."""

    pairs: list[Pair]
    only_first: list[Row]
    only_second: list[Row]
    between: dict[str, tuple[Any, Any]]  # what all rows of one file share, and those of the other do not
    names: tuple[str, str] = ("first", "second")


def compare_files(*paths: StrPath) -> Comparison:
    """Compare two files of results."""
    if len(paths) != 2:
        raise ValueError(f"two files of results can be compared; got {len(paths)}")
    first, second = (Path(path) for path in paths)
    names = (first.name, second.name) if first.name != second.name else (str(first), str(second))
    return compare(load_rows(first), load_rows(second))._replace(names=names)


def compare(first: Sequence[Row], second: Sequence[Row]) -> Comparison:
    """Pair the rows of two files; what tells one whole file from the other is what is compared."""
    between = _between(first, second)
    key = _key(tuple(name for name in KEYS if name not in between))
    others = {key(row): row for row in second}
    pairs = [Pair(row, others[key(row)]) for row in first if key(row) in others]
    paired = {key(pair.first) for pair in pairs}
    return Comparison(
        sorted(pairs, key=lambda pair: _place(pair.first)),
        [row for row in first if key(row) not in paired],
        [row for row in second if key(row) not in paired],
        between,
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """Chance of a split at least as uneven, if each cloud that changed sides did so by the toss of a coin."""
    fewer, changed = min(only_first, only_second), only_first + only_second
    return min(1.0, 2 * float(bdtr(fewer, changed, 0.5))) if changed else 1.0


def comparison_grid(found: Comparison) -> Grid:
    """The cells that differ, one a line."""
    header = ("method", "corruption", "severity", "seed", *found.names, "Δ", "lost", "won", "p")
    lines = tuple(_line(pair) for pair in found.pairs if _differs(pair))
    setting = ", ".join(f"{name}: {first} → {second}" for name, (first, second) in found.between.items())
    return Grid(" → ".join(found.names), setting or "the same setting", header, lines, _notes(found))


def comparison_csv(found: Comparison) -> str:
    """All common cells, unrounded, one a line; what is unknown is empty."""
    text = io.StringIO()
    told = ("dataset", "method", "options", "corruption", "severity", "seed")
    counts = ("total", "correct_first", "correct_second", "difference", "lost", "won", "p")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*told, *counts])
    for pair in found.pairs:
        facts = pair.first | {"options": options_of(pair.first)}
        changes = pair.changes()
        tested = (*changes, mcnemar(*changes)) if changes else ("", "", "")
        results = (facts["total"], facts["correct"], pair.second["correct"], pair.difference, *tested)
        writer.writerow([*(facts.get(name, "") for name in told), *results])
    return text.getvalue()


def _line(pair: Pair) -> tuple[TableCell, ...]:
    row, changes = pair.first, pair.changes()
    told = (*map(str, changes), f"{mcnemar(*changes):.3g}") if changes else (MISSING,) * 3
    texts = [
        title_of(row["method"], options_of(row)),
        row["corruption"],
        *(str(row.get(name, MISSING)) for name in ("severity", "seed")),
        *(number(accuracy(each)) for each in pair),
        number(pair.difference, sign=True),
        *told,
    ]
    return tuple(TableCell(text) for text in texts)


def _notes(found: Comparison) -> tuple[str, ...]:
    pairs = found.pairs
    differ = sum(map(_differs, pairs))
    notes = [f"{differ} of {len(pairs)} common cells differ. Accuracy in percent, Δ in points."]
    if pairs:
        mean = number(fmean(pair.difference for pair in pairs), sign=True)
        notes.append(f"Mean difference over all common cells: {mean}.")
    tested = [mcnemar(*changes) for pair in pairs if (changes := pair.changes())]
    if tested:
        small = sum(p < SMALL for p in tested)
        notes.append(
            "Lost and won are clouds that only one of the files has right; p is McNemar's exact test. "
            f"{small} of {len(tested)} cells have p < {SMALL}, where chance alone gives about "
            f"{SMALL * len(tested):.1f}."
        )
    elif pairs:
        notes.append("No McNemar's test: the rows do not keep which clouds were right (`answers`).")
    for name, rows in zip(found.names, (found.only_first, found.only_second), strict=True):
        if rows:
            some = ", ".join(dict.fromkeys(f"{row['method']} {row['corruption']}" for row in rows[:3]))
            notes.append(f"Only in {name}: {len(rows)} cells ({some}{', …' if len(rows) > 3 else ''}).")
    return tuple(notes)


def _differs(pair: Pair) -> bool:
    return pair.first["correct"] != pair.second["correct"] or any(pair.changes() or ())


def _between(first: Sequence[Row], second: Sequence[Row]) -> dict[str, tuple[Any, Any]]:
    """Keys with one value in each file, but not the same in both."""
    found = {}
    for name in KEYS:
        values = [{json.dumps(row.get(name), sort_keys=True) for row in rows} for rows in (first, second)]
        if all(len(each) == 1 for each in values) and values[0] != values[1]:
            found[name] = first[0].get(name), second[0].get(name)
    return found


def _key(names: tuple[str, ...]) -> Callable[[Row], str]:
    return lambda row: json.dumps([row.get(name) for name in names], sort_keys=True)


def _place(row: Row) -> tuple:
    columns = list(COLUMNS)
    column = columns.index(row["corruption"]) if row["corruption"] in columns else len(columns)
    return str(row.get("dataset")), rank(row["method"]), options_of(row), column, str(row.get("severity"))
