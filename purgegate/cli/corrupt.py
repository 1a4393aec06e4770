"""`purgegate corrupt`: a corrupted benchmark from clean data."""

from pathlib import Path
from typing import Annotated

import typer

from purgegate.cli.progress import Joined, crew_bar
from purgegate.io.builder import Up, build
from purgegate.io.cells import Cell
from purgegate.io.datasets import load_dataset
from purgegate.io.meshes import PackedMeshes
from purgegate.points.corruptions import CORRUPTIONS
from purgegate.workers import Watch


def corrupt(
    source: Annotated[str, typer.Argument(help="A data set: its name, or a file or folder of clouds.")],
    dest: Annotated[Path, typer.Argument(help="Folder for data_<corruption>_<severity>.npy and label.npy.")],
    corruption: Annotated[
        list[str] | None, typer.Option(help="A corruption, or all; may be repeated.")
    ] = None,
    severity: Annotated[list[int] | None, typer.Option(help="1 to 8; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed makes the same bytes.")] = 0,
    points: Annotated[int, typer.Option(help="Points of a cloud before it is corrupted.")] = 1024,
    workers: Annotated[int, typer.Option(help="Processes that share the work.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(help="Dask: the address of a scheduler, local:N, or slurm for N --workers.")
    ] = None,
    dashboard: Annotated[bool, typer.Option(help="Print the address of Dask's page.")] = False,
    meshes: Annotated[Path | None, typer.Option(help="Packed meshes for occlusion and lidar.")] = None,
    up: Annotated[Up, typer.Option(help="Axis that points up: z, y, or published (z in, y out).")] = "z",
    root: Annotated[Path | None, typer.Option(help="Folder of the named data sets.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace cells that were made otherwise.")] = False,
) -> None:
    """Corrupt the test clouds of SOURCE; finished files are kept when it is run again."""
    chosen, severities = corruption or ["all"], severity or [5]
    cells = choose_cells(chosen, severities)
    if "all" in chosen and (absent := lacking(severities)):
        typer.echo(f"left out: {'; '.join(absent)}", err=True)
    data = load_dataset(source, root=root)
    if meshes is not None:
        data = data._replace(meshes=PackedMeshes.load(meshes))
    with crew_bar() as progress:
        task = progress.add_task("", total=len(cells) * len(data.label), workers=0, unit="clouds")
        watch = Watch(joined=Joined(progress, task, dashboard=dashboard))

        def advance(cell: Cell, clouds: int) -> None:
            progress.update(task, description=f"{cell.corruption} {cell.severity}", advance=clouds)

        made = build(
            data, dest, cells=cells, seed=seed, points=points, workers=workers, cluster=cluster, up=up,
            overwrite=overwrite, advance=advance, watch=watch,
        )  # fmt: skip
    typer.echo(f"{dest}: {len(made)} files made, {len(cells) - len(made)} kept")


def lacking(severities: list[int]) -> list[str]:
    """Say which corruptions have no such severity, for those severities that others have."""
    found = []
    for severity in severities:
        without = [name for name, kind in CORRUPTIONS.items() if severity > len(kind.strengths)]
        if 0 < len(without) < len(CORRUPTIONS):
            found.append(f"{' and '.join(without)}, which have no severity {severity}")
    return found


def choose_cells(corruptions: list[str], severities: list[int]) -> list[Cell]:
    """Pair corruptions with severities; `all` stands for those that have the severity."""
    cells = []
    for severity in severities:
        every = [name for name, kind in CORRUPTIONS.items() if severity <= len(kind.strengths)]
        for name in corruptions:
            cells += [Cell(each, severity) for each in (every or CORRUPTIONS if name == "all" else [name])]
    return list(dict.fromkeys(cells))
