"""How much of a run is done, in cells: whole units, and the parts of those that are at work."""

import threading
from collections.abc import Callable


class Tally:
    """Units by number, each with so many cells; `advance` is told of every step, forth or back.

    A unit that begins anew, because its worker died, takes back what it had.
    """

    def __init__(self, cells: dict[int, int], advance: Callable[[float], None]) -> None:
        self._left, self._advance = dict(cells), advance
        self._parts: dict[int, float] = {}
        self._lock = threading.Lock()  # reports come in another thread than results

    def hear(self, message: tuple[int, float]) -> None:
        """Take the report of a unit: its number, and how many of its cells are done."""
        number, cells = message
        with self._lock:
            if number in self._left:
                self._advance(cells - self._parts.get(number, 0.0))
                self._parts[number] = cells

    def finish(self, number: int) -> None:
        """Count all of a unit."""
        with self._lock:
            self._advance(self._left.pop(number) - self._parts.pop(number, 0.0))
