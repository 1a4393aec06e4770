"""Where the answers to a stream are shown: as a table in the terminal, or as JSON lines."""

import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from purgegate.alarm import Alarm
from purgegate.answers import Answer
from purgegate.cli.output import as_table
from purgegate.cli.predict import describe
from purgegate.figures.timeline import Answered

SHOWN = 15  # answers in the live table
RECENT = 50  # answers over which the rate is taken


def stream_row(name: str, answer: Answer) -> dict[str, Any]:
    """What a stream's answer says, as a row."""
    row = describe(name, answer, top=1)
    alarm = answer.alarm.state if answer.alarm else None
    return row | {"unknown": answer.unknown, "learned": answer.learned, "alarm": alarm}


def short_row(name: str, answer: Answer) -> dict[str, Any]:
    """The same as far as a narrow terminal has room; what is usual is left out."""
    row = {key: value for key, value in describe(Path(name).name, answer, top=1).items() if key != "unknown"}
    notes = {"unknown": answer.unknown, "not learned": answer.learned is False}
    return row | {"notes": ", ".join(note for note, holds in notes.items() if holds)}


class Lines:
    """Answers, failures and alarms as JSON lines."""

    def live(self) -> Any:
        """Nothing is live."""
        return nullcontext()

    def show(self, answered: Answered) -> None:
        """One line per answer."""
        self._put(stream_row(answered.name, answered.answer))

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

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw the table as long as it lasts."""
        with self._live:
            yield
        if not self._live.console.is_terminal:
            self._live.console.line()  # else the table's last line has no end

    def show(self, answered: Answered) -> None:
        """Add an answer."""
        self.rows.append(short_row(answered.name, answered.answer))
        self.times.append(time.monotonic())
        self._alarm = answered.answer.alarm
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
