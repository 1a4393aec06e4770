"""`purgegate table`: the paper's table from files of results."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from purgegate.report.formats import print_tables, to_csv, to_latex, to_markdown, to_text
from purgegate.report.published import beside_paper
from purgegate.report.tables import load_rows, make_tables


def table(
    results: Annotated[list[Path], typer.Argument(help="Files of results of `purgegate bench`.")],
    form: Annotated[
        Literal["terminal", "markdown", "csv", "latex"], typer.Option("--format", help="How it is written.")
    ] = "terminal",
    paper: Annotated[bool, typer.Option(help="Put the paper's published numbers beside ours.")] = False,
    out: Annotated[Path | None, typer.Option(help="File to write instead of the screen.")] = None,
) -> None:
    """Print methods against corruptions: mean, spread over seeds, and gain over source and control."""
    tables = make_tables(load_rows(*results))
    if paper:
        tables = [beside_paper(each) for each in tables]
    console = Console()
    if form == "terminal" and out is None and console.is_terminal:
        print_tables(tables, console=console)
        return
    write = {"terminal": to_text, "markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form]
    if out is None:
        typer.echo(write(tables), nl=False)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(write(tables), encoding="utf-8")
