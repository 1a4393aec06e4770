"""`purgegate watch`: clouds answered as they appear, in a folder, on standard input or in a ROS bag."""

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from purgegate.adapt import OURS
from purgegate.alarm import Alarm
from purgegate.answers import Answer
from purgegate.cli.options import (
    DEFAULT_WEIGHTS,
    Alpha,
    Memory,
    MethodName,
    NormName,
    Reference,
    Statistics,
    Up,
    Weights,
)
from purgegate.cli.output import as_table
from purgegate.cli.predict import describe
from purgegate.gate.statistics import SourceStatistics
from purgegate.io.bags import is_bag, read_bag
from purgegate.io.clouds import read_cloud
from purgegate.io.formats import READERS
from purgegate.needs import load_model
from purgegate.serve.bodies import points_of_json
from purgegate.stream import Stream

SHOWN = 15  # answers in the live table
RECENT = 50  # answers over which the rate is taken
PATIENCE = 5  # looks at an unchanged file that cannot be read, before it is given up


class Item(NamedTuple):
    """A cloud by its name, and how it is had."""

    name: str
    load: Callable[[], Any]


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
) -> None:
    """Answer clouds as they appear in SOURCE, adapt to them, and raise the alarm when they change.

    A cloud that cannot be read is reported and the next is taken; the exit code is then 2.
    """
    options: dict[str, Any] = {} if statistics is None else {"statistics": SourceStatistics.load(statistics)}
    alarms: list[Alarm] = []
    stream = Stream(
        load_model(weights), method, norm=norm, memory=memory, up=up, alpha=alpha or None,
        reference=reference, on_alarm=alarms.append, **options,
    )  # fmt: skip
    if state is not None and state.exists():
        stream.load(state)
    items = open_source(source, topic=topic, interval=interval, once=once, drop_invalid=drop_invalid)
    board = Lines() if as_json else Board()
    failed = 0
    try:
        with board.live():
            for item in items:
                failed += not _answer(stream, item, board, alarms)
                if state is not None and stream.seen % every == 0:
                    stream.save(state)
    except KeyboardInterrupt:
        pass  # the usual end of a watch
    finally:
        if state is not None:
            stream.save(state)
    if failed:
        raise typer.Exit(2)


def open_source(
    source: str, *, topic: str | None, interval: float, once: bool, drop_invalid: bool
) -> Iterator[Item]:
    """The clouds of whatever was given, as they come."""
    path = Path(source)
    if source == "-":
        return _from_lines(sys.stdin, drop_invalid=drop_invalid)
    if is_bag(path):
        return (Item(name, partial(_itself, points)) for name, points in read_bag(path, topic))
    if not path.is_dir():
        raise ValueError(
            f"{source} must be a folder, a ROS bag or -: files are answered by `purgegate predict`"
        )
    return _from_folder(path, interval=interval, once=once, drop_invalid=drop_invalid)


