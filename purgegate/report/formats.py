"""Tables as Markdown, LaTeX, CSV, and text for the terminal."""

import csv
import io
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from purgegate.report.layout import Grid, TableCell, across, as_grid
from purgegate.report.names import CONTROL, SOURCE
from purgegate.report.tables import SHARED, Line, Table

LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "Δ": r"$\Delta$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "†": r"$\dagger$",
    "→": r"$\to$",
}
NUMBER = 9  # letters of a line of a header: "Source +" and "Δ control"
MARKDOWN = {letter: f"\\{letter}" for letter in r"\|*`<["}


def to_markdown(tables: Sequence[Table | Grid]) -> str:
    """GitHub's tables, the best in bold."""
    return "\n\n".join(_markdown(as_grid(table)) for table in tables) + "\n"


def to_latex(tables: Sequence[Table | Grid]) -> str:
    """One `table*` each, the best in bold; needs the packages booktabs and graphicx."""
    return "\n\n".join(_latex(as_grid(table)) for table in tables) + "\n"


def to_csv(tables: Sequence[Table]) -> str:
    """All tables under one header, unrounded; what a table shares has columns too, and gaps are empty."""
    columns = list(dict.fromkeys(name for table in tables for name in table.columns))
    results = "mean", "spread", "difference_to_source", "difference_to_control", "seeds"
    text = io.StringIO()
    writer = csv.DictWriter(
        text, [*SHARED, "method", "options", "origin", *columns, *results], lineterminator="\n"
    )
    writer.writeheader()
    for table in tables:
        writer.writerows(_record(table, line) for line in table.lines)
    return text.getvalue()


def to_text(tables: Sequence[Table | Grid]) -> str:
    """Plain text of any width, the best with a star."""
    text = io.StringIO()
    print_tables(tables, console=Console(file=text, width=10_000, no_color=True))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def print_tables(tables: Sequence[Table | Grid], *, console: Console) -> None:
    """Show tables; where one is wider than the terminal, corruptions go down and methods across."""
    for table in tables:
        grid, star = as_grid(table), not console.is_terminal
        if isinstance(table, Table) and len(_blocks(grid, console.width, star=star)) > 1:
            grid = across(grid)
        whole = not console.is_terminal  # lines that a program may read; a person's are broken between words
        console.print(
            Text(grid.title, style="bold"), Text(grid.setting, style="dim"), sep="\n", soft_wrap=whole
        )
        for block in _blocks(grid, console.width, star=star):
            console.print(_block(grid, block, star=star))
        for note in grid.notes:
            console.print(Text(note, style="dim"), soft_wrap=whole)
        console.print()


def _markdown(grid: Grid) -> str:
    def line(texts: Sequence[str]) -> str:
        return f"| {' | '.join(texts)} |"

    def show(cell: TableCell) -> str:
        text = _escape(cell.text, MARKDOWN)
        return f"**{text}**" if cell.best else text

    rows = [line([_escape(text, MARKDOWN) for text in grid.header])]
    rows.append(line([":--", *["--:"] * (len(grid.header) - 1)]))
    rows += [line([show(cell) for cell in cells]) for cells in grid.lines]
    notes = " ".join(_escape(note, MARKDOWN) for note in grid.notes)
    heading = f"### {_escape(grid.title, MARKDOWN)}\n\n{_escape(grid.setting, MARKDOWN)}"
    return "\n\n".join([heading, "\n".join(rows), notes])


def _latex(grid: Grid) -> str:
    def line(texts: Sequence[str]) -> str:
        return f"    {' & '.join(texts)} \\\\"

    def show(cell: TableCell) -> str:
        text = _escape(cell.text, LATEX)
        return rf"\textbf{{{text}}}" if cell.best else text

    corruptions = len(grid.header) - 6
    caption = " ".join(_escape(text, LATEX) for text in (f"{grid.title} ({grid.setting}).", *grid.notes))
    return "\n".join(
        [
            r"\begin{table*}",
            r"  \centering",
            r"  \resizebox{\textwidth}{!}{%",
            rf"  \begin{{tabular}}{{l|{'r' * corruptions}|rrrrr}}",
            r"    \toprule",
            line([_escape(text, LATEX) for text in grid.header]),
            r"    \midrule",
            *(line([show(cell) for cell in cells]) for cells in grid.lines),
            r"    \bottomrule",
            r"  \end{tabular}}",
            rf"  \caption{{{caption}}}",
            r"\end{table*}",
        ]
    )


def _record(table: Table, line: Line) -> dict[str, Any]:
    shared = {name: "" for name in SHARED} if line.published else table.setting
    return {
        **shared,
        **{name: table.setting[name] for name in ("dataset", "severity")},
        "method": line.method,
        "options": line.options,
        "origin": "paper" if line.published else "ours",
        **dict(zip(table.columns, line.cells, strict=True)),
        "mean": line.mean,
        "spread": line.spread,
        "difference_to_source": table.difference(line, SOURCE),
        "difference_to_control": table.difference(line, CONTROL),
        "seeds": "" if line.published else line.seeds,
    }


def _blocks(grid: Grid, width: int, *, star: bool) -> list[list[int]]:
    """Columns behind the first, cut so that each block fits beside the first."""
    texts = [
        [_folded(text) for text in grid.header],
        *([cell.text for cell in cells] for cells in grid.lines),
    ]
    first, *others = (max(map(cell_len, column)) for column in zip(*texts, strict=True))
    blocks: list[list[int]] = [[]]
    used = first + 1
    for index, own in enumerate(others, start=1):
        wide = own + star + 2  # a space of padding, and one that divides columns
        if blocks[-1] and used + wide > width:
            blocks.append([])
            used = first + 1
        blocks[-1].append(index)
        used += wide
    return blocks


def _folded(text: str) -> str:
    """The longest line of a header, one word to each line at the least."""
    return max(_header(text).split("\n"), key=cell_len)


def _header(text: str) -> str:
    """A header of several words on several lines, each about as long as a number."""
    return textwrap.fill(text, NUMBER, break_long_words=False, break_on_hyphens=False)


def _block(grid: Grid, columns: list[int], *, star: bool) -> RichTable:
    view = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    view.add_column(grid.header[0], no_wrap=True, vertical="bottom")
    for index in columns:
        lines = [line + " " * star for line in _header(grid.header[index]).split("\n")]
        view.add_column("\n".join(lines), justify="right", no_wrap=True, vertical="bottom")
    for cells in grid.lines:
        shown = [cells[index] for index in columns]
        marks = [("*" if cell.best else " ") if star else "" for cell in shown]
        texts = [
            Text(cell.text + mark, style="bold" if cell.best else "")
            for cell, mark in zip(shown, marks, strict=True)
        ]
        view.add_row(Text(cells[0].text), *texts)
    return view


def _escape(text: str, replacements: dict[str, str]) -> str:
    return "".join(replacements.get(letter, letter) for letter in text)
