"""A table as a grid of texts, the same for every format."""

from statistics import fmean
from typing import NamedTuple

from purgegate.io.results import Row
from purgegate.points.corruptions import CORRUPTIONS, published
from purgegate.report.names import COLUMNS, CONTROL, SOURCE, title_of
from purgegate.report.tables import Line, Table

MISSING = "–"
SUBSET = "†"
FACTS, COUNTS = 5, 2  # columns behind the corruptions: mean and differences, then seeds and clouds

# Sets without meshes of their own: rays were cast at reconstructed ones, and every method is near chance.
RECONSTRUCTED = ("scanobjectnn", "shapenet")


class TableCell(NamedTuple):
    """A text, and whether it is the best of its column."""

    text: str
    best: bool = False


class Grid(NamedTuple):
    """What a format writes: a heading, a line of headers, lines of cells, and notes."""

    title: str
    setting: str
    header: tuple[str, ...]
    lines: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...]


def grid_of(table: Table) -> Grid:
    """Accuracies in percent with two decimals, as the paper prints them, and what they are compared with."""
    header = (
        "method",
        *(COLUMNS.get(name, name) for name in table.columns),
        *(_mean_header(table), "Δ source", "Δ control", "seeds", "clouds"),
    )
    lines = tuple(_cells(table, line) for line in table.lines)
    return Grid(_title(table), _describe(table.setting), header, lines, (*_legend(table), *table.notes))


def as_grid(table: Table | Grid) -> Grid:
    """A table laid out; what is a grid already stays as it is."""
    return table if isinstance(table, Grid) else grid_of(table)


def mean_first(grid: Grid) -> Grid:
    """A table's grid with the mean and its differences before the single corruptions."""
    order = [0, *range(len(grid.header) - FACTS, len(grid.header) - COUNTS)]
    order += [*range(1, len(grid.header) - FACTS), *range(len(grid.header) - COUNTS, len(grid.header))]
    return grid._replace(
        header=tuple(grid.header[index] for index in order),
        lines=tuple(tuple(cells[index] for index in order) for cells in grid.lines),
    )


def across(grid: Grid) -> Grid:
    """A table's grid with corruptions down and methods across, the mean first."""
    own = mean_first(grid)
    columns = zip(*own.lines, strict=True)
    methods = tuple(cell.text for cell in next(columns))
    lines = tuple((TableCell(name), *cells) for name, cells in zip(own.header[1:], columns, strict=True))
    return own._replace(header=("", *methods), lines=lines)


def _mean_header(table: Table) -> str:
    """Over how many corruptions, where they are not the paper's 15; clean and mixed sets have one column."""
    usual = set(table.columns) == set(published()) or not set(table.columns) & set(COLUMNS)
    return "mean" if usual else f"mean of {len(table.columns)}"


def _cells(table: Table, line: Line) -> tuple[TableCell, ...]:
    bests = _bests(table)
    numbers = (*line.cells, line.mean)
    texts = [number(value) for value in line.cells] + [_mean(line)]
    marked = [
        TableCell(text, not line.published and value is not None and number(value) == best)
        for text, value, best in zip(texts, numbers, bests, strict=True)
    ]
    differences = [TableCell(number(table.difference(line, base), sign=True)) for base in (SOURCE, CONTROL)]
    counts = [
        TableCell("" if line.published else f"{count:,}") for count in (line.seeds, table.setting["total"])
    ]
    return (TableCell(_name(table, line)), *marked, *differences, *counts)


def _bests(table: Table) -> list[str | None]:
    """The best of our numbers in each column as it is printed, so that equal prints are equally bold."""
    ours = [(*line.cells, line.mean) for line in table.lines if not line.published]
    known = [[value for value in column if value is not None] for column in zip(*ours, strict=True)]
    return [number(max(values)) if values and len(ours) > 1 else None for values in known]


def number(value: float | None, *, sign: bool = False) -> str:
    """Two decimals, with a true minus; a dash for what is missing."""
    if value is None:
        return MISSING
    text = f"{value:+.2f}" if sign else f"{value:.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def _mean(line: Line) -> str:
    return number(line.mean) if line.spread is None else f"{number(line.mean)} ± {number(line.spread)}"


def _name(table: Table, line: Line) -> str:
    name = title_of(line.method, line.options)
    if line.published:
        return f"{name}, paper"
    return f"{name} {SUBSET}" if table.subset_of else name


def _title(table: Table) -> str:
    setting = table.setting
    severity = f", severity {setting['severity']}" if setting.get("severity") else ""
    weights = f": {setting['weights']}" if setting.get("weights") else ""
    subset = f" ({setting['total']:,} of {table.subset_of:,} clouds)" if table.subset_of else ""
    return f"{setting.get('dataset') or 'clouds'}{severity}{weights}{subset}"


def _describe(setting: Row) -> str:
    """The stream and the model in one line; what a row does not say is left out."""
    parts = {
        "backbone": "{}",
        "fingerprint": "weights {}",
        "batch": "batches of {}",
        "reset": "reset: {}",
        "order": "order: {}",
        "points": "{} points a cloud",
        "padding": "padding: {}",
        "total": "{:,} clouds",
    }
    return ", ".join(text.format(setting[name]) for name, text in parts.items() if setting.get(name))


def _legend(table: Table) -> list[str]:
    notes = [
        "Accuracy in percent. Δ is the difference of the mean to that line's over common seeds, in points."
    ]
    if any(line.spread is not None for line in table.lines):
        notes.append("± is the standard deviation of the mean over seeds.")
    cast = [name for name in table.columns if name in CORRUPTIONS and CORRUPTIONS[name].sees_mesh]
    reconstructed = str(table.setting.get("dataset")).lower().startswith(RECONSTRUCTED)
    if reconstructed and 0 < len(cast) < len(table.columns):
        notes.append(_without(table, cast))
    if table.subset_of:
        notes.append(f"{SUBSET} A subset: {table.setting['total']:,} of {table.subset_of:,} clouds.")
    return notes


def _without(table: Table, cast: list[str]) -> str:
    """The means over all columns but those made from meshes, as one sentence."""
    means = []
    for line in table.lines:
        cells = [cell for name, cell in zip(table.columns, line.cells, strict=True) if name not in cast]
        mean = None if None in cells else fmean(cell for cell in cells if cell is not None)
        means.append(f"{_name(table, line)} {number(mean)}")
    return (
        f"On {' and '.join(cast)}, made from reconstructed meshes, every published method is near chance; "
        f"means without them: {', '.join(means)}."
    )
