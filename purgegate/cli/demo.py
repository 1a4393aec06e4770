"""`purgegate demo`: the main job on embedded data and weights."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.figure import Figure
from rich.console import Console

import purgegate as pg
from purgegate.cli.progress import counting_bar
from purgegate.figures.token_shift import token_shift_figure
from purgegate.grid import run_recipe, units_of
from purgegate.io.builder import build, scaled_sample
from purgegate.io.cells import Cell
from purgegate.io.labelled import Dataset
from purgegate.points.shapes import make_shapes
from purgegate.recipes import Recipe, read_recipe
from purgegate.report.formats import print_tables
from purgegate.report.html import write_page
from purgegate.report.plots.gains import gains
from purgegate.report.tables import make_tables

WEIGHTS = "point_mae_tiny.shapes"
RECIPE = Path(__file__).with_name("demo.toml")
INTRO = (
    "A small Point-MAE classifier, trained on clean procedural objects, meets the 15 corruptions of the "
    "benchmark at severity 5. Every row scores the same clouds. The control, source + BatchNorm reset, shows "
    "what the batch statistics alone do; what purging adds is the difference to it."
)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the data, the rows and the page.")] = Path(
        "purgegate-demo"
    ),
    clouds: Annotated[int, typer.Option(help="Test clouds of each of the 22 classes.")] = 6,
    workers: Annotated[int, typer.Option(help="Processes that corrupt and evaluate.")] = 2,
) -> None:
    """Compare the gate with its control and two rivals over 15 corruptions; ends with a table and a page."""
    recipe, data = make_recipe(), make_data(clouds)
    cells = [Cell(name, 5) for name in recipe.corruptions]
    folder, results = out / f"shapes-c-{clouds}", out / f"results-{clouds}.jsonl"
    with counting_bar() as progress:
        making = progress.add_task("corrupting", total=len(cells) * len(data.label))
        build(
            data, folder, cells=cells, workers=workers, advance=lambda _, done: progress.advance(making, done)
        )
        total = len(list(units_of(recipe, data=str(folder))))
        running = progress.add_task("evaluating", total=total)
        rows = run_recipe(
            recipe,
            data=folder,
            out=results,
            workers=workers,
            advance=lambda done: progress.advance(running, done),
        )
    tables = make_tables(rows)
    print_tables(tables, console=Console())
    page = out / "index.html"
    figures = [
        ("Points against the control, whose accuracy stands below.", gains(rows)),
        (
            "Points in the colour of their patch's rank under source statistics; red is farthest.",
            token_shift(data),
        ),
    ]
    write_page(page, title="purgegate demo", intro=INTRO, table=tables[0], figures=figures)
    typer.echo(f"{results}: {len(rows)} rows. See {page}")


def make_recipe() -> Recipe:
    """The control, the gate and two rivals."""
    return read_recipe(RECIPE)


def make_data(clouds: int) -> Dataset:
    """The first test objects of each class of the embedded set."""
    return Dataset(*make_shapes("test", count=clouds))


def token_shift(data: Dataset) -> Figure:
    """The paper's first figure on an aeroplane among stray points."""
    model: Any = pg.load_backbone(WEIGHTS)
    statistics = pg.SourceStatistics.from_weights(WEIGHTS)
    clean = scaled_sample(data.points[:1], model.points)[0]
    stray = pg.corrupt(clean, "background", severity=5, generator=np.random.default_rng(0))
    return token_shift_figure(model, statistics, clean, stray, title="Background noise, severity 5")
