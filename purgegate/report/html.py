"""Pages of one file with nothing to fetch: tables that stand alone, charts, and the cloud viewer."""

import json
from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from purgegate.report.layout import Grid, TableCell, as_grid
from purgegate.report.tables import Table

PARTS = Path(__file__).with_name("page")
VIEWER = ("wire", "colours", "stage", "viewer")  # its scripts, in their order
PAGES = (".html", ".htm")  # endings of a page

# Nothing may be fetched from anywhere but the page's own server, whatever a library would like to.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src {server}"
)


def to_html(tables: Sequence[Table | Grid]) -> str:
    """Tables alone on a page, without a script."""
    return make_page("Results", [table_section(each) for each in tables])


def make_page(title: str, body: Sequence[str], *, scripts: Sequence[str] = (), live: bool = False) -> str:
    """A whole page; a `live` one may ask the server that it came from, any other nobody."""
    policy = POLICY.format(server="'self'" if live else "'none'")
    # Without an icon browsers ask the server for one, which it has not.
    icon = '<link rel="icon" href="data:,">\n' if live else ""
    button = '<button type="button" id="theme" aria-label="Dark or light">◐</button>' if scripts else ""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"{icon}<title>{escape(title)}</title>\n<style>{_part('page.css')}</style>\n</head>\n<body>",
            f'<div class="top"><h1>{escape(title)}</h1>{button}</div>',
            *body,
            *(f"<script>{script}</script>" for script in scripts),
            "</body>\n</html>\n",
        ]
    )


def page_scripts(*names: str, library: bool = True) -> list[str]:
    """The theme, the page's own scripts by name, and the library last: clouds need not wait for it."""
    own = [_part(f"{name}.js") for name in ("theme", *names)]
    return [*own, chart_library(), 'document.dispatchEvent(new Event("library"));'] if library else own


def chart_library() -> str:
    """The text of plotly.js, as its Python package brings it."""
    try:
        return import_module("plotly.offline").get_plotlyjs()
    except ImportError as error:
        raise ValueError(
            "pages with charts need plotly, which is missing: `pip install 'purgegate[view]'`"
        ) from error


def paragraphs(text: str) -> list[str]:
    """What empty lines part, each as a paragraph."""
    return [f"<p>{escape(each)}</p>" for each in text.split("\n\n") if each.strip()]


def viewer_section(data: dict[str, Any]) -> str:
    """The cloud viewer with what it shows."""
    return f"{_part('viewer.html')}{_data('viewer-data', data)}"


def stream_section() -> str:
    """How a stream goes, which the page asks for while it runs."""
    return _part("stream.html")


def chart_section(title: str, caption: str, chart: dict[str, Any], *, name: str) -> str:
    """A chart of traces and a layout, as plotly.js takes them, under a heading."""
    return (
        f'<h2>{escape(title)}</h2>\n<p class="faint">{escape(caption)}</p>\n'
        f'<div class="wide" tabindex="0"><div class="chart" id="{name}" role="img" '
        f'aria-label="{escape(title)}"></div></div>\n' + _data(f"{name}-data", chart)
    )


def confusion_section(title: str, data: dict[str, Any], *, name: str) -> str:
    """Which classes were taken for which, as a heat map with menus."""
    caption = (
        "How many clouds of a class were taken for which, with the numbers on hover; the diagonal is right."
    )
    chart = f'<div class="chart" role="img" aria-label="{escape(title)}"></div>'
    return "\n".join(
        [
            f'<h2>{escape(title)}</h2>\n<p class="faint">{caption}</p>\n<div class="confusion" id="{name}">',
            '<div class="bar"><label>method <select></select></label>',
            "<label>corruption <select></select></label></div>",
            f'<div class="wide" tabindex="0">{chart}</div>\n<p class="faint"></p>\n</div>',
            _data(f"{name}-data", data),
        ]
    )


def table_section(table: Table | Grid) -> str:
    """A table with its heading and notes; on a narrow screen it scrolls under its methods."""
    grid = as_grid(table)
    header = "".join(f'<th scope="col">{escape(text)}</th>' for text in grid.header)
    lines = [f"<tr>{_line(cells)}</tr>" for cells in grid.lines]
    notes = " ".join(escape(note) for note in grid.notes)
    return "\n".join(
        [
            f'<h2>{escape(grid.title)}</h2>\n<p class="faint">{escape(grid.setting)}</p>',
            f'<div class="scroll" tabindex="0">\n<table>\n<thead><tr>{header}</tr></thead>\n<tbody>',
            *lines,
            f'</tbody>\n</table>\n</div>\n<p class="faint">{notes}</p>',
        ]
    )


def _line(cells: tuple[TableCell, ...]) -> str:
    method, *others = cells
    shown = [f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text) for cell in others]
    return f'<th scope="row">{escape(method.text)}</th>' + "".join(f"<td>{text}</td>" for text in shown)


def _data(name: str, value: dict[str, Any]) -> str:
    """Data for a script; no text inside can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _part(name: str) -> str:
    return (PARTS / name).read_text("utf-8")
