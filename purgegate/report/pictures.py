"""Figures as files, each whole or not there at all."""

import io
from pathlib import Path

from matplotlib.figure import Figure

from purgegate.io.files import write_whole
from purgegate.typing import StrPath


def picture(figure: Figure, *, form: str) -> bytes:
    """A figure as the bytes of a file: png, svg or pdf."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form)
    return buffer.getvalue()


def save_figure(figure: Figure, path: StrPath) -> None:
    """Write a figure in the format of the file's ending; a full disk leaves what was there."""
    path = Path(path)
    write_whole(path, picture(figure, form=path.suffix[1:].lower()))
