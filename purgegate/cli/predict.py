"""`purgegate predict`: a person's own clouds to classes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
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
        Literal["blend", "batch", "source"] | None,
        typer.Option(help="Where BatchNorm takes its statistics: blend, but for the source model its own."),
    ] = None,
    up: Annotated[
        Literal["z", "y"],
        typer.Option(
            help="Axis that points up in the files; y is turned to z, which the bundled models know."
        ),
    ] = "z",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line instead of a table.")
    ] = False,
) -> None:
    """Classify FILES; confidence, what was purged and the shift from the source come with each answer."""
    from rich.console import Console

    from purgegate.cli.output import as_table

    norm = norm or ("source" if method == "source" else "blend")
    rows = classify(files, weights=weights, method=method, statistics=statistics, norm=norm, up=up)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        Console().print(as_table(rows))


def classify(
    files: list[Path], *, weights: str, method: str, statistics: Path | None, norm: str, up: str
) -> list[dict[str, Any]]:
    """One row a file, in their order."""
    import torch

    import purgegate as pg
    from purgegate.backbones.loading import default_device
    from purgegate.io.datasets import cut
    from purgegate.points.sampling import resample
    from purgegate.points.transforms import swap_up, unit_sphere

    device = default_device()
    model: Any = pg.load_backbone(weights).to(device)
    gate = make_gate(model, weights, method=method, statistics=statistics, norm=norm)
    clouds = [spread_points(pg.read_cloud(path), model.points) for path in files]
    clouds = [swap_up(cloud) for cloud in clouds] if up == "y" else clouds
    # Before they are scaled: a stray far away would make the object small.
    kept = [without_strays(cloud) for cloud in clouds] if method == "pg_auto" else clouds
    dropped = torch.tensor([len(whole) - len(some) for whole, some in zip(clouds, kept, strict=True)])
    views = [resample(torch.from_numpy(unit_sphere(cloud)).float()[None], model.points) for cloud in kept]
    points, rows = torch.cat(views).to(device), []
    for batch in cut(len(files), BATCH):
        answer, before = gate.predict(points[batch]), dropped[batch]
        confidence, best = answer.logits.softmax(dim=1).max(dim=1)
        for index, name in enumerate(files[batch]):
            number = int(best[index])
            rows.append(
                {
                    "file": str(name),
                    "class": model.class_names[number] if model.class_names else str(number),
                    "confidence": float(confidence[index]),
                    "purged": int(before[index] + answer.purge[index]),
                    "shift": float(answer.shift[index]),
                }
            )
    return rows


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

    from purgegate.points.strays import isolation, strays

    view = torch.from_numpy(cloud)[None]
    return cloud[~(strays(view) | (isolation(view) > LONE))[0].numpy()]
