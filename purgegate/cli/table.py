"""`purgegate table`: the paper's table from files of results, or two files compared."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from purgegate.io.files import write_whole
from purgegate.report.compare_files import compare_files, comparison_csv, comparison_grid
from purgegate.report.formats import print_tables
from purgegate.report.outputs import FORMATS, format_for
from purgegate.report.parquet import to_parquet
from purgegate.report.published import beside_paper
from purgegate.report.tables import load_rows, make_tables, part_of


def table(
    results: Annotated[list[Path], typer.Argument(help="Files of results of `purgegate bench`.")],
    form: Annotated[
        Literal["terminal", "markdown", "csv", "latex", "html", "parquet"] | None,
        typer.Option("--format", help="How it is written; by default as the ending of --out says."),
    ] = None,
    paper: Annotated[bool, typer.Option(help="Put the paper's published numbers beside ours.")] = False,
    part: Annotated[
        Literal["all", "even", "odd"], typer.Option(help="Count only the clouds at even or odd places.")
    ] = "all",
    compare: Annotated[bool, typer.Option(help="Show which cells of two files differ, by how much.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write instead of the screen: .md, .csv, .tex, .html, .txt, .parquet."),
    ] = None,
) -> None:
    """Print methods against corruptions: mean, spread over seeds, and gain over source and control.

    Parquet holds the rows themselves, for pandas, DuckDB and Polars.
    """
    kind, text = form or format_for(out), ""
    if kind == "parquet":
        _write_rows(results, out, plain=not (paper or compare))
        return
    if compare:
        found = compare_files(*results)
        shown: Any = [comparison_grid(found)]
        text = comparison_csv(found) if kind == "csv" else ""
    else:
        tables = make_tables(part_of(load_rows(*results), part))
        shown = [beside_paper(each) for each in tables] if paper else tables
    console = Console()
    if kind == "terminal" and out is None and console.is_terminal:
        print_tables(shown, console=console)
        return
    text = text or FORMATS[kind](shown)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text.encode())


def _write_rows(results: list[Path], out: Path | None, *, plain: bool) -> None:
    """Write the rows of files as one Parquet file."""
    if out is None or not plain:
        raise ValueError("parquet holds rows, in a file: give --out, and neither --paper nor --compare")
    content = to_parquet(load_rows(*results))
    write_whole(out, content)
