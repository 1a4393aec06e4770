"""Tables of accuracies, methods against corruptions: means are made here, from rows that are facts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from purgegate.io.results import KEYS, Row, pack_answers, read_rows, take_in, unpack_answers
from purgegate.recipes import PARTS
from purgegate.report.names import COLUMNS, CONTROL, SOURCE, options_of, rank, tell_apart, title_of
from purgegate.typing import StrPath

# What all rows of a table share: everything that was run, but for what a table lays out and what differs by
# column (the clouds, those before them).
APART = ("method", "options", "corruption", "seed", "data", "after")
SHARED = tuple(name for name in KEYS if name not in APART)

# What facts of a row may be, where it tells them.
TEXT, NUMBER = (str, type(None)), (int, type(None))
KINDS: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "corruption": (str,),
    **dict.fromkeys(
        ("dataset", "backbone", "weights", "fingerprint", "reset", "order", "padding", "data"), TEXT
    ),
    **dict.fromkeys(("severity", "seed", "batch", "points", "whole"), NUMBER),
    **dict.fromkeys(("options", "confusion"), (dict, type(None))),
    "seconds": (int, float),
    "memory": (int, float),
}


class Line(NamedTuple):
    """A method's accuracies in percent, averaged over seeds; what is missing is None."""

    method: str
    options: str
    cells: tuple[float | None, ...]
    mean: float | None
    spread: float | None = None  # standard deviation of the mean over seeds
    seeds: int = 1
    means: Mapping[Any, float] = {}  # over all columns, of each seed that has them all
    published: bool = False  # a line of the paper, not of ours


@dataclass(frozen=True)
class Table:
    """Lines that may be compared: the same clouds, weights and stream."""

    setting: Row
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    subset_of: int | None = None  # clouds of the whole set, where the table's are only some of them

    def difference(self, line: Line, method: str) -> float | None:
        """How much better a line's mean is than that of `method`, in points, over the seeds that both have.

        None where one is unknown, or no seed is common.
        """
        base = find_line([each for each in self.lines if each.published == line.published], method)
        if base is None or base.mean is None or line.mean is None:
            return None
        if line.published:
            return line.mean - base.mean
        common = line.means.keys() & base.means.keys()
        return fmean(line.means[seed] - base.means[seed] for seed in common) if common else None


def load_rows(*paths: StrPath) -> list[Row]:
    """The rows of results files, each with what a report needs; no measurement may have two results."""
    rows: dict[str, Row] = {}
    for path in paths:
        found = read_rows(path)
        if not found:
            raise ValueError(
                f"{path} must hold result rows; it is missing or empty: run `purgegate bench` first"
            )
        for row in found:
            _check(row, path)
            take_in(rows, row, origin=path)
    return list(rows.values())


def make_tables(rows: Iterable[Row]) -> list[Table]:
    """One table for each setting, larger sets of clouds first."""
    groups = sorted(group_rows(rows), key=_place)
    return [_table(group, whole=_whole(group[0], groups)) for group in groups]


def part_of(rows: list[Row], part: str) -> list[Row]:
    """The rows as if only the clouds at even or odd places had been scored, by the answers they keep."""
    return rows if part == "all" else [_part(row, part) for row in rows]


def _part(row: Row, part: str) -> Row:
    right = unpack_answers(row)
    if right is None:
        raise ValueError(
            f"the row of {row['method']}, {row['corruption']} keeps no answers to count its {part} half by: "
            "run it again"
        )
    half = right[PARTS[part]]
    counts = {"correct": int(half.sum()), "total": len(half), "answers": pack_answers(half)}
    own = {name: value for name, value in row.items() if name != "confusion"}  # which is of the whole set
    return own | counts | {"dataset": f"{row['dataset']} ({part} half)"}


