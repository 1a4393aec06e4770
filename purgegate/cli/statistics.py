"""`purgegate statistics`: what source tokens, or clean clouds, look like to a model, saved beside it."""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import track

import purgegate as pg
from purgegate.fingerprints import model_fingerprint
from purgegate.io.datasets import batches, cut
from purgegate.io.files import make_folder
from purgegate.io.labelled import Dataset
from purgegate.needs import load_model
from purgegate.points.sampling import resample
from purgegate.recipes import PARTS


def statistics(
    weights: Annotated[
        str, typer.Argument(help="Bundled weights by name, a checkpoint, or package.module:Name of your own.")
    ],
    source: Annotated[str, typer.Argument(help="Clean source clouds: a data set by name or path.")],
    out: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    split: Annotated[str, typer.Option(help="Which split of the source.")] = "train",
    part: Annotated[str, typer.Option(help=f"Which of its clouds: {', '.join(PARTS)} (places).")] = "all",
    reference: Annotated[
        bool,
        typer.Option(
            help="Not statistics of tokens, but what the alarm of a stream compares with: give clean clouds "
            "that the model was not trained on."
        ),
    ] = False,
    root: Annotated[Path | None, typer.Option(help="Folder of the named data sets.")] = None,
    groups: Annotated[
        int | None, typer.Option(min=1, help="Patches per cloud, if the checkpoint does not say.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Clouds at a time.")] = 32,
    after_block: Annotated[
        bool, typer.Option(help="Behind the first block, where the released code takes them.")
    ] = False,
) -> None:
    """Collect the source statistics that PG-SP needs, in one pass over clean SOURCE clouds.

    With --reference, collect what a stream's alarm and its unknown objects are measured by.
    """
    kind = pg.SourceReference if reference else pg.SourceStatistics
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}; got {part!r}")
    make_folder(out.parent)  # before the work, so that it is not lost
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give a file, such as {out / 'statistics.safetensors'}")
    if out.exists():
        kind.load(out)  # refuses to overwrite any other file, such as the weights
    model = load_model(weights, groups=groups)
    data = pg.load_dataset(source, root=root, split=split)
    data = Dataset(data.points[PARTS[part]], data.label[PARTS[part]], data.classes)
    total, count = -(-len(data.label) // batch), len(data.label)
    if reference:
        _collect_reference(model, data, batch, out)
        typer.echo(f"{out}: reference of {count} clouds, for {model_fingerprint(model)}")
        return
    views = (resample(points, getattr(model, "points", 1024)) for points, _ in batches(data, batch))
    found = pg.SourceStatistics.collect(model, track(views, "tokens", total=total), after_block=after_block)
    found.save(out)
    typer.echo(f"{out}: statistics of {found.count} tokens of {count} clouds, for {found.fingerprint}")


def _collect_reference(model: Any, data: Dataset, batch: int, out: Path) -> None:
    """The clouds as a stream sees them."""
    views = (
        torch.cat([pg.prepare(cloud, model) for cloud in data.points[place]])
        for place in cut(len(data.label), batch)
    )
    steps = track(views, "clouds", total=-(-len(data.label) // batch))
    pg.SourceReference.collect(model, steps).save(out)
