"""`purgegate view`: clouds, tokens and answers on a page, from a local server or in one file."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from purgegate.cli.options import Browser, Port
from purgegate.cli.predict import expand
from purgegate.figures.exhibits import Exhibit, exhibit_data, exhibit_files, spread_places
from purgegate.figures.page_server import served, wait_for_interrupt
from purgegate.figures.viewer import Viewer
from purgegate.io.bundled import list_weights
from purgegate.io.datasets import NAMES, load_dataset
from purgegate.io.files import check_ending, write_whole
from purgegate.io.packages import load_package
from purgegate.norms import NORMS
from purgegate.points.corruptions import strength_of
from purgegate.report.html import PAGES, VIEWER, make_page, page_scripts, viewer_section

WEIGHTS = "point_mae_tiny.modelnet40"
ABOUT = (
    "Each cloud is answered by itself: turn it, move the purge size, and see which points the gate "
    "leaves out and what that does to the answer."
)


def view(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Clouds or meshes: files, folders, quoted patterns; or one data set, by name or file."
        ),
    ],
    weights: Annotated[
        str | None,
        typer.Option(help="Bundled weights by name, or a checkpoint; by default those of the data set."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method to offer; may be repeated. By default all, or four with --out."),
    ] = None,
    statistics: Annotated[
        Path | None, typer.Option(help="Source statistics; bundled weights bring their own.")
    ] = None,
    norm: Annotated[
        str | None, typer.Option(help=f"Where BatchNorm takes its statistics: {', '.join(NORMS)}.")
    ] = None,
    corruption: Annotated[str, typer.Option(help="Break the clouds with this corruption first.")] = "",
    severity: Annotated[int, typer.Option(help="Of the corruption.")] = 5,
    up: Annotated[Literal["z", "y"], typer.Option(help="Axis that points up in the files.")] = "z",
    drop_invalid: Annotated[bool, typer.Option(help="Leave out points that are NaN or infinite.")] = False,
    clouds: Annotated[
        int, typer.Option(min=1, help="At most so many clouds in a file, spread over a data set.")
    ] = 12,
    out: Annotated[
        Path | None, typer.Option(help="Write one page.html that needs no server and no network.")
    ] = None,
    port: Port = 0,
    browser: Browser = True,
) -> None:
    """See SOURCES in 3D with token scores, what is purged at every size, and the answers."""
    if corruption:
        strength_of(corruption, severity)
    if out is not None:
        check_ending(out, *PAGES)
    exhibits = find_exhibits(sources, up=up, drop_invalid=drop_invalid, most=clouds if out else None)
    viewer = Viewer(
        weights or default_weights(sources),
        exhibits,
        methods=method or None,
        featured=out is not None,
        norm=norm,
        statistics=statistics,
    )
    page = make_view(
        viewer,
        title=f"purgegate view: {', '.join(Path(source).name for source in sources[:3])}",
        live=out is None,
        corruption=corruption,
        severity=severity,
    )
    if out is None:
        with served(page, viewer.routes, port=port, browser=browser, announce=typer.echo):
            wait_for_interrupt()
        return
    write_whole(out, page.encode())
    typer.echo(f"{out}: {len(exhibits)} clouds, {len(page.encode()) / 1e6:.1f} MB")


def make_view(viewer: Viewer, *, title: str, live: bool, corruption: str = "", severity: int = 5) -> str:
    """The page of a viewer."""
    data = viewer.page_data(live=live, corruption=corruption, severity=severity)
    body = [f"<p>{ABOUT}</p>", viewer_section(data)]
    return make_page(title, body, scripts=page_scripts(*VIEWER), live=live)


def find_exhibits(
    sources: list[str], *, up: str = "z", drop_invalid: bool = False, most: int | None = None
) -> list[Exhibit]:
    """The clouds that are meant: of one data set, by name or file, or of files."""
    data = load_dataset(sources[0]) if sources[0] in NAMES else _package(sources)
    if data is None:
        files, failed = expand(sources)
        if failed:
            raise ValueError("; ".join(failed))
        return exhibit_files(files, up=up, drop_invalid=drop_invalid)[:most]
    return exhibit_data(data, places=None if most is None else spread_places(data, most))


def default_weights(sources: list[str]) -> str:
    """Bundled weights that were trained on the data set of this name, or else those for any object."""
    return next((name for name in list_weights() if name.endswith(f".{sources[0]}")), WEIGHTS)


def _package(sources: list[str]) -> Any:
    path = Path(sources[0])
    return load_package(path, split="test") if len(sources) == 1 and path.is_file() else None
