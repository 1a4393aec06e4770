"""`purgegate statistics`: what source tokens look like to a model, saved beside it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

import purgegate as pg
from purgegate.io.datasets import batches
from purgegate.points.sampling import resample


def statistics(
    weights: Annotated[str, typer.Argument(help="Bundled weights by name, or a checkpoint.")],
    source: Annotated[str, typer.Argument(help="Clean source clouds: a data set by name or path.")],
    out: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    split: Annotated[str, typer.Option(help="Which split of the source.")] = "train",
    root: Annotated[Path | None, typer.Option(help="Folder of the named data sets.")] = None,
    groups: Annotated[
        int | None, typer.Option(help="Patches per cloud, if the checkpoint does not say.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Clouds at a time.")] = 32,
    after_block: Annotated[
        bool, typer.Option(help="Behind the first block, where the released code takes them.")
    ] = False,
) -> None:
    """Collect the source statistics that PG-SP needs, in one pass over clean SOURCE clouds."""
    out.parent.mkdir(parents=True, exist_ok=True)  # before the work, so that it is not lost
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give a file, such as {out / 'statistics.safetensors'}")
    if out.exists():
        pg.SourceStatistics.load(out)  # refuses to overwrite any other file, such as the weights
    sizes: dict[str, Any] = {"groups": groups} if groups else {}
    model: Any = pg.load_backbone(weights, **sizes)
    data = pg.load_dataset(source, root=root, split=split)
    views = (resample(points, model.points) for points, _ in batches(data, batch))
    steps = track(views, "tokens", total=-(-len(data.label) // batch))
    found = pg.SourceStatistics.collect(model, steps, after_block=after_block)
    found.save(out)
    typer.echo(
        f"{out}: statistics of {found.count} tokens of {len(data.label)} clouds, for {found.fingerprint}"
    )
