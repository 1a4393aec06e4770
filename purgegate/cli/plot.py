"""`purgegate plot`: figures of results, of a training log, or of a model and its clouds."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Kind = Literal[
    "corruptions", "gains", "sweep", "batch_size", "batchnorm", "cost", "training", "token_shift", "attention"
]
Sources = Annotated[
    list[str],
    typer.Argument(
        help="Files of results; for training one log.csv; for token_shift and attention one data set."
    ),
]
Weights = Annotated[
    str, typer.Option(help="token_shift, attention: bundled weights by name, or a checkpoint.")
]
Statistics = Annotated[
    Path | None, typer.Option(help="token_shift: source statistics; bundled weights bring their own.")
]
Corruptions = Annotated[list[str] | None, typer.Option(help="token_shift: one; attention: may be repeated.")]
Severity = Annotated[int, typer.Option(help="token_shift: of the corruption; attention: the greatest.")]
Norm = Annotated[
    Literal["source", "batch", "blend"],
    typer.Option(help="token_shift, attention: where BatchNorm takes its statistics."),
]

ENDINGS = (".png", ".svg", ".pdf")


def plot(
    kind: Annotated[Kind, typer.Argument(help="What to draw.")],
    sources: Sources,
    out: Annotated[Path, typer.Option(help=f"File to write: {', '.join(ENDINGS)}.")],
    weights: Weights = "point_mae_tiny.modelnet40",
    statistics: Statistics = None,
    corruption: Corruptions = None,
    severity: Severity = 5,
    index: Annotated[int, typer.Option(help="token_shift: which cloud of the data set.")] = 0,
    clouds: Annotated[int, typer.Option(help="attention: how many clouds, spread over the data set.")] = 256,
    norm: Norm = "source",
    seed: Annotated[int, typer.Option(help="The same seed gives the same corrupted clouds.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Folder of the named data sets.")] = None,
) -> None:
    """Draw KIND from SOURCES."""
    if out.suffix.lower() not in ENDINGS:
        raise ValueError(f"a figure's file must end in {', '.join(ENDINGS)}; got {out.name}")
    source, *others = sources
    if others and kind in ("training", "token_shift", "attention"):
        raise ValueError(f"{kind} is drawn from one source; got {', '.join(sources)}")
    figure: Any
    if kind == "training":
        from purgegate.report.plots.training import training

        figure = training(source)
    elif kind == "token_shift":
        figure = draw_token_shift(
            source, weights=weights, statistics=statistics, corruption=(corruption or ["background"])[0],
            severity=severity, index=index, norm=norm, seed=seed, root=root,
        )  # fmt: skip
    elif kind == "attention":
        figure = draw_attention(
            source, weights=weights, corruptions=corruption, severity=severity, clouds=clouds, norm=norm,
            seed=seed, root=root,
        )  # fmt: skip
    else:
        from purgegate.report.plots import PLOTS
        from purgegate.report.tables import load_rows

        figure = PLOTS[kind](load_rows(*sources))
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
    typer.echo(f"{out}: {kind}")


def draw_token_shift(
    source: str,
    *,
    weights: str,
    statistics: Path | None,
    corruption: str,
    severity: int,
    index: int,
    norm: str,
    seed: int,
    root: Path | None,
) -> Any:
    """One object of a data set, clean, corrupted and scored."""
    import purgegate as pg
    from purgegate.figures.objects import choose, clean_clouds, corrupted_clouds
    from purgegate.figures.token_shift import token_shift_figure

    model: Any = pg.load_backbone(weights)
    found = pg.SourceStatistics.load(statistics) if statistics else pg.SourceStatistics.from_weights(weights)
    data = choose(pg.load_dataset(source, root=root), [index])
    clean = clean_clouds(data, points=model.points)[0]
    bad = corrupted_clouds(data, corruption, severity=severity, points=model.points, seed=seed, first=index)[
        0
    ]
    name = f"{data.classes[data.label[0]]}, " if data.classes else ""
    title = f"{name}{corruption}, severity {severity}"
    return token_shift_figure(model, found, clean, bad, title=title, norm=norm)


def draw_attention(
    source: str,
    *,
    weights: str,
    corruptions: list[str] | None,
    severity: int,
    clouds: int,
    norm: str,
    seed: int,
    root: Path | None,
) -> Any:
    """Flatness of attention over some clouds of a data set; the numbers are printed too."""
    import numpy as np

    import purgegate as pg
    from purgegate.cli.progress import counting_bar
    from purgegate.figures.attention import CHOSEN, attention_figure, measure_flatness
    from purgegate.figures.objects import choose

    model: Any = pg.load_backbone(weights)
    data = pg.load_dataset(source, root=root)
    places = np.linspace(0, len(data.label) - 1, min(clouds, len(data.label))).round().astype(int)
    chosen, severities = corruptions or CHOSEN, range(1, severity + 1)
    with counting_bar(transient=True) as progress:
        task = progress.add_task("corruptions", total=len(chosen) * len(severities))
        rows = measure_flatness(
            model,
            choose(data, places.tolist()),
            corruptions=chosen,
            severities=severities,
            seed=seed,
            norm=norm,
            advance=lambda: progress.advance(task),
        )
    for row in rows:
        typer.echo(f"{row.corruption},{row.severity},{row.flatness:.5f}")
    clean = f"{100 * rows[0].flatness:.1f} % of {model.groups} tokens when clean"
    subtitle = f"{Path(source).name}, {len(places)} clouds, {Path(weights).name}: {clean}"
    return attention_figure(rows, subtitle=subtitle)