def _from_lines(lines: Any, *, drop_invalid: bool) -> Iterator[Item]:
    """Paths, or JSON: a cloud [[x, y, z], …], or {"points": cloud, "name": …}."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith(("[", "{")):
            yield _from_json(text, f"line {number}")
        elif text:
            yield Item(text, partial(read_cloud, text, drop_invalid=drop_invalid))


def _from_json(text: str, name: str) -> Item:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Item(name, partial(_refuse, f"{name} is no JSON: {error}"))
    name = str(found.get("name", name)) if isinstance(found, dict) else name
    return Item(name, partial(points_of_json, found))


def _itself(cloud: Any) -> Any:
    return cloud


def _refuse(reason: str) -> None:
    raise ValueError(reason)


class _Look(NamedTuple):
    """What a file was like when it was last looked at."""

    stamp: tuple[int, int]  # time of change and size
    tries: int = 0
    done: bool = False


def _from_folder(folder: Path, *, interval: float, once: bool, drop_invalid: bool) -> Iterator[Item]:
    """Files that did not change between two looks; one that cannot be read yet is looked at again."""
    known: dict[Path, _Look] = {}
    while True:
        open_ = 0
        for path, stamp in _stamps(folder):
            look = known.get(path)
            if look is None or look.stamp != stamp:
                known[path] = _Look(stamp)
                open_ += 1
            elif not look.done:
                cloud, error = _try(path, drop_invalid)
                last = error is None or look.tries + 1 >= PATIENCE
                known[path] = _Look(stamp, look.tries + 1, done=last)
                open_ += not last
                if error is None:
                    yield Item(str(path), partial(_itself, cloud))
                elif last:
                    yield Item(str(path), partial(_refuse, str(error)))
        if once and not open_:
            return
        time.sleep(interval)


def _stamps(folder: Path) -> list[tuple[Path, tuple[int, int]]]:
    """Files that a reader knows, the oldest first, each with what tells that it changed."""
    found = []
    for path in folder.rglob("*"):
        if path.suffix.lower() in READERS and not path.name.startswith("."):
            try:
                facts = path.stat()
            except OSError:
                continue  # gone since
            found.append((path, (facts.st_mtime_ns, facts.st_size)))
    return sorted(found, key=lambda each: (each[1][0], each[0]))


def _try(path: Path, drop_invalid: bool) -> tuple[Any, Exception | None]:
    try:
        return read_cloud(path, drop_invalid=drop_invalid), None
    except (ValueError, OSError) as error:
        return None, error


def _answer(stream: Stream, item: Item, board: "Board | Lines", alarms: list[Alarm]) -> bool:
    try:
        answer = stream.push(item.load())
    except (ValueError, OSError) as error:
        text = str(error)
        board.fail(item.name, text if item.name in text else f"{item.name}: {text}")
        return False
    board.show(item.name, answer)
    while alarms:
        board.ring(alarms.pop())
    return True


def stream_row(name: str, answer: Answer) -> dict[str, Any]:
    """What a stream's answer says, as a row."""
    row = describe(name, answer, top=1)
    alarm = answer.alarm.state if answer.alarm else None
    return row | {"unknown": answer.unknown, "learned": answer.learned, "alarm": alarm}


class Lines:
    """Answers, failures and alarms as JSON lines."""

    def live(self) -> Any:
        """Nothing is live."""
        return nullcontext()

    def show(self, name: str, answer: Answer) -> None:
        """One line per answer."""
        self._put(stream_row(name, answer))

    def fail(self, name: str, reason: str) -> None:
        """A line, and one for people."""
        self._put({"file": name, "error": reason})
        sys.stderr.write(f"purgegate: {reason}\n")

    def ring(self, alarm: Alarm) -> None:
        """The alarm as an event."""
        self._put({"event": "alarm", **alarm._asdict(), "stages": dict(alarm.stages)})

    def _put(self, row: dict[str, Any]) -> None:
        typer.echo(json.dumps(row))
        sys.stdout.flush()


class Board:
    """The last answers as a table that changes in place, with rate, shift and alarm above it."""

    def __init__(self) -> None:
        self.rows: deque[dict[str, Any]] = deque(maxlen=SHOWN)
        self.times: deque[float] = deque(maxlen=RECENT)
        self.notes: deque[str] = deque(maxlen=SHOWN)
        self._live = Live(refresh_per_second=4)
        self._alarm: Alarm | None = None

    def live(self) -> Live:
        """What draws the table while it is entered."""
        return self._live

    def show(self, name: str, answer: Answer) -> None:
        """Add an answer."""
        self.rows.append(stream_row(name, answer))
        self.times.append(time.monotonic())
        self._alarm = answer.alarm
        self._draw()

    def fail(self, name: str, reason: str) -> None:
        """Add a failure."""
        self.notes.append(reason)
        self._draw()

    def ring(self, alarm: Alarm) -> None:
        """Add the alarm."""
        self.notes.append(alarm.line())
        self._draw()

    def _draw(self) -> None:
        parts: list[Any] = [Text(self._head())] + [Text(note) for note in self.notes]
        self._live.update(Group(*parts, as_table(list(self.rows))) if self.rows else Group(*parts))

    def _head(self) -> str:
        span = self.times[-1] - self.times[0] if len(self.times) > 1 else 0.0
        rate = f"{(len(self.times) - 1) / span:.1f}" if span else "–"
        shifts = [row["shift"] for row in self.rows if row["shift"] is not None]
        shift = f"{sum(shifts) / len(shifts):.3f}" if shifts else "–"
        alarm = f"{self._alarm.state} ({self._alarm.evidence:+.2f})" if self._alarm else "off"
        return f"{rate} clouds/s   shift {shift}   alarm {alarm}"
