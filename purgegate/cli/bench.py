"""`purgegate bench`: a recipe to rows."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from purgegate.cli.progress import counting_bar
from purgegate.grid import run_recipe, units_of
from purgegate.recipes import read_recipe


def bench(
    recipe: Annotated[Path, typer.Argument(help="A recipe (*.toml): see the folder recipes.")],
    data: Annotated[Path, typer.Option(help="Folder of the corrupted set, made by `purgegate corrupt`.")],
    out: Annotated[Path, typer.Option(help="File of rows; finished ones are kept.")] = Path("results.jsonl"),
    workers: Annotated[int, typer.Option(help="Processes, which share the threads.")] = 1,
) -> None:
    """Run RECIPE; a stopped run is taken up where it was when the command is given again."""
    plan = read_recipe(recipe)
    cells = sum(len(unit.domains) for unit in units_of(plan, data=str(data)))
    with counting_bar() as progress:
        task = progress.add_task(plan.title, total=cells)
        sources = progress.add_task("source clouds remembered", visible=False)
        rows = run_recipe(
            plan,
            data=data,
            out=out,
            workers=workers,
            advance=lambda cells: progress.advance(task, cells),
            remembering=lambda done, total: progress.update(
                sources, completed=done, total=total, visible=done < total
            ),
        )
    command = shlex.join(["purgegate", "table", str(out)])
    typer.echo(f"{out}: {len(rows)} rows of {plan.title}; see them with `{command}`")
