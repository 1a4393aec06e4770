"""Where a method gains or loses against the control."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from purgegate.io.results import Row
from purgegate.report.names import COLUMNS, CONTROL, title_of
from purgegate.report.plots.compare import Method, by_key_place_seed, headings, in_order, method_of
from purgegate.report.plots.style import INK, new_figure, panels_of, tidy
from purgegate.report.tables import group_rows

FULL = 10.0  # points at which a colour is full
BASE: Method = (CONTROL, "")

Cells = dict[Method, dict[str, dict[Any, float]]]


def gains(rows: Sequence[Row]) -> Figure:
    """One panel a setting, one square a method and corruption: points against the control, and their mean."""
    groups = [(group, by_method(group)) for group in group_rows(rows)]
    tables = [(group, cells[BASE], found) for group, cells in groups if (found := differences(cells))]
    if not tables:
        raise ValueError(
            f"a plot of gains needs rows of the control, {CONTROL}, and of another method under the same "
            "corruptions: these have none"
        )
    subtitle, titles = headings([group for group, *_ in tables])
    lengths = [len(found) for *_, found in tables]
    title = "Points gained or lost against the control, whose accuracy stands below"
    figure = new_figure(10.5, 1.0 + sum(0.9 + 0.27 * n for n in lengths), title=title, subtitle=subtitle)
    panels = [line[0] for line in panels_of(figure, len(tables), 1, heights=[2 + n for n in lengths])]
    for axes, (_, base, found), heading in zip(panels, tables, titles, strict=True):
        _draw(axes, found, base)
        tidy(axes, title=heading)
        axes.grid(visible=False)
        axes.tick_params(length=0, colors=INK)
    return figure


def by_method(rows: Sequence[Row]) -> Cells:
    """Accuracies by method, corruption and seed."""
    return by_key_place_seed(rows, method_of, lambda row: row["corruption"])


def differences(cells: Cells) -> dict[Method, dict[str, float]]:
    """Points of each method against the control, by corruption, over the seeds that both have."""
    base = cells.get(BASE, {})
    found: dict[Method, dict[str, float]] = {}
    for method in in_order(cells.keys() - {BASE}):
        for name in COLUMNS:
            own, other = cells[method].get(name, {}), base.get(name, {})
            if common := own.keys() & other.keys():
                found.setdefault(method, {})[name] = fmean(own[seed] - other[seed] for seed in common)
    return found


def gain_text(value: float) -> str:
    """Points with their sign and one decimal."""
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}".replace("-", "−")


def _draw(axes: Axes, found: dict[Method, dict[str, float]], base: dict[str, dict]) -> None:
    """Squares with their numbers; a mean only where no corruption is missing."""
    columns = [name for name in COLUMNS if any(name in cells for cells in found.values())]
    values = np.array([[cells.get(name, np.nan) for name in columns] for cells in found.values()])
    values = np.concatenate([values, values.mean(axis=1, keepdims=True)], axis=1)
    axes.imshow(values, cmap="RdBu", vmin=-FULL, vmax=FULL, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            color = "white" if abs(value) > 0.6 * FULL else INK
            axes.text(column, row, gain_text(value), ha="center", va="center", fontsize=7.5, color=color)
    below = [fmean(base[name].values()) for name in columns]
    labels = [f"{name}\n{value:.1f}" for name, value in zip(
        [*(COLUMNS[name] for name in columns), "mean"], [*below, fmean(below)], strict=True
    )]  # fmt: skip
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yticks(range(len(found)), [title_of(*method) for method in found])
    axes.axvline(len(columns) - 0.5, color="white", linewidth=4)
