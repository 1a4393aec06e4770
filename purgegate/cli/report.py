"""`purgegate report`: files of results as one page."""

from pathlib import Path
from typing import Annotated

import typer

from purgegate.io.files import check_ending, write_whole
from purgegate.report.html import PAGES
from purgegate.report.results_page import make_report
from purgegate.report.tables import load_rows


def report(
    results: Annotated[list[Path], typer.Argument(help="Files of results of `purgegate bench`.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Its heading.")] = "Results",
    paper: Annotated[bool, typer.Option(help="Put the paper's published numbers beside ours.")] = False,
) -> None:
    """Write RESULTS as one page that needs no network: sortable tables, gains, cost against accuracy."""
    check_ending(out, *PAGES)
    rows = load_rows(*results)
    page = make_report(rows, title=title, paper=paper).encode()
    write_whole(out, page)
    typer.echo(f"{out}: {len(rows)} rows, {len(page) / 1e6:.1f} MB")