def group_rows(rows: Iterable[Row], *, varying: Sequence[str] = ()) -> list[list[Row]]:
    """Rows that share a setting, but for what varies; the 15 corruptions apart from clean or mixed sets."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        setting = {name: row.get(name) for name in SHARED if name not in varying}
        key = json.dumps([setting, row["corruption"] in COLUMNS], sort_keys=True)
        groups.setdefault(key, []).append(row)
    return [tell_apart(group) for group in groups.values()]


def accuracy(row: Row) -> float:
    """Share of the clouds that were classified rightly, in percent."""
    return 100 * row["correct"] / row["total"]


def find_line(lines: Iterable[Line], method: str) -> Line | None:
    """The line of a method: the one without options, or else the only one."""
    found = [line for line in lines if line.method == method]
    bare = [line for line in found if not line.options]
    return bare[0] if bare else found[0] if len(found) == 1 else None


def _table(rows: list[Row], *, whole: int) -> Table:
    columns = _columns(rows)
    methods: dict[tuple[str, str], dict] = {}
    for row in rows:
        seeds = methods.setdefault((row["method"], options_of(row)), {})
        cells = seeds.setdefault(row.get("seed"), {})
        if row["corruption"] in cells:
            name = title_of(row["method"], options_of(row))
            raise ValueError(
                f"there are two rows of {name}, {row['corruption']}, seed {row.get('seed')}, of other clouds "
                "or another stream: make a table of each by itself"
            )
        cells[row["corruption"]] = accuracy(row)
    ordered = sorted(methods, key=lambda key: (rank(key[0]), key[1]))
    lines = tuple(_line(*key, methods[key], columns) for key in ordered)
    notes = [note for key in ordered for note in _gaps(*key, methods[key], columns)]
    setting: Row = {name: rows[0].get(name) for name in SHARED}
    subset_of = whole if whole > rows[0]["total"] else None
    return Table(setting, columns, lines, (*_missing_bases(lines), *notes), subset_of)


def _columns(rows: list[Row]) -> tuple[str, ...]:
    """The corruptions that any row has, in the order of the paper's tables."""
    present = dict.fromkeys(row["corruption"] for row in rows)
    return tuple(name for name in COLUMNS if name in present) or tuple(present)


def _line(method: str, options: str, seeds: dict, columns: tuple[str, ...]) -> Line:
    """Averages over the seeds that have every cell; without such a seed the cells that are there, no mean."""
    used = [cells for cells in seeds.values() if len(cells) == len(columns)] or list(seeds.values())
    found = [[cells[name] for cells in used if name in cells] for name in columns]
    means = {seed: fmean(cells.values()) for seed, cells in seeds.items() if len(cells) == len(columns)}
    return Line(
        method,
        options,
        cells=tuple(fmean(cell) if cell else None for cell in found),
        mean=fmean(means.values()) if means else None,
        spread=stdev(means.values()) if len(means) > 1 else None,
        seeds=len(used),
        means=means,
    )


def _gaps(method: str, options: str, seeds: dict, columns: tuple[str, ...]) -> list[str]:
    """Say which means are missing, and which seeds were left out."""
    name, every = title_of(method, options), len(columns)
    torn = {seed: len(cells) for seed, cells in seeds.items() if len(cells) < every}
    if len(torn) == len(seeds):
        most = max(torn.values())
        return [f"{name} has no mean: its fullest seed has {most} of {every} cells."]
    return [
        f"{name}: seed {seed} is left out, it has {count} of {every} cells." for seed, count in torn.items()
    ]


def _missing_bases(lines: tuple[Line, ...]) -> list[str]:
    notes = []
    if find_line(lines, SOURCE) is None:
        notes.append(f"There is no `{SOURCE}` line to take differences to.")
    if find_line(lines, CONTROL) is None:
        notes.append(
            f"The control is missing: without a `{CONTROL}` line nobody can tell how much of a gain is the "
            "BatchNorm reset's alone."
        )
    return notes


def _place(rows: list[Row]) -> tuple:
    row = rows[0]
    severity = row.get("severity")
    number = severity if isinstance(severity, int) else -1
    return str(row.get("dataset")), str(row.get("backbone")), str(row.get("weights")), number, -row["total"]


def _whole(row: Row, groups: list[list[Row]]) -> int:
    """Clouds of the whole set, as the row says, or else the most with which any row of the set was run."""
    same = [group[0] for group in groups if group[0].get("dataset") == row.get("dataset")]
    return row.get("whole") or max(each["total"] for each in same)


def _check(row: Row, path: StrPath) -> None:
    if "error" in row:
        raise ValueError(
            f"{path} says which rows could not be measured, and why: give the rows beside it, and run the "
            "same `purgegate bench` again for those"
        )
    lacking = [name for name in ("method", "corruption", "correct", "total") if name not in row]
    if lacking:
        raise ValueError(f"a row of {path} lacks {', '.join(lacking)}: is it a file of `purgegate bench`?")
    for name, kinds in KINDS.items():
        if name in row and not isinstance(row[name], kinds):
            raise ValueError(f"a row of {path} ({row['method']}) has an impossible {name}: {row[name]!r}")
    correct, total = row["correct"], row["total"]
    if not isinstance(correct, int) or not isinstance(total, int) or not 0 <= correct <= total or total < 1:
        raise ValueError(
            f"a row of {path} ({row['method']}, {row['corruption']}) must have 0 ≤ correct ≤ total and a "
            f"total of at least 1; got {correct!r} of {total!r}"
        )
