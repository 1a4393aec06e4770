"""How plots look: colours that everybody can tell apart, thin axes, no ornament."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from purgegate.adapt import METHODS
from purgegate.adapt.described import Look
from purgegate.io.results import Row
from purgegate.report.names import options_of
from purgegate.report.plots.compare import Value

INK, FAINT, RULE, GRID = "#1f2328", "#656d76", "#b6bcc2", "#e6e8eb"


VARIANTS = ("x", "+", "1", "2", "3", "4", "|", "_")  # markers of lines, which no method has
OTHERS = (Look("#ee8866", "D"), Look("#555555", "^"), Look("#bbcc33", "s"), Look("#99ddff", "8"))


def look_of(method: str, rows: Sequence[Row], *, options: str = "") -> Look:
    """A method's look; those of the rows that have none of their own share out the rest.

    With other options it is paler and has another marker.
    """
    known = {name: each.look for name, each in METHODS.items() if each.look}
    unknown = sorted({row["method"] for row in rows} - known.keys())
    look = known[method] if method in known else OTHERS[unknown.index(method) % len(OTHERS)]
    variants = sorted({"", *(options_of(row) for row in rows if row["method"] == method)})
    place = variants.index(options)
    if not place:
        return look
    share = 0.6 * place / len(variants)
    red, green, blue = (part + share * (1 - part) for part in to_rgb(look.color))
    return Look(to_hex((red, green, blue)), VARIANTS[(place - 1) % len(VARIANTS)])


def new_figure(width: float, height: float, *, title: str = "", subtitle: str = "") -> Figure:
    """An empty figure in inches, with its title at the top left."""
    figure = Figure(figsize=(width, height), dpi=160, layout="constrained", facecolor="white")
    lines = [line for text in (title, subtitle) for line in wrap(text, int(11 * width))]
    if lines:
        figure.suptitle("\n".join(lines), x=0.012, ha="left", fontsize=11.5, color=INK)
    return figure


def width_of(panels: int) -> float:
    """Inches for panels side by side: narrow ones when there are many, to be readable in a page."""
    return 0.6 + (5.6, 8.4, 9.6)[panels - 1] if panels <= 3 else 0.6 + 2.5 * panels


def panels_of(
    figure: Figure,
    rows: int,
    columns: int,
    *,
    heights: list[int] | None = None,
    share: Literal["none", "row"] = "none",
) -> list[list[Axes]]:
    """Empty axes, row by row."""
    sharex: Literal["none", "col"] = "col" if share == "row" else "none"
    grid = figure.subplots(rows, columns, squeeze=False, height_ratios=heights, sharey=share, sharex=sharex)
    return [list(line) for line in grid]


def tidy(axes: Axes, *, x: str = "", y: str = "", title: str = "") -> None:
    """Label the axes and take away what carries no information."""
    axes.set_xlabel(x, fontsize=10, color=INK)
    axes.set_ylabel(y, fontsize=10, color=INK)
    axes.set_title("\n".join(wrap(title, 40)), fontsize=10, color=FAINT, loc="left")
    axes.tick_params(labelsize=9, colors=FAINT, length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(RULE)


def whole_numbers(axes: Axes) -> None:
    """Ticks at whole numbers only, below."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_line(axes: Axes, line: dict[int, Value] | dict[int, float], *, look: Look, label: str) -> None:
    """A line through values, with a band of their spread."""
    values = [value if isinstance(value, Value) else Value(value, 0.0) for value in line.values()]
    x, means = list(line), [value.mean for value in values]
    low, high = [v.mean - v.spread for v in values], [v.mean + v.spread for v in values]
    axes.plot(x, means, color=look.color, marker=look.marker, markersize=5, linewidth=1.8, label=label)
    axes.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0)


def legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend under the figure for all that its panels name."""
    named: dict = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    entry = 0.7 + 0.075 * max(map(len, named))  # inches
    columns = max(1, min(len(named), int(figure.get_figwidth() / entry)))
    figure.legend(
        named.values(),
        named.keys(),
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )
