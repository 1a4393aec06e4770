"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

DEFAULT_WEIGHTS = "point_mae_tiny.modelnet40"

Weights = Annotated[
    str, typer.Option(help="Bundled weights by name, a checkpoint, or package.module:Name of your own.")
]
MethodName = Annotated[
    str, typer.Option(help="A method of `purgegate bench`, or package.module:Name of your own.")
]
NormName = Annotated[
    str | None, typer.Option(help="Where BatchNorm takes its statistics; else as the method does.")
]
Memory = Annotated[
    float | None, typer.Option(help="Clouds after which the statistics of a stream have forgotten.")
]
Statistics = Annotated[Path | None, typer.Option(help="Source statistics; bundled weights bring their own.")]
Reference = Annotated[
    Path | None, typer.Option(help="From `purgegate statistics --reference`; bundled weights have one.")
]
Alpha = Annotated[
    float, typer.Option(help="Probability of a false alarm over a whole stream; 0 for no alarm.")
]
Up = Annotated[
    Literal["z", "y"],
    typer.Option(help="Axis that points up in the clouds; y is turned to z, which models know."),
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Of the page's server on this machine; 0 takes a free one.")
]
Browser = Annotated[bool, typer.Option(help="Open the page in the browser.")]
