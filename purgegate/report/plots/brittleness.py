"""Whether a method gains more where its source model holds up less."""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from purgegate.adapt.described import Look
from purgegate.io.results import Row
from purgegate.report.names import SOURCE, title_of
from purgegate.report.plots.compare import Method, describe, in_order
from purgegate.report.plots.gains import by_method, differences
from purgegate.report.plots.style import FAINT, INK, legend, look_of, new_figure, panels_of, tidy
from purgegate.report.tables import group_rows

CLEAN = "clean"

Point = tuple[float, float]  # accuracy of the source model, and points against the control


def brittleness(rows: Sequence[Row]) -> Figure:
    """Points against the control over the source's own accuracy, a mark for each source model."""
    groups = [(group, found) for group in group_rows(rows) if (found := points_of(group))]
    shared = set.intersection(*(set(found) for _, found in groups)) if groups else set()
    if not shared:
        raise ValueError(
            "a plot of brittleness needs rows of the source, of the control and of another method under the "
            "same corruptions, the same method for all source models: these have none"
        )
    title = "Points against the control, over what the source model gets right by itself"
    models = [describe(group[0], "weights", "total") for group, _ in groups]
    subtitle = "; ".join(f"{number} {name}" for number, name in enumerate(models, 1))
    figure = new_figure(10.5, 4.8, title=title, subtitle=subtitle)
    means, singles = panels_of(figure, 1, 2)[0]
    for method in in_order(shared):
        look, label = look_of(method[0], rows, options=method[1]), title_of(*method)
        points = [found[method] for _, found in groups]
        _draw(means, [_mean(each) for each in points], look=look, size=8, label=label)
        _draw(singles, [point for each in points for point in each], look=look, size=4, label=label)
        for number, each in enumerate(points, 1):
            means.annotate(
                str(number), _mean(each), xytext=(0, 7), textcoords="offset points", ha="center", color=FAINT
            )
    for axes, title in ((means, "mean over corruptions"), (singles, "every corruption")):
        axes.axhline(0, color=INK, linewidth=0.8)
        tidy(axes, x="accuracy of the source model, %", y="points against the control", title=title)
    legend(figure, [means])
    return figure


def points_of(rows: Sequence[Row]) -> dict[Method, list[Point]]:
    """A point a corruption, for each method, where source and control are known too."""
    cells = by_method(rows)
    known = {name: fmean(seeds.values()) for name, seeds in cells.get((SOURCE, ""), {}).items()}
    found = {
        method: [(known[name], gain) for name, gain in gains.items() if name in known and name != CLEAN]
        for method, gains in differences(cells).items()
        if method != (SOURCE, "")
    }
    return {method: points for method, points in found.items() if points}


def _mean(points: Sequence[Point]) -> Point:
    x, y = (fmean(column) for column in zip(*points, strict=True))
    return x, y


def _draw(axes: Axes, points: Sequence[Point], *, look: Look, size: int, label: str) -> None:
    x, y = zip(*points, strict=True)
    axes.plot(x, y, look.marker, color=look.color, markersize=size, label=label)
