"""`purgegate export`: a classifier as one ONNX graph, for other runtimes and other languages."""

from pathlib import Path
from typing import Annotated, Any

import typer

import purgegate as pg
from purgegate.backbones.onnx import PRECISIONS, export_backbone
from purgegate.io.checkpoints import read_checkpoint


def export(
    weights: Annotated[str, typer.Argument(help="Bundled weights by name, or a checkpoint.")],
    out: Annotated[Path, typer.Argument(help="The .onnx file to write.")],
    precision: Annotated[
        str, typer.Option(help=f"Of the products: {' or '.join(PRECISIONS)} (smaller, faster, less exact).")
    ] = "float32",
    statistics: Annotated[
        Path | None, typer.Option(help="Source statistics to put in; bundled weights bring their own.")
    ] = None,
    groups: Annotated[
        int | None, typer.Option(min=1, help="Patches per cloud, if the checkpoint does not say.")
    ] = None,
) -> None:
    """Write WEIGHTS as one ONNX graph: any batch, any number of tokens, checked against torch."""
    sizes: dict[str, Any] = {"groups": groups} if groups else {}
    model: Any = pg.load_backbone(weights, **sizes)
    metadata = read_checkpoint(weights).metadata
    if statistics:
        metadata["statistics"] = stored_statistics(pg.SourceStatistics.load(statistics), model)
    difference = export_backbone(model, out, precision=precision, metadata=metadata)
    size = out.stat().st_size / 1e6
    typer.echo(
        f"{out}: {type(model).__name__} of {model.classes} classes in {precision}, {size:.1f} MB; "
        f"logits differ from torch's by {difference:.1e} of the largest"
    )


def stored_statistics(found: pg.SourceStatistics, model: Any) -> dict[str, Any]:
    """The statistics of a file as those of weights are stored."""
    found.check(model)
    return {"b": {"mean": found.mean.tolist(), "std": found.std.tolist(), "count": found.count}}
