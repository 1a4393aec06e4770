"""A recipe run: its units over an executor, what is missing once, and the one file that is written."""

import logging
import socket
import uuid
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from purgegate.adapt.bftt3d import Remembering
from purgegate.cluster import report
from purgegate.costs import shipped_costs
from purgegate.io.results import Row, append_rows, key_of, lost_beside, note_lost, read_rows, writing
from purgegate.needs import KeptPrototypes
from purgegate.recipes import Recipe
from purgegate.tally import Tally
from purgegate.typing import StrPath
from purgegate.units import (
    Given,
    Unit,
    adapter_of,
    begin,
    described_model,
    facts_of,
    model_of,
    names_of,
    naming,
    options_of,
    place_of,
    read_domain,
    run_unit,
    units_of,
)
from purgegate.workers import AbsentError, Share, Watch, worker_map

Advance = Callable[[float], None]  # cells done, or the part of one

log = logging.getLogger("purgegate")


class Order(NamedTuple):
    """A unit for whatever process, with what its rows must be called and the run that sends it."""

    number: int
    unit: Unit
    names: list[Row]
    run: str


def run_recipe(
    recipe: Recipe,
    *,
    data: StrPath,
    out: StrPath,
    workers: int = 1,
    cluster: str | None = None,
    advance: Advance = lambda cells: None,
    remembering: Remembering = lambda done, total: None,
    joined: Callable[[int, str], None] = lambda workers, page: None,
) -> list[Row]:
    """Run what `out` does not hold yet, and return the recipe's rows.

    Rows are appended as soon as they are known; those of a continual stream when it ends. BFTT3D's prototypes
    are kept beside `out`. A unit whose workers died again and again is told in `results.lost.jsonl` beside
    it, and has no rows.
    """
    if Path(out).is_dir():
        raise ValueError(
            f"{out} is a folder: give a file for the rows, such as {Path(out) / 'results.jsonl'}"
        )
    with writing(out):
        orders = _orders(recipe, data=data, out=out, anywhere=cluster is not None)
        known = {key_of(row): row for row in read_rows(out)}
        pending = [order for order in orders if any(key_of(row) not in known for row in order.names)]
        advance(sum(len(each.names) for each in orders) - sum(len(each.names) for each in pending))
        _prepare([order.unit for order in pending], out=out, remembering=remembering)
        if cluster or workers > 1:
            pending.sort(key=_longest_of_a_seed_first)
        tally = Tally({order.number: len(order.names) for order in pending}, advance)
        watch = Watch(joined, tally.hear, lambda order, reason: _give_up(order, reason, known, out=out))
        with worker_map(workers, cluster=cluster, ordered=False, watch=watch) as run_all:
            for number, rows in run_all(run_order, pending, provide=Parcels()):
                new = [row for row in rows if key_of(row) not in known]
                append_rows(out, new)
                known |= {key_of(row): row for row in new}
                tally.finish(number)
    named = [key_of(row) for order in orders for row in order.names]
    return [known[key] for key in named if key in known]


def _orders(recipe: Recipe, *, data: StrPath, out: StrPath, anywhere: bool) -> list[Order]:
    """All units of a recipe, with the names of their rows; a worker elsewhere may be in another folder."""
    run = str(uuid.uuid4())
    begin(run)
    data, out = (str(Path(path).absolute()) if anywhere else str(path) for path in (data, out))
    units = units_of(recipe, data=data, out=out)
    return [Order(number, unit, names_of(unit), run) for number, unit in enumerate(units)]


def _longest_of_a_seed_first(order: Order) -> tuple[int, float]:
    """Where a unit stands in the line: one that is long and begun last would keep all workers waiting.

    How long a method takes that no row tells of is not known, so that it is begun first.
    """
    unit = order.unit
    cost = shipped_costs().per_cloud(unit.method, order.names[0]["weights"])
    clouds = sum(row["total"] for row in order.names)
    return unit.recipe.seeds.index(unit.settings.seed), -inf if cost is None else -cost * clouds


