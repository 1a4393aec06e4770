"""What a method costs."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from purgegate.io.results import Row
from purgegate.report.names import title_of
from purgegate.report.plots.compare import Method, headings, in_order, method_of
from purgegate.report.plots.style import FAINT, GRID, INK, look_of, new_figure, panels_of, tidy
from purgegate.report.tables import SHARED

# Cost depends on these, not on which clouds were seen.
SETTING = ("backbone", "weights", "batch", "points", "threads")
VARYING = tuple(name for name in SHARED if name not in SETTING)


def cost(rows: Sequence[Row]) -> Figure:
    """Time a cloud and peak memory of each method, on logarithmic axes."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.get("seconds", 0) > 0:
            groups.setdefault(tuple(str(row.get(name)) for name in SETTING), []).append(row)
    if not groups:
        raise ValueError("a plot of cost needs rows with `seconds`: these have none")
    parts = [_by_method(group) for group in groups.values()]
    subtitle, titles = headings(list(groups.values()), shown=SETTING, apart=("threads",), varying=VARYING)
    height = 0.7 + sum(0.9 + 0.28 * len(part) for part in parts)
    figure = new_figure(9.0, height, title="Cost: time and peak memory", subtitle=subtitle)
    panels = panels_of(figure, len(groups), 2, heights=[len(part) + 2 for part in parts])
    for (left, right), part, title in zip(panels, parts, titles, strict=True):
        colors = [look_of(method, rows).color for method, _ in part]
        tidy(left, x="milliseconds a cloud", title=title)
        tidy(right, x="megabytes at the peak, above the start")
        draw_dots(left, [milliseconds(own) for own in part.values()], colors=colors)
        draw_dots(right, [megabytes(own) for own in part.values()], colors=colors)
        left.set_yticks(range(len(part)), [title_of(*method) for method in part])
        right.set_yticks(range(len(part)), [""] * len(part))
    return figure


def _by_method(rows: list[Row]) -> dict[Method, list[Row]]:
    """The rows of each method, the fastest first."""
    methods = in_order({method_of(row) for row in rows})
    parts = {method: [row for row in rows if method_of(row) == method] for method in methods}
    return dict(sorted(parts.items(), key=lambda item: milliseconds(item[1])))


def milliseconds(rows: list[Row]) -> float:
    """Time of one cloud, over all clouds of all rows."""
    return 1000 * sum(row["seconds"] for row in rows) / sum(row["total"] for row in rows)


def megabytes(rows: list[Row]) -> float:
    """The greatest peak of all rows that know theirs, or NaN."""
    return max((row["memory"] for row in rows if row.get("memory", math.nan) > 0), default=math.nan)


def draw_dots(axes: Axes, values: list[float], *, colors: list[str]) -> None:
    """One dot a line with its number beside it; lengths would mean nothing on a logarithmic axis."""
    known = [value for value in values if value > 0]
    axes.set_xscale("log")
    least, most = min(known, default=1), max(known, default=1)
    axes.set_xlim(least / 1.5, most * 2.5)
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if most > 30 * least else (1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.tick_params(axis="y", length=0, colors=INK)
    for place, (value, color) in enumerate(zip(values, colors, strict=True)):
        if not value > 0:
            axes.text(axes.get_xlim()[0], place, "  not known", va="center", fontsize=8.5, color=FAINT)
            continue
        axes.plot([value], [place], marker="o", markersize=7, color=color, linestyle="none")
        text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        axes.annotate(
            text,
            (value, place),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )
