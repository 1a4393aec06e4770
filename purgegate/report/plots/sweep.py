"""Accuracy and certainty at every purge size (the paper's purge-size figures)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from purgegate.io.results import Row
from purgegate.report.names import options_of, shown_options, title_of
from purgegate.report.plots.compare import Method, Value, compare, headings, in_order
from purgegate.report.plots.style import (
    Look,
    draw_line,
    legend,
    look_of,
    new_figure,
    panels_of,
    tidy,
    width_of,
)
from purgegate.report.tables import group_rows

CHOSEN = -1  # stands for the size that least entropy chose


def sweep(rows: Sequence[Row]) -> Figure:
    """Accuracy above, entropy below, one column a corrupted set; dashed is the choice by least entropy."""
    panels = [panel for group in group_rows(rows) for panel in _by_corruption(group)]
    panels.sort(key=lambda panel: (str(panel[0]["corruption"]), panel[0].get("severity") or 0))
    if not panels:
        raise ValueError('a sweep needs rows of single purge sizes, options {"purge": [k]}: these have none')
    subtitle, titles = headings(panels, apart=["corruption", "severity"])
    title = "Accuracy and entropy against purge size (ring: best, dashed: chosen by least entropy)"
    figure = new_figure(width_of(len(panels)), 5.4, title=title, subtitle=subtitle)
    upper, lower = panels_of(figure, 2, len(panels), share="row")
    for column, panel in enumerate(panels):
        tidy(upper[column], y="accuracy, %", title=titles[column])
        tidy(lower[column], x="tokens purged", y="mean entropy, nats")
        upper[column].label_outer()
        lower[column].label_outer()
        for method in in_order({line_of(row) for row in panel if size_of(row) != CHOSEN}):
            own, look = [row for row in panel if line_of(row) == method], look_of(method[0], rows)
            values, _ = compare(own, size_of)
            _draw(upper[column], values, look=look, label=title_of(*method))
            _mark_best(upper[column], values, look=look)
            known = [row for row in own if "entropy" in row]
            _draw(lower[column], compare(known, size_of, measure=_entropy)[0] if known else {}, look=look)
    legend(figure, upper)
    return figure


def size_of(row: Row) -> int:
    """The one purge size of a row, or CHOSEN for a row that had a choice."""
    purge = (row.get("options") or {}).get("purge")
    return purge[0] if isinstance(purge, list) and len(purge) == 1 else CHOSEN


def line_of(row: Row) -> Method:
    """The method of a row, and its options but for the purge size."""
    others = {name: value for name, value in shown_options(row).items() if name != "purge"}
    return row["method"], options_of({"given": others})


def _draw(axes: Axes, values: dict[int, Value], *, look: Look, label: str = "") -> None:
    line = {size: values[size] for size in sorted(values) if size != CHOSEN}
    draw_line(axes, line, look=look._replace(marker=""), label=label)
    if CHOSEN in values:
        axes.axhline(values[CHOSEN].mean, color=look.color, linestyle=(0, (4, 3)), linewidth=1.2)


def _mark_best(axes: Axes, values: dict[int, Value], *, look: Look) -> None:
    best = max((size for size in values if size != CHOSEN), key=lambda size: values[size].mean)
    axes.plot([best], [values[best].mean], marker="o", markersize=8, mfc="white", mec=look.color, mew=1.8)


def _entropy(row: Row) -> float:
    return row["entropy"]


def _by_corruption(rows: list[Row]) -> list[list[Row]]:
    """The rows of each corruption that was swept."""
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(row["corruption"], []).append(row)
    return [panel for panel in panels.values() if any(size_of(row) != CHOSEN for row in panel)]
