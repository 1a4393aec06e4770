"""What a recipe would cost, before anything is run."""

from collections.abc import Iterable, Iterator, Sequence
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
    measured: bool  # with these weights; else with others, perhaps of another size


def plan_units(units: Iterable[Unit], costs: Sequence[StrPath]) -> list[Planned]:
    """What each unit would cost by the rows of files; for methods that they lack, by those of the package."""
    for path in costs:
        if not Path(path).is_file():
            raise FileNotFoundError(
                f"{path} is missing: give rows of `purgegate bench` as --costs, or nothing"
            )
    measured = Costs([row for path in costs for row in read_rows(path)])
    shipped = Costs(shipped_rows())
    planned = []
    for unit in units:
        clouds = sum(clouds_of(unit))
        names = unit.method, Path(unit.weights).name
        spent = measured.per_cloud(*names) or shipped.per_cloud(*names)
        own = measured.knows(*names) or shipped.knows(*names)
        planned.append(Planned(unit.method, len(unit.domains), clouds, spent and spent * clouds, own))
    return planned


def describe_plan(planned: Sequence[Planned], *, workers: int) -> str:
    """A line per method, and how long all takes on how many workers."""
    methods = list(dict.fromkeys(unit.method for unit in planned))
    width = max(len(name) for name in [*methods, "in all"]) + 2
    lines = [f"{'method':<{width}}{'cells':>8}{'clouds':>12}{'CPU hours':>12}"]
    for method in methods:
        lines.append(_line(f"{method:<{width}}", [unit for unit in planned if unit.method == method]))
    lines.append(_line(f"{'in all':<{width}}", planned))
    known = sorted((unit.seconds for unit in planned if unit.seconds is not None), reverse=True)
    if known:
        lines.append(f"the longest unit, which no number of workers shortens: {_duration(known[0])}")
        for count in sorted({*WORKERS, workers}):
            name = f"{count} worker{'s' * (count != 1)}"
            lines.append(f"on {name} of one thread: {_duration(seconds_on(count, known))}")
    return "\n".join([*lines, *_reservations(planned)]) + "\n"


def _reservations(planned: Sequence[Planned]) -> Iterator[str]:
    """What the figures do not say."""
    if others := _methods(unit for unit in planned if unit.seconds is not None and not unit.measured):
        yield (
            f"by rows of other weights, which may be of another size: {others}; give rows of these as --costs"
        )
    if unknown := _methods(unit for unit in planned if unit.seconds is None):
        yield (
            f"not counted, for want of a row that tells their cost: {unknown}; run a few clouds of them "
            "(`subset = 64` in a recipe) and give the rows as --costs"
        )


def _methods(units: Iterable[Planned]) -> str:
    return ", ".join(dict.fromkeys(unit.method for unit in units))


def _line(name: str, units: Sequence[Planned]) -> str:
    seconds = [unit.seconds for unit in units if unit.seconds is not None]
    hours = f"{sum(seconds) / 3600:.2f}" if seconds else "unknown"
    return f"{name}{sum(u.cells for u in units):>8}{sum(u.clouds for u in units):>12}{hours:>12}"


def _duration(seconds: float) -> str:
    for size, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} seconds"
