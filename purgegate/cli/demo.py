"""`purgegate demo`: the main job on embedded data and weights."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from purgegate.cli.progress import counting_bar
from purgegate.figures.exhibits import Exhibit, exhibit_data
from purgegate.figures.viewer import Viewer
from purgegate.grid import run_recipe
from purgegate.io.builder import build
from purgegate.io.cells import Cell
from purgegate.io.datasets import load_corrupted
from purgegate.io.files import write_whole
from purgegate.io.labelled import Dataset
from purgegate.points.shapes import make_shapes
from purgegate.recipes import Recipe, read_recipe
from purgegate.report.formats import print_tables
from purgegate.report.results_page import has_charts, make_report
from purgegate.report.tables import make_tables
from purgegate.units import units_of

WEIGHTS = "point_mae_tiny.shapes"
SEVERITY = 5
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
    cells = [Cell(name, SEVERITY) for name in recipe.corruptions]
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
    page, charts = out / "index.html", has_charts()
    viewer = Viewer(WEIGHTS, demo_exhibits(folder, recipe), featured=True)
    text = make_report(
        rows, title="purgegate demo", intro=INTRO, viewer=viewer.page_data(live=False), charts=charts
    )
    write_whole(page, text.encode())
    typer.echo(f"{results}: {len(rows)} rows. See {page}")
    if not charts:
        typer.echo("Its charts need plotly: `pip install 'purgegate[view]'`, then run this again")


def make_recipe() -> Recipe:
    """The control, the gate and two rivals."""
    return read_recipe(RECIPE)


def make_data(clouds: int) -> Dataset:
    """The first test objects of each class of the embedded set."""
    return Dataset(*make_shapes("test", count=clouds))


def demo_exhibits(folder: Path, recipe: Recipe) -> list[Exhibit]:
    """Three of the clouds that were scored, each of another class and under another corruption."""
    shown = recipe.corruptions[2::5] or recipe.corruptions
    return [
        exhibit._replace(name=f"{exhibit.name}, {name}")
        for place, name in enumerate(shown)
        for exhibit in exhibit_data(load_corrupted(folder, name, severity=SEVERITY), places=[7 * place])
    ]
