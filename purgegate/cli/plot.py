"""`purgegate plot`: figures of results, of a training log, or of a model and its clouds."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import typer
from matplotlib.figure import Figure

import purgegate as pg
from purgegate.cli.progress import counting_bar
from purgegate.figures.attention import CHOSEN, attention_figure, measure_flatness
from purgegate.figures.objects import choose, clean_clouds, corrupted_clouds
from purgegate.figures.token_shift import token_shift_figure
from purgegate.io.files import check_ending
from purgegate.report.pictures import save_figure
from purgegate.report.plots import PLOTS
from purgegate.report.plots.training import training
from purgegate.report.tables import load_rows

ENDINGS = (".png", ".svg", ".pdf")


class Options(NamedTuple):
    """What a figure of a model and its clouds is made with."""

    weights: str
    statistics: Path | None
    corruptions: list[str]
    severity: int
    place: int
    clouds: int
    norm: str
    seed: int
    root: Path | None


def draw_training(source: str, options: Options) -> Figure:
    """Loss and accuracy of a training run by epoch."""
    return training(source)


def draw_token_shift(source: str, options: Options) -> Figure:
    """One object of a data set, clean, corrupted and scored."""
    model: Any = pg.load_backbone(options.weights)
    statistics = _statistics(options)
    corruption, *_ = options.corruptions or ["background"]
    data = choose(pg.load_dataset(source, root=options.root), [options.place])
    (clean,) = clean_clouds(data, points=model.points)
    (bad,) = corrupted_clouds(
        data,
        corruption,
        severity=options.severity,
        points=model.points,
        seed=options.seed,
        first=options.place,
    )
    name = f"{data.classes[data.label[0]]}, " if data.classes else ""
    title = f"{name}{corruption}, severity {options.severity}"
    return token_shift_figure(model, statistics, clean, bad, title=title, norm=options.norm)


def draw_attention(source: str, options: Options) -> Figure:
    """Flatness of attention over some clouds of a data set; the numbers are printed too."""
    model: Any = pg.load_backbone(options.weights)
    data = pg.load_dataset(source, root=options.root)
    count = min(options.clouds, len(data.label))
    spread = np.linspace(0, len(data.label) - 1, count).round().astype(int)
    corruptions, severities = options.corruptions or CHOSEN, range(1, options.severity + 1)
    with counting_bar(transient=True) as progress:
        task = progress.add_task("corruptions", total=len(corruptions) * len(severities))
        rows = measure_flatness(
            model,
            choose(data, spread.tolist()),
            corruptions=corruptions,
            severities=severities,
            seed=options.seed,
            norm=options.norm,
            advance=lambda: progress.advance(task),
        )
    for row in rows:
        typer.echo(f"{row.corruption},{row.severity},{row.flatness:.5f}")
    clean = f"{100 * rows[0].flatness:.1f} % of {model.groups} tokens when clean"
    subtitle = f"{Path(source).name}, {count} clouds, {Path(options.weights).name}: {clean}"
    return attention_figure(rows, subtitle=subtitle)


# What is drawn from something else than result rows, which PLOTS has.
FIGURES: dict[str, Callable[[str, Options], Figure]] = {
    "training": draw_training,
    "token_shift": draw_token_shift,
    "attention": draw_attention,
}


def _kinds() -> list[str]:
    return [*PLOTS, *FIGURES]


def _known_kind(kind: str) -> str:
    if kind not in _kinds():
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(_kinds())}.")
    return kind


def plot(
    kind: Annotated[
        str,
        typer.Argument(
            help=f"What to draw: {', '.join(_kinds())}.", callback=_known_kind, autocompletion=_kinds
        ),
    ],
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Files of results; for training one log.csv; for token_shift and attention one data set."
        ),
    ],
    out: Annotated[Path, typer.Option(help=f"File to write: {', '.join(ENDINGS)}.")],
    weights: Annotated[
        str, typer.Option(help="token_shift, attention: bundled weights by name, or a checkpoint.")
    ] = "point_mae_tiny.modelnet40",
    statistics: Annotated[
        Path | None, typer.Option(help="token_shift: source statistics; bundled weights bring their own.")
    ] = None,
    corruption: Annotated[
        list[str] | None, typer.Option(help="token_shift: one; attention: may be repeated.")
    ] = None,
    severity: Annotated[
        int, typer.Option(help="token_shift: of the corruption; attention: the greatest.")
    ] = 5,
    index: Annotated[int, typer.Option(help="token_shift: which cloud of the data set.")] = 0,
    clouds: Annotated[int, typer.Option(help="attention: how many clouds, spread over the data set.")] = 256,
    norm: Annotated[
        Literal["source", "batch", "blend"],
        typer.Option(help="token_shift, attention: where BatchNorm takes its statistics."),
    ] = "source",
    seed: Annotated[int, typer.Option(help="The same seed gives the same corrupted clouds.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Folder of the named data sets.")] = None,
) -> None:
    """Draw KIND from SOURCES."""
    check_ending(out, *ENDINGS)
    if kind in PLOTS:
        figure = PLOTS[kind](load_rows(*sources))
    elif len(sources) > 1:
        raise ValueError(f"{kind} is drawn from one source; got {', '.join(sources)}")
    else:
        options = Options(
            weights,
            statistics,
            corruption or [],
            severity,
            place=index,
            clouds=clouds,
            norm=norm,
            seed=seed,
            root=root,
        )
        figure = FIGURES[kind](sources[0], options)
    save_figure(figure, out)
    typer.echo(f"{out}: {kind}")


def _statistics(options: Options) -> pg.SourceStatistics:
    if options.statistics:
        return pg.SourceStatistics.load(options.statistics)
    return pg.SourceStatistics.from_weights(options.weights)
