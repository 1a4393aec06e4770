"""What a recipe would cost, before anything is run."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from purgegate.costs import Costs, seconds_on, shipped_rows
from purgegate.io.results import read_rows
from purgegate.typing import StrPath
from purgegate.units import Unit, clouds_of

WORKERS = (1, 16, 128)  # for how many the time is told, beside those that are asked for


class Planned(NamedTuple):
    """One unit that would be run: its cells and clouds, and the seconds expected, if a row tells them."""

    method: str
    cells: int
    clouds: int
    seconds: float | None


def plan_units(units: Iterable[Unit], costs: Sequence[StrPath]) -> list[Planned]:
    """What each unit would cost by the rows of files; for methods that they lack, by those of the package."""
    measured = Costs([row for path in costs for row in read_rows(path)])
    shipped = Costs(shipped_rows())
    planned = []
    for unit in units:
        clouds = sum(clouds_of(unit))
        names = unit.method, Path(unit.weights).name
        spent = measured.per_cloud(*names) or shipped.per_cloud(*names)
        planned.append(Planned(unit.method, len(unit.domains), clouds, spent and spent * clouds))
    return planned


def describe_plan(planned: Sequence[Planned], *, workers: int) -> str:
    """A line per method, and how long all takes on how many workers."""
    lines = [f"{'method':<16}{'cells':>8}{'clouds':>12}{'CPU hours':>12}"]
    for method in dict.fromkeys(unit.method for unit in planned):
        lines.append(_line(method, [unit for unit in planned if unit.method == method]))
    lines.append(_line("in all", planned))
    known = sorted((unit.seconds for unit in planned if unit.seconds is not None), reverse=True)
    if known:
        lines.append(f"the longest unit, which no number of workers shortens: {_hours(known[0])}")
        for count in sorted({*WORKERS, workers}):
            name = f"{count} worker{'s' * (count != 1)}"
            lines.append(f"on {name} of one thread: {_hours(seconds_on(count, known))}")
    if unknown := list(dict.fromkeys(unit.method for unit in planned if unit.seconds is None)):
        lines.append(
            f"not counted, for want of a row that tells their cost: {', '.join(unknown)}; run a few clouds "
            "of them (`subset = 64` in a recipe) and give the rows as --costs"
        )
    return "\n".join(lines) + "\n"


def _line(name: str, units: Sequence[Planned]) -> str:
    seconds = [unit.seconds for unit in units if unit.seconds is not None]
    hours = f"{sum(seconds) / 3600:.2f}" if seconds else "unknown"
    return f"{name:<16}{sum(u.cells for u in units):>8}{sum(u.clouds for u in units):>12}{hours:>12}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"
