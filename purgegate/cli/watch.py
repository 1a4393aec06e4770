"""`purgegate watch`: clouds answered as they appear, in a folder, on standard input or in a ROS bag."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from purgegate.adapt import OURS, find_method
from purgegate.alarm import Alarm
from purgegate.answers import class_names_of
from purgegate.cli.arrivals import Item, open_source
from purgegate.cli.boards import Board, Lines
from purgegate.cli.options import (
    DEFAULT_WEIGHTS,
    Alpha,
    Browser,
    Memory,
    MethodName,
    NormName,
    Port,
    Reference,
    Statistics,
    Up,
    Weights,
)
from purgegate.figures.page_server import served, wait_for_interrupt
from purgegate.figures.timeline import Answered, Timeline
from purgegate.gate.statistics import SourceStatistics
from purgegate.needs import load_model
from purgegate.report.html import make_page, page_scripts, paragraphs, stream_section
from purgegate.stream import Stream

ENDED = "The stream has ended; its page stays until Ctrl-C"


def watch(
    source: Annotated[
        str, typer.Argument(help="A folder, a ROS bag, or - for paths or JSON lines on standard input.")
    ],
    weights: Weights = DEFAULT_WEIGHTS,
    method: MethodName = OURS,
    norm: NormName = None,
    memory: Memory = None,
    statistics: Statistics = None,
    reference: Reference = None,
    alpha: Alpha = 0.01,
    up: Up = "z",
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds in a ROS bag.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="File of the stream's state: taken up at the start, kept up to date.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Save the state every so many clouds.")] = 50,
    interval: Annotated[float, typer.Option(min=0.0, help="Seconds between two looks at a folder.")] = 0.5,
    once: Annotated[bool, typer.Option(help="Answer what a folder has now, and stop.")] = False,
    drop_invalid: Annotated[bool, typer.Option(help="Leave out points that are NaN or infinite.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, not a table.")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Show the stream on a page too, from a server on this machine.")
    ] = False,
    port: Port = 0,
    browser: Browser = True,
) -> None:
    """Answer clouds as they appear in SOURCE, adapt to them, and raise the alarm when they change.

    A cloud that cannot be read is reported and the next is taken; the exit code is then 2. The page shows the
    accuracy of clouds in folders called as a class of the model.
    """
    options: dict[str, Any] = {} if statistics is None else {"statistics": SourceStatistics.load(statistics)}
    alarms: list[Alarm] = []
    stream = Stream(
        load_model(weights), method, norm=norm, memory=memory, up=up, alpha=alpha or None,
        reference=reference, on_alarm=alarms.append, **options,
    )  # fmt: skip
    if state is not None and state.exists():
        stream.load(state)
    items = open_source(
        source, topic=topic, interval=interval, once=once, drop_invalid=drop_invalid,
        classes=class_names_of(stream.model),
    )  # fmt: skip
    board, timeline = Lines() if as_json else Board(), Timeline()
    boards: list[Lines | Board | Timeline] = [board, timeline] if page else [board]
    beside: AbstractContextManager[Any] = nullcontext()
    if page:
        made = make_stream_page(Path(source).name, method=method, weights=weights)
        beside = served(made, timeline.routes, port=port, browser=browser, announce=_say)

    def take(item: Item) -> bool:
        return _answer(stream, item, boards, alarms)

    with beside:
        failed, ended = _run(stream, items, take, live=board.live(), state=state, every=every)
        if page and ended:
            timeline.end()
            _say(ENDED)
            wait_for_interrupt()
    if failed:
        raise typer.Exit(2)


def make_stream_page(source: str, *, method: str, weights: str) -> str:
    """The page of a stream."""
    about = f"{find_method(method).title} with {Path(weights).name}, cloud by cloud."
    scripts = page_scripts("wire", "colours", "stage", "stream")
    title = f"purgegate watch: {source if source != '-' else 'standard input'}"
    return make_page(title, [*paragraphs(about), stream_section()], scripts=scripts, live=True)


def _run(
    stream: Stream,
    items: Iterable[Item],
    take: Callable[[Item], bool],
    *,
    live: AbstractContextManager[Any],
    state: Path | None,
    every: int,
) -> tuple[int, bool]:
    """Take one cloud after the other: how many failed, and whether they ended by themselves."""
    failed = 0
    try:
        with live:
            for item in items:
                failed += not take(item)
                if state is not None and stream.seen % every == 0:
                    stream.save(state)
        return failed, True
    except KeyboardInterrupt:
        return failed, False  # the usual end of a watch
    finally:
        if state is not None:
            stream.save(state)


def _answer(
    stream: Stream, item: Item, boards: Sequence[Lines | Board | Timeline], alarms: list[Alarm]
) -> bool:
    try:
        points = stream.prepared(item.load())
        (answer,) = stream.answer(points)
    except (ValueError, OSError) as error:
        text = str(error)
        for board in boards:
            board.fail(item.name, text if item.name in text else f"{item.name}: {text}")
        return False
    for board in boards:
        board.show(Answered(item.name, points[0], answer, item.truth))
    while alarms:
        alarm = alarms.pop()
        for board in boards:
            board.ring(alarm)
    return True


def _say(text: str) -> None:
    typer.echo(text, err=True)  # what goes to standard output may be read by a program