def _prepare(units: list[Unit], *, out: StrPath, remembering: Remembering) -> None:
    """Do before the first unit what would stop a later one, or is made with all threads."""
    _check_batches(units)
    Path(out).open("ab").close()  # before the work, so that none is lost to a file that cannot be written
    lost_beside(out).unlink(missing_ok=True)
    for adapter in {adapter_of(unit) for unit in units}:
        if hasattr(adapter, "get_ready"):
            adapter.get_ready(remembering)  # made here, with all threads; workers read it


def _check_batches(units: list[Unit]) -> None:
    """Refuse before the first cell what would stop a run of hours at its turn."""
    for unit in units:
        adapter = adapter_of(unit)
        least = getattr(adapter, "least_batch", 1)
        if unit.settings.batch < least:
            with naming(unit):
                raise ValueError(
                    f"norm='{adapter.norm}' needs a batch of at least {least}: give others in `batches`"
                )


def _give_up(order: Order, reason: str, known: dict[str, Row], *, out: StrPath) -> None:
    """Note a unit whose workers died again and again; it is run again by the same command."""
    note_lost(out, [row for row in order.names if key_of(row) not in known], reason)
    unit = order.unit
    on = ", ".join(f"{corruption} {severity}" for corruption, severity in unit.domains)
    log.warning("%s with %s on %s is given up: %s", unit.method, unit.weights, on, reason)


def run_order(order: Order, given: Given | None = None) -> tuple[int, list[Row]]:
    """Run a unit where everything is as where it was sent from, or was sent along; its number and rows."""
    begin(order.run)
    if given is None:
        _check_here(order)
    done, cells = 0, len(order.names)
    total = sum(row["total"] for row in order.names)

    def tell(clouds: int) -> None:
        nonlocal done
        done += clouds
        report((order.number, cells * done / total))

    return order.number, run_unit(order.unit, given, advance=tell)


def _check_here(order: Order) -> None:
    """Refuse other weights than the sender's; what else is missing or differs has to be sent."""
    here, unit = socket.gethostname(), order.unit
    try:
        own = described_model(unit.weights, unit.recipe.precision)["fingerprint"]
        if own != (wanted := order.names[0]["fingerprint"]):
            raise ValueError(
                f"the worker on {here} has other weights under the name {unit.weights} (fingerprint {own}, "
                f"but {wanted} is wanted): copy it there, or remove it, and name a model of your own that "
                "begins at random as path@file"
            )
        names, ready = names_of(unit), getattr(adapter_of(unit), "is_ready", lambda: True)()
    except OSError as error:
        raise AbsentError(f"{here}: {error}") from error
    if [key_of(row) for row in names] != [key_of(row) for row in order.names]:
        raise AbsentError(f"{here} has other data in {unit.data}")
    if not ready:  # workers make nothing, and write nothing
        raise AbsentError(f"{here} lacks the prototypes of {unit.recipe.source}")


class Parcels:
    """What units need, for workers that do not see the files; each thing is shared once a run."""

    def __init__(self) -> None:
        self._shared: dict[Any, Any] = {}

    def __call__(self, order: Order, share: Share) -> Given:
        """What one unit needs, as what stands for it."""
        unit, place = order.unit, place_of(order.unit)

        def once(make: Callable[..., Any], *arguments: Any, key: Any = None) -> Any:
            key = make, key or arguments
            if key not in self._shared:
                self._shared[key] = share(make(*arguments))
            return self._shared[key]

        return Given(
            once(model_of, unit.weights, unit.recipe.precision),
            once(_options_to_send, unit, key=(unit.method, str(unit.options), unit.weights)),
            facts_of(unit),
            [once(read_domain, place, *each) for each in unit.domains],
        )


def _options_to_send(unit: Unit) -> dict[str, Any]:
    """Options of a method that need no file."""
    options = options_of(unit)
    kept = isinstance(options.get("source"), KeptPrototypes)
    return options | ({"source": adapter_of(unit).known_source()} if kept else {})
