"""Where a method helps: its accuracy under each corruption."""

from collections.abc import Sequence
from statistics import fmean, stdev

from matplotlib.figure import Figure

from purgegate.io.results import Row
from purgegate.report.names import COLUMNS, title_of
from purgegate.report.plots.compare import Method, Value, headings, in_order, method_of
from purgegate.report.plots.style import INK, legend, look_of, new_figure, panels_of, tidy
from purgegate.report.tables import accuracy, group_rows


def corruptions(rows: Sequence[Row]) -> Figure:
    """One panel a setting, one marker a method and corruption, with its spread over seeds as a bar."""
    groups = [group for group in group_rows(rows) if any(row["corruption"] in COLUMNS for row in group)]
    if not groups:
        raise ValueError("a plot of corruptions needs rows of at least one corruption: these have none")
    subtitle, titles = headings(groups)
    figure = new_figure(9.6, 1.2 + 3.0 * len(groups), title="Accuracy by corruption", subtitle=subtitle)
    panels = [line[0] for line in panels_of(figure, len(groups), 1)]
    for axes, group, title in zip(panels, groups, titles, strict=True):
        columns = [name for name in COLUMNS if any(row["corruption"] == name for row in group)]
        for method in in_order({method_of(row) for row in group}):
            values = {name: value for name in columns if (value := _value(group, method, name))}
            look = look_of(method[0], rows, options=method[1])
            axes.errorbar(
                [columns.index(name) for name in values],
                [value.mean for value in values.values()],
                yerr=[value.spread for value in values.values()],
                color=look.color,
                marker=look.marker,
                markersize=6,
                linestyle="none",
                elinewidth=1,
                label=title_of(*method),
            )
        tidy(axes, y="accuracy (%)", title=title)
        axes.set_xticks(range(len(columns)), [COLUMNS[name] for name in columns], rotation=35, color=INK)
    legend(figure, panels)
    return figure


def _value(rows: Sequence[Row], method: Method, corruption: str) -> Value | None:
    """Mean and spread over seeds of one cell, if there is one."""
    found = [accuracy(row) for row in rows if method_of(row) == method and row["corruption"] == corruption]
    return Value(fmean(found), stdev(found) if len(found) > 1 else 0.0) if found else None
