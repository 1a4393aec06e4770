"""What the BatchNorm reset does by itself."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from purgegate.adapt import METHODS
from purgegate.io.results import Row
from purgegate.report.names import rank, shown_options, title_of
from purgegate.report.plots.compare import Value, compare, headings, mean_label
from purgegate.report.plots.style import INK, legend, new_figure, panels_of, tidy, width_of
from purgegate.report.tables import group_rows

# Where BatchNorm takes its statistics: what the bar is called, and its colour.
MODES = {
    "source": ("without reset (source statistics)", "#b6bcc2"),
    "batch": ("with reset (batch statistics)", "#0072b2"),
    "blend": ("blended", "#e69f00"),
    "pool": ("pooled over the stream", "#cc79a7"),
    "survivors": ("statistics of the survivors", "#009e73"),
}


def batchnorm(rows: Sequence[Row]) -> Figure:
    """Mean accuracy with and without BatchNorm reset, side by side for each method that was run both ways."""
    ablated = [row for row in rows if mode_of(row)]
    groups = [both for group in group_rows(ablated) if (both := _both_ways(group))]
    if not groups:
        raise ValueError(
            "a plot of the BatchNorm reset needs a method run both ways, such as source and source_bn, or "
            "pg_sp with norm=batch and norm=source: these rows have none"
        )
    subtitle, titles = headings(groups)
    title = "Accuracy with and without BatchNorm reset"
    figure = new_figure(width_of(len(groups)), 4.0, title=title, subtitle=subtitle)
    panels = panels_of(figure, 1, len(groups))[0]
    for axes, group, title in zip(panels, groups, titles, strict=True):
        values, cells = compare(group, mode_of)
        _draw_bars(axes, values)
        tidy(axes, y=mean_label(cells), title=title)
        axes.tick_params(axis="x", length=0, colors=INK)
    legend(figure, panels)
    return figure


def mode_of(row: Row) -> tuple[str, str] | None:
    """A row's method apart from BatchNorm, and its mode; None for what is no part of the ablation."""
    method, shown = METHODS.get(row["method"]), shown_options(row)
    if method is None or set(shown) - {"norm"}:
        return None
    mode = (row.get("options") or {}).get("norm", method.options.get("norm"))
    plain = next(name for name, each in METHODS.items() if each.kin == method.kin)
    return (plain, mode) if mode in MODES else None


def _both_ways(rows: list[Row]) -> list[Row]:
    modes = [mode_of(row) for row in rows]
    families = [mode[0] for mode in set(modes) if mode]
    return [row for row, mode in zip(rows, modes, strict=True) if mode and families.count(mode[0]) > 1]


def _draw_bars(axes: Axes, values: dict[tuple[str, str], Value]) -> None:
    families = sorted({family for family, _ in values}, key=rank)
    modes = [mode for mode in MODES if mode in {mode for _, mode in values}]
    width = 0.8 / len(modes)
    for place, mode in enumerate(modes):
        shift = (place - (len(modes) - 1) / 2) * width
        bars = {
            index + shift: values[family, mode]
            for index, family in enumerate(families)
            if (family, mode) in values
        }
        name, color = MODES[mode]
        means, spreads = [value.mean for value in bars.values()], [value.spread for value in bars.values()]
        axes.bar(list(bars), means, width * 0.94, color=color, label=name)
        axes.errorbar(list(bars), means, yerr=spreads, fmt="none", ecolor=INK, elinewidth=1)
        for at, value in bars.items():
            top = value.mean + value.spread
            axes.text(at, top, f"{value.mean:.1f}", ha="center", va="bottom", fontsize=9, color=INK)
    axes.set_xticks(range(len(families)), [title_of(family) for family in families])
    axes.set_ylim(0, 1.1 * max(value.mean + value.spread for value in values.values()) or 1)
