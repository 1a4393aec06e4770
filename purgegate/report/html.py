"""One self-contained page: a paragraph, tables and figures, no scripts and nothing to fetch."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from purgegate.io.files import write_whole
from purgegate.report.layout import Grid, TableCell, as_grid
from purgegate.report.pictures import picture
from purgegate.report.tables import Table
from purgegate.typing import StrPath

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --faint: #59636e; --rule: #d1d9e0; --page: #fff;
  --band: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --faint: #9198a1; --rule: #3d444d; --page: #0d1117; --band: #151b23; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--page);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; overflow-wrap: anywhere; }
p { max-width: 46rem; margin: .5rem 0; }
.faint { color: var(--faint); font-size: .875rem; }
.scroll { overflow-x: auto; margin: .75rem 0; border: 1px solid var(--rule); border-radius: 6px; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .35rem .6rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; }
tbody tr { border-top: 1px solid var(--rule); }
tbody tr:nth-child(even) > * { background: var(--band); }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--page); }
figure { margin: 2rem 0 0; }
img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--rule);
  border-radius: 6px; }
figcaption { color: var(--faint); font-size: .875rem; margin-top: .5rem; max-width: 46rem; }
"""


def write_page(
    path: StrPath,
    *,
    title: str,
    intro: str = "",
    table: Table | Sequence[Table] = (),
    figures: Sequence[tuple[str, Figure]] = (),
) -> None:
    """Write a page; `figures` are pairs of a caption and a figure."""
    tables = [table] if isinstance(table, Table) else table
    body = [f"<p>{escape(text)}</p>" for text in intro.split("\n\n") if text.strip()]
    body += [table_section(each) for each in tables]
    body += [figure_section(caption, figure) for caption, figure in figures]
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _page(title, body).encode())


def to_html(tables: Sequence[Table | Grid]) -> str:
    """Tables alone on a page."""
    return _page("Results", [table_section(each) for each in tables])


def _page(title: str, body: Sequence[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join([f"<h1>{escape(title)}</h1>", *body])
        + "\n</body>\n</html>\n"
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


def figure_section(caption: str, figure: Figure) -> str:
    """A figure inside the page, with its caption."""
    data = base64.b64encode(picture(figure, form="png")).decode()
    text = escape(caption)
    image = f'<img alt="{text}" src="data:image/png;base64,{data}">'
    return f"<figure>\n{image}\n<figcaption>{text}</figcaption>\n</figure>"


def _line(cells: tuple[TableCell, ...]) -> str:
    method, *others = cells
    shown = [f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text) for cell in others]
    return f'<th scope="row">{escape(method.text)}</th>' + "".join(f"<td>{text}</td>" for text in shown)
