"""`purgegate predict`: a person's own clouds to classes."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from purgegate.typing import Cloud

BATCH = 32
LONE = 20.0  # spacings of the sparse parts of a cloud


def predict(
    files: Annotated[list[Path], typer.Argument(help="Clouds or meshes of any known format.")],
    weights: Annotated[
        str, typer.Option(help="Bundled weights by name, or a checkpoint.")
    ] = "point_mae_tiny.modelnet40",
    method: Annotated[
        Literal["pg_auto", "pg_sp", "pg_sf", "source"],
        typer.Option(help="What is purged: stray points (pg_auto), tokens by score, or nothing (source)."),
    ] = "pg_auto",
    statistics: Annotated[
        Path | None, typer.Option(help="Source statistics; bundled weights bring their own.")
    ] = None,
    norm: Annotated[
        Literal["source", "blend", "batch"],
        typer.Option(
            help="Where BatchNorm takes its statistics: of the training clouds, or of these files (blend, "
            "batch), for many shifted files of mixed classes; files of like objects then go wrong."
        ),
    ] = "source",
    up: Annotated[
        Literal["z", "y"],
        typer.Option(
            help="Axis that points up in the files; y is turned to z, which the bundled models know."
        ),
    ] = "z",
    drop_invalid: Annotated[
        bool, typer.Option(help="Leave out points that are NaN or infinite, as depth cameras give them.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line instead of a table.")
    ] = False,
) -> None:
    """Classify FILES; confidence, what was purged and the shift from the source come with each answer.

    A file that cannot be read is told, the others are answered, and the exit code is 2.
    """
    from rich.console import Console

    import purgegate as pg
    from purgegate.backbones.loading import default_device
    from purgegate.cli.output import as_table
    from purgegate.cli.progress import counting_bar

    model: Any = pg.load_backbone(weights).to(default_device())
    gate = make_gate(model, weights, method=method, statistics=statistics, norm=norm)
    views = []
    with counting_bar(transient=True) as progress:
        for path in progress.track(files, description="read"):
            try:
                cloud = pg.read_cloud(path, drop_invalid=drop_invalid)
                views.append(view_of(path, cloud, model, up=up, purge=method == "pg_auto"))
            except (ValueError, OSError) as error:
                sys.stderr.write(f"purgegate: {error}\n")
        rows = list(progress.track(classify(views, gate), total=len(views), description="answer"))
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    elif rows:
        Console().print(as_table(rows))
    if len(views) < len(files):
        raise typer.Exit(2)


class View(NamedTuple):
    """A file's cloud as the model wants it, and how many points were purged on the way."""

    file: Path
    points: "Tensor"
    dropped: int


def view_of(file: Path, cloud: "Cloud", model: Any, *, up: str, purge: bool) -> View:
    """A well-spread sample, without its strays and then scaled: one far away would make the object small."""
    import numpy as np
    import torch

    from purgegate.points.sampling import resample
    from purgegate.points.transforms import swap_up, unit_sphere

    spread = spread_points(cloud, model.points)
    distinct, least = len(np.unique(spread, axis=0)), model.group_size
    if distinct < least:
        raise ValueError(f"{file} has {distinct} distinct points: an object needs at least {least}")
    turned = swap_up(spread) if up == "y" else spread
    kept = without_strays(turned) if purge else turned
    points = resample(torch.from_numpy(unit_sphere(kept)).float()[None], model.points)
    return View(file, points, len(turned) - len(kept))


def classify(views: list[View], gate: Any) -> Iterator[dict[str, Any]]:
    """One row a file, in their order."""
    import torch

    from purgegate.io.datasets import cut

    model = gate.model
    device = next(model.parameters()).device
    for batch in cut(len(views), BATCH):
        answer = gate.predict(torch.cat([view.points for view in views[batch]]).to(device))
        confidence, best = answer.logits.softmax(dim=1).max(dim=1)
        for index, view in enumerate(views[batch]):
            number = int(best[index])
            yield {
                "file": str(view.file),
                "class": model.class_names[number] if model.class_names else str(number),
                "confidence": float(confidence[index]),
                "purged": view.dropped + int(answer.purge[index]),
                "shift": float(answer.shift[index]),
            }


def make_gate(model: Any, weights: str, *, method: str, statistics: Path | None, norm: str) -> Any:
    """The gate for a loaded model; statistics are needed by PG-SP alone, and tell the others' shift.

    For pg_auto it purges nothing more: strays are gone before clouds are scaled.
    """
    import purgegate as pg
    from purgegate.adapt.pg_auto import center_isolation
    from purgegate.adapt.purge_gate import SIZES
    from purgegate.io.checkpoints import read_checkpoint

    if method == "pg_sf":
        return pg.PurgeGate(model, pg.ClassDistance(), norm=norm)
    score: Any = center_isolation  # where nothing is known of the source
    if statistics is not None:
        score = pg.SourceDistance(pg.SourceStatistics.load(statistics))
    elif method == "pg_sp" or "statistics" in read_checkpoint(weights)[1]:
        score = pg.SourceDistance(pg.SourceStatistics.from_weights(weights))
    return pg.PurgeGate(model, score, purge=SIZES if method == "pg_sp" else (0,), norm=norm)


def spread_points(cloud: "Cloud", count: int) -> Any:
    """At most so many points of a cloud, well spread, in double precision.

    A sum in float32 over many points far from the origin is off by whole extents.
    """
    import torch

    from purgegate.points.sampling import resample

    return resample(torch.from_numpy(cloud).double()[None], min(count, len(cloud)))[0].numpy()


def without_strays(cloud: Any) -> Any:
    """The cloud without its stray points, and without single ones so far away that no object has such."""
    import torch

    from purgegate.points.repair.strays import isolation, strays

    view = torch.from_numpy(cloud)[None]
    return cloud[~(strays(view) | (isolation(view) > LONE))[0].numpy()]
