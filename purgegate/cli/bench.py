"""`purgegate bench`: a recipe to rows."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from purgegate.cli.progress import Joined, crew_bar
from purgegate.grid import run_recipe
from purgegate.io.results import lost_beside
from purgegate.recipes import Recipe, read_recipe
from purgegate.report.plan import describe_plan, plan_units
from purgegate.schedulers import read_where
from purgegate.units import units_of

LOST = 3  # exit code of a run whose other rows are all there


def bench(
    recipe: Annotated[Path, typer.Argument(help="A recipe (*.toml): see the folder recipes.")],
    data: Annotated[Path, typer.Option(help="Folder of the corrupted set, made by `purgegate corrupt`.")],
    out: Annotated[Path, typer.Option(help="File of rows; finished ones are kept.")] = Path("results.jsonl"),
    workers: Annotated[int, typer.Option(help="Processes, which share the threads.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(help="Dask: the address of a scheduler, local:N, or slurm for N --workers.")
    ] = None,
    dashboard: Annotated[bool, typer.Option(help="Print the address of Dask's page.")] = False,
    plan: Annotated[bool, typer.Option(help="Say what it would cost, and run nothing.")] = False,
    costs: Annotated[
        list[Path] | None, typer.Option(help="Rows by which --plan tells time; by default those of --out.")
    ] = None,
) -> None:
    """Run RECIPE; a stopped run is taken up where it was when the command is given again."""
    chosen = read_recipe(recipe)
    if plan:
        planned = plan_units(units_of(chosen, data=str(data)), costs or [out] * out.exists())
        counted = read_where(cluster).workers if cluster is not None else None
        typer.echo(describe_plan(planned, workers=counted or workers), nl=False)
        return
    rows = _run(chosen, data, out, workers=workers, cluster=cluster, dashboard=dashboard)
    command = shlex.join(["purgegate", "table", str(out)])
    typer.echo(f"{out}: {len(rows)} rows of {chosen.title}; see them with `{command}`")
    if lost_beside(out).exists():
        lacking = len(lost_beside(out).read_text("utf-8").splitlines())
        typer.echo(
            f"{lacking} rows are lacking (see {lost_beside(out)}); the same command runs them again", err=True
        )
        raise typer.Exit(LOST)


def _run(
    recipe: Recipe, data: Path, out: Path, *, workers: int, cluster: str | None, dashboard: bool
) -> list[dict]:
    """Run a recipe under a bar."""
    with crew_bar() as progress:
        cells = sum(len(unit.domains) for unit in units_of(recipe, data=str(data)))
        task = progress.add_task(recipe.title, total=cells, workers=0, unit="rows")
        sources = progress.add_task("source clouds remembered", visible=False, workers=0, unit="clouds")
        return run_recipe(
            recipe,
            data=data,
            out=out,
            workers=workers,
            cluster=cluster,
            advance=lambda cells: progress.advance(task, cells),
            remembering=lambda done, total: progress.update(
                sources, completed=done, total=total, visible=done < total
            ),
            joined=Joined(progress, task, dashboard=dashboard),
        )
