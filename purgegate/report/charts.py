"""Charts of a page, as plotly.js takes them: traces and a layout, made of rows."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log10
from statistics import fmean
from typing import Any

from purgegate.io.confusion import confusion_of
from purgegate.io.results import Row
from purgegate.report.names import COLUMNS, options_of, title_of
from purgegate.report.plots.compare import Method, in_order, method_of
from purgegate.report.plots.cost import milliseconds
from purgegate.report.plots.gains import BASE, FULL, by_method, differences, gain_text
from purgegate.report.plots.style import look_of
from purgegate.report.tables import make_tables

Chart = dict[str, Any]

LETTERS, LINE = 26, 15  # of a line of a method's name, which options make long, and its height

COLOURS = [[0, "#b2182b"], [0.25, "#ef8a62"], [0.5, "#f7f7f7"], [0.75, "#67a9cf"], [1, "#2166ac"]]


def gains_chart(rows: Sequence[Row]) -> Chart | None:
    """Points of each method against the control by corruption, their mean first; None without a control."""
    cells = by_method(rows)
    found = differences(cells)
    if not found:
        return None
    columns = [name for name in COLUMNS if any(name in each for each in found.values())]
    lines = [_gains(found[method], cells[method], cells[BASE], columns) for method in found]
    return {
        "data": [
            {
                "type": "heatmap",
                "x": ["mean", *(COLUMNS[name] for name in columns)],
                "y": [_folded(title_of(*method)) for method in found],
                "z": [[cell and cell[0] for cell in line] for line in lines],
                "customdata": [[cell and cell[1:] for cell in line] for line in lines],
                "colorscale": COLOURS,
                "zmin": -FULL,
                "zmax": FULL,
                "xgap": 1,
                "ygap": 1,
                "text": [[gain_text(cell[0]) if cell else "" for cell in line] for line in lines],
                "texttemplate": "%{text}",
                "hovertext": [[title_of(*method)] * (len(columns) + 1) for method in found],
                "hovertemplate": "%{hovertext}, %{x}: %{z:+.2f} points<br>%{customdata[0]:.2f} % against "
                "%{customdata[1]:.2f} %<extra></extra>",
                "hoverongaps": False,
                "showscale": False,
            }
        ],
        "layout": {
            "height": 90 + max(30, LINE * _most_lines(found)) * len(found),
            "yaxis": {"autorange": "reversed", "showgrid": False},
            "xaxis": {"side": "top", "showgrid": False},
        },
    }


def cost_chart(rows: Sequence[Row]) -> Chart | None:
    """Mean accuracy against the time of a cloud, one dot a method; None where fewer than two have both."""
    (table,) = make_tables(rows)
    means = {(line.method, line.options): line.mean for line in table.lines}
    dots = {}
    for method in means:
        own = [row for row in rows if (row["method"], options_of(row)) == method]
        if means[method] is not None and all(row.get("seconds", 0) > 0 for row in own):
            dots[method] = milliseconds(own)
    if len(dots) < 2:
        return None
    dots = dict(sorted(dots.items(), key=lambda dot: dot[1]))
    least, most = log10(min(dots.values())), log10(max(dots.values()))
    margin = 0.05 + 0.12 * (most - least)  # room for the names of the outermost
    digits = range(1, 10) if most - least < 1 else (1, 2, 5)
    places = ["top center", "bottom center"] * len(dots)  # by turns, so that neighbours can both be read
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": list(dots.values()),
                "y": [means[method] for method in dots],
                "text": [_folded(title_of(*method)) for method in dots],
                "textposition": places[: len(dots)],
                "marker": {
                    "size": 11,
                    "color": [look_of(method, rows).color for method, _ in dots],
                    "line": {"width": 1, "color": "#8c959f"},  # black is seen on dark pages too
                },
                "hovertext": [title_of(*method) for method in dots],
                "hovertemplate": "%{hovertext}: %{y:.2f} %, %{x:.3g} ms a cloud<extra></extra>",
                "cliponaxis": False,
            }
        ],
        "layout": {
            "height": 380,
            "margin": {"l": 8, "r": 8, "t": 9 + LINE * _most_lines(dots), "b": 8},
            "xaxis": {
                "type": "log",
                "title": {"text": "milliseconds a cloud"},
                "range": [least - margin, most + margin],
                "tickvals": [digit * 10.0**power for power in range(-3, 5) for digit in digits],
            },
            "yaxis": {"title": {"text": "mean accuracy, %"}},
        },
    }


def confusion_data(rows: Sequence[Row]) -> Chart | None:
    """How many clouds of a class were taken for which, by method and corruption, over all seeds.

    None where no row says it.
    """
    counts: dict[Any, dict[str, Counter]] = {}
    for row in rows:
        for own, others in (confusion_of(row) or {}).items():
            cell = counts.setdefault(method_of(row), {}).setdefault(row["corruption"], Counter())
            cell.update({(own, other): count for other, count in others.items()})
    pairs = {pair for cells in counts.values() for cell in cells.values() for pair in cell}
    if not pairs:
        return None
    classes = sorted({name for pair in pairs for name in pair})
    places = {name: place for place, name in enumerate(classes)}
    names = [name for name in COLUMNS if any(name in cells for cells in counts.values())]
    return {
        "classes": classes,
        "corruptions": names or sorted({name for cells in counts.values() for name in cells}),
        "methods": [
            {
                "title": title_of(*method),
                "counts": {
                    name: [[places[own], places[other], count] for (own, other), count in cell.items()]
                    for name, cell in counts[method].items()
                },
            }
            for method in in_order(set(counts))
        ],
    }


def _folded(name: str) -> str:
    return "<br>".join(textwrap.wrap(name, LETTERS, break_long_words=False))


def _most_lines(methods: Iterable[Method]) -> int:
    return max(_folded(title_of(*method)).count("<br>") + 1 for method in methods)


def _gains(
    found: dict[str, float], own: dict[str, dict], base: dict[str, dict], columns: list[str]
) -> list[tuple[float, float, float] | None]:
    """Difference, accuracy and the control's, by column; a mean only where no corruption is missing."""
    cells = [
        (found[name], *(_mean_of_common(each[name], own[name], base[name]) for each in (own, base)))
        if name in found
        else None
        for name in columns
    ]
    known = [cell for cell in cells if cell is not None]
    whole = len(known) == len(cells)
    mean = tuple(fmean(values) for values in zip(*known, strict=True)) if whole else None
    return [mean, *cells]  # type: ignore[list-item]


def _mean_of_common(values: dict, own: dict, base: dict) -> float:
    return fmean(values[seed] for seed in own.keys() & base.keys())
