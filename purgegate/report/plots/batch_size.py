"""How a method depends on the number of clouds in a batch."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from purgegate.io.results import Row
from purgegate.report.names import title_of
from purgegate.report.plots.compare import compare, headings, in_order, mean_label, method_of
from purgegate.report.plots.style import draw_line, legend, look_of, new_figure, panels_of, tidy, width_of
from purgegate.report.tables import group_rows


def batch_size(rows: Sequence[Row]) -> Figure:
    """Mean accuracy against the batch size, one line a method that was run with several."""
    groups = [several for group in group_rows(rows, varying=["batch"]) if (several := _several(group))]
    if not groups:
        raise ValueError("a plot of batch sizes needs a method run with at least two: these rows have none")
    subtitle, titles = headings(groups, varying=["batch"])
    figure = new_figure(width_of(len(groups)), 4.2, title="Accuracy against batch size", subtitle=subtitle)
    panels = panels_of(figure, 1, len(groups))[0]
    for axes, group, title in zip(panels, groups, titles, strict=True):
        values, cells = compare(group, lambda row: (*method_of(row), row["batch"]))
        sizes = sorted({size for *_, size in values})
        for method in in_order({(name, options) for name, options, _ in values}):
            line = {size: values[*method, size] for size in sizes if (*method, size) in values}
            draw_line(axes, line, look=look_of(method[0], rows, options=method[1]), label=title_of(*method))
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        tidy(axes, x="clouds in a batch", y=mean_label(cells), title=title)
    legend(figure, panels)
    return figure


def _several(rows: list[Row]) -> list[Row]:
    """The rows of methods with more than one batch size."""
    sizes: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        sizes.setdefault(method_of(row), set()).add(row.get("batch", 0))
    return [row for row in rows if len(sizes[method_of(row)]) > 1 and row.get("batch")]
