"""What tables, or rows, can be written as, and which of it a file's ending asks for."""

from collections.abc import Callable
from pathlib import Path

from purgegate.report.formats import to_csv, to_latex, to_markdown, to_text
from purgegate.report.html import to_html

FORMATS: dict[str, Callable[..., str]] = {
    "terminal": to_text,
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
    "html": to_html,
}
ENDINGS = {
    ".txt": "terminal",
    ".md": "markdown",
    ".markdown": "markdown",
    ".csv": "csv",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
    ".parquet": "parquet",
}


def format_for(path: Path | None) -> str:
    """The format that a file's ending asks for; that of the terminal without a file."""
    if path is None:
        return "terminal"
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path} must end in one of {' '.join(ENDINGS)}, or its format be given by --format")
    return ENDINGS[path.suffix.lower()]
