"""A recipe run: every method meets every domain, in whatever process; one row a cell."""

import itertools
import logging
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from purgegate.adapt import create_adapter, find_method
from purgegate.adapt.bftt3d import Remembering
from purgegate.cluster import report
from purgegate.costs import shipped_costs
from purgegate.evaluate import (
    Domain,
    Settings,
    describe_domain,
    describe_model,
    device_of,
    evaluate,
    mix,
    name_adapter,
    name_rows,
)
from purgegate.io.datasets import load_corrupted, load_dataset
from purgegate.io.labelled import Dataset
from purgegate.io.results import Row, append_rows, key_of, lost_beside, note_lost, read_rows, writing
from purgegate.memory import keep_freed_memory
from purgegate.needs import KeptPrototypes, load_model, load_statistics, supply
from purgegate.recipes import PARTS, Recipe, domains_of, runs_of, settings_of, with_severity
from purgegate.tally import Tally
from purgegate.typing import StrPath
from purgegate.version import __version__
from purgegate.workers import AbsentError, Share, Watch, worker_map

Advance = Callable[[float], None]  # cells done, or the part of one

log = logging.getLogger("purgegate")

_warm: set[tuple[str, str]] = set()  # methods that have answered in this process, with their weights


class Unit(NamedTuple):
    """One method over domains that depend on each other: one domain, or all of a continual stream."""

    method: str
    options: dict[str, Any]
    weights: str
    settings: Settings
    domains: tuple[tuple[str, int], ...]
    recipe: Recipe
    data: str
    out: str


class Given(NamedTuple):
    """All that a unit needs, read from files where it is run or sent there."""

    model: Any
    options: dict[str, Any]  # with what the method is fed with
    facts: Row
    domains: list[Domain]


class Order(NamedTuple):
    """A unit for whatever process, with what its rows must be called and who sends it."""

    number: int
    unit: Unit
    names: list[Row]
    run: str
    version: str = __version__


class Place(NamedTuple):
    """Where the domains of a recipe come from."""

    folder: str
    dataset: str
    clean: str | None
    part: str
    subset: int | None
    mixed: tuple[str, ...]  # corruptions that make up the one called "mixed"
    points: int
    padding: str


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
    run = str(uuid.uuid4())
    _begin(run)
    # A worker elsewhere may be in another folder.
    data, beside = (str(Path(path).absolute()) if cluster else str(path) for path in (data, out))
    units = list(units_of(recipe, data=data, out=beside))
    with writing(out):
        orders = [Order(number, unit, names_of(unit), run) for number, unit in enumerate(units)]
        known = {key_of(row): row for row in read_rows(out)}
        pending = [order for order in orders if any(key_of(row) not in known for row in order.names)]
        advance(sum(len(each.names) for each in orders) - sum(len(each.names) for each in pending))
        _prepare([order.unit for order in pending], out=out, remembering=remembering)
        if cluster or workers > 1:
            pending.sort(key=_longest_of_a_seed_first)
        tally = Tally({order.number: len(order.names) for order in pending}, advance)
        watch = Watch(joined, tally.hear, lambda order, reason: _give_up(order, reason, out=out))
        with worker_map(workers, cluster=cluster, ordered=False, watch=watch) as run_all:
            for number, rows in run_all(run_order, pending, provide=Parcels()):
                new = [row for row in rows if key_of(row) not in known]
                append_rows(out, new)
                known |= {key_of(row): row for row in new}
                tally.finish(number)
    named = [key_of(row) for order in orders for row in order.names]
    return [known[key] for key in named if key in known]


def _longest_of_a_seed_first(order: Order) -> tuple[int, float]:
    """Where a unit stands in the line: one that is long and begun last would keep all workers waiting."""
    unit = order.unit
    cost = shipped_costs().per_cloud(unit.method, order.names[0]["weights"]) or 0.0
    return unit.recipe.seeds.index(unit.settings.seed), -cost * sum(row["total"] for row in order.names)


def _prepare(units: list[Unit], *, out: StrPath, remembering: Remembering) -> None:
    """Do before the first unit what would stop a later one, or is made with all threads."""
    _check_batches(units)
    Path(out).open("ab").close()  # before the work, so that none is lost to a file that cannot be written
    lost_beside(out).unlink(missing_ok=True)
    for adapter in {_named(unit) for unit in units}:
        if hasattr(adapter, "get_ready"):
            adapter.get_ready(remembering)  # made here, with all threads; workers read it


def _give_up(order: Order, reason: str, *, out: StrPath) -> None:
    """Note a unit whose workers died again and again; it is run again by the same command."""
    note_lost(out, order.names, reason)
    unit = order.unit
    on = ", ".join(f"{corruption} {severity}" for corruption, severity in unit.domains)
    log.warning("%s with %s on %s is given up: %s", unit.method, unit.weights, on, reason)


@lru_cache(maxsize=1)
def _begin(run: str) -> None:
    """Forget what an earlier run read in this process: files may have changed since."""
    for read in (_domain, _count, _described_domain, _model, _described, _kept, load_statistics):
        read.cache_clear()
    _named_adapters.clear()


def units_of(recipe: Recipe, *, data: str, out: str = "results.jsonl") -> Iterator[Unit]:
    """The grid of a recipe, seeds × weights × methods × batch sizes × domains.

    Seeds come outermost, so that a run that is broken off has whole tables of the first ones.
    """
    domains = domains_of(recipe)
    streams = [tuple(domains)] if recipe.reset == "never" else [(each,) for each in domains]
    for seed, weights in itertools.product(recipe.seeds, recipe.weights):
        for method, options, batches in runs_of(recipe):
            for batch, stream in itertools.product(batches, streams):
                settings = settings_of(recipe, batch=batch, seed=seed)
                yield Unit(method, options, weights, settings, stream, recipe, data, out)


def names_of(unit: Unit) -> list[Row]:
    """What each row of a unit will say of itself before it is run."""
    return name_rows(_facts(unit), unit.settings, [_described_domain(_place(unit), *d) for d in unit.domains])


def run_order(order: Order, given: Given | None = None) -> tuple[int, list[Row]]:
    """Run a unit where everything is as where it was sent from, or was sent along; its number and rows."""
    if order.version != __version__:
        raise ValueError(
            f"the worker on {socket.gethostname()} has purgegate {__version__}, but {order.version} is wanted"
            ": install that there"
        )
    _begin(order.run)
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
    here = socket.gethostname()
    try:
        names = names_of(order.unit)
    except OSError as error:
        raise AbsentError(f"{here}: {error}") from error
    there, own = order.names[0], names[0]
    if own["fingerprint"] != there["fingerprint"]:
        raise ValueError(
            f"the worker on {here} has other weights under the name {order.unit.weights} (fingerprint "
            f"{own['fingerprint']}, but {there['fingerprint']} is wanted): copy it there, or remove it, "
            "and name a model of your own that begins at random as path@file"
        )
    if [key_of(row) for row in names] != [key_of(row) for row in order.names]:
        raise AbsentError(f"{here} has other data in {order.unit.data}")


def run_unit(
    unit: Unit, given: Given | None = None, advance: Callable[[int], None] = lambda clouds: None
) -> list[Row]:
    """Run one unit, in whatever process."""
    keep_freed_memory()
    given = given or _gather(unit)
    with _naming(unit, on=", ".join(corruption for corruption, _ in unit.domains)):
        adapter = _make(unit, given.model, given.options)
        _warm_up(adapter, unit, device_of(given.model))
        return evaluate(adapter, given.domains, settings=unit.settings, facts=given.facts, advance=advance)


def _gather(unit: Unit) -> Given:
    """What a unit needs, from files."""
    domains = [_domain(_place(unit), *each) for each in unit.domains]
    with _naming(unit):
        return Given(_model(unit.weights, unit.recipe.precision), _options(unit), _facts(unit), domains)


class Parcels:
    """What units need, for workers that do not see the files; each thing is shared once a run."""

    def __init__(self) -> None:
        self._shared: dict[Any, Any] = {}

    def __call__(self, order: Order, share: Share) -> Given:
        """What one unit needs, as what stands for it."""
        unit, place = order.unit, _place(order.unit)

        def once(make: Callable[..., Any], *arguments: Any, key: Any = None) -> Any:
            key = make, key or arguments
            if key not in self._shared:
                self._shared[key] = share(make(*arguments))
            return self._shared[key]

        return Given(
            once(_model, unit.weights, unit.recipe.precision),
            once(_options_to_send, unit, key=(unit.method, str(unit.options), unit.weights)),
            _facts(unit),
            [once(_domain, place, *each) for each in unit.domains],
        )


def _options_to_send(unit: Unit) -> dict[str, Any]:
    """Options of a method that need no file."""
    options = _options(unit)
    kept = isinstance(options.get("source"), KeptPrototypes)
    return options | ({"source": _named(unit).known_source()} if kept else {})


def _options(unit: Unit) -> dict[str, Any]:
    source = _prototypes(unit) if unit.recipe.source else None
    return supply(unit.method, unit.options, weights=unit.weights, source=source)


def _make(unit: Unit, model: Any, options: dict[str, Any]) -> Any:
    seeded = "seed" in find_method(unit.method).options  # a person's own method may draw nothing
    return create_adapter(unit.method, model, **options, **({"seed": unit.settings.seed} if seeded else {}))


def _adapter(unit: Unit) -> Any:
    return _make(unit, _model(unit.weights, unit.recipe.precision), _options(unit))


def _check_batches(units: list[Unit]) -> None:
    """Refuse before the first cell what would stop a run of hours at its turn."""
    for unit in units:
        adapter = _named(unit)
        least = getattr(adapter, "least_batch", 1)
        if unit.settings.batch < least:
            with _naming(unit):
                raise ValueError(
                    f"norm='{adapter.norm}' needs a batch of at least {least}: give others in `batches`"
                )


_named_adapters: dict[tuple[str, str, str], Any] = {}


def _named(unit: Unit) -> Any:
    """The unit's method, made once for all its cells and seeds, for what it says of itself."""
    key = unit.method, str(unit.options), unit.weights
    if key not in _named_adapters:
        with _naming(unit):
            first = unit._replace(settings=unit.settings._replace(seed=0))
            _named_adapters[key] = _adapter(first)
    return _named_adapters[key]


@contextmanager
def _naming(unit: Unit, *, on: str = "") -> Iterator[None]:
    """Have an error tell whose it is."""
    try:
        yield
    except (ValueError, TypeError) as error:
        options = f" {unit.options}" if unit.options else ""
        named = f"{unit.method}{options} with {unit.weights}{on and f' on {on}'}"
        raise ValueError(f"{named}: {error}") from error


def stratified(label: np.ndarray, count: int) -> np.ndarray:
    """Indices of `count` clouds, every class by its share and in the data's order; always the same ones."""
    if count > len(label):
        raise ValueError(f"a subset must have at most all of the {len(label)} clouds; got {count}")
    order = np.argsort(label, kind="stable")
    places = np.floor((np.arange(count) + 0.5) * len(label) / count).astype(int)
    return np.sort(order[places])


def _facts(unit: Unit) -> Row:
    return {**name_adapter(_named(unit), seed=0), **_described(unit.weights, unit.recipe.precision)}


@cache
def _model(weights: str, precision: str) -> Any:
    return load_model(weights, precision=precision)


@cache
def _described(weights: str, precision: str) -> Row:
    return describe_model(_model(weights, precision))


def _warm_up(adapter: Any, unit: Unit, device: torch.device) -> None:
    """Have compiled code loaded before the clock runs, by two clouds once a process and method."""
    if (unit.method, unit.weights) not in _warm:
        two = torch.rand(2, unit.settings.points, 3, generator=torch.Generator().manual_seed(0))
        adapter(two.to(device))
        _warm.add((unit.method, unit.weights))


def _prototypes(unit: Unit) -> KeptPrototypes:
    points = getattr(_model(unit.weights, unit.recipe.precision), "points", 1024)
    path = Path(unit.out).with_suffix(f".prototypes{points}.npz")
    return _kept(str(unit.recipe.source), points, str(path))


@cache
def _kept(source: str, points: int, path: str) -> KeptPrototypes:
    return KeptPrototypes(source, points=points, path=path)


def _place(unit: Unit) -> Place:
    recipe = unit.recipe
    dataset = recipe.dataset if recipe.part == "all" else f"{recipe.dataset} ({recipe.part} half)"
    mixed = recipe.corruptions if recipe.mixed else ()
    return Place(
        unit.data, dataset, recipe.clean, recipe.part, recipe.subset, mixed, recipe.points, recipe.padding
    )


@lru_cache(maxsize=4)
def _domain(place: Place, corruption: str, severity: int) -> Domain:
    if corruption == "mixed":
        parts = [_domain(place, *each) for each in with_severity(place.mixed, severity)]
        return mix(parts, points=place.points, padding=place.padding)._replace(severity=severity)
    if corruption == "clean":
        found = load_dataset(str(place.clean))
    else:
        found = load_corrupted(place.folder, corruption, severity=severity)
    whole = len(found.label)
    points, label = found.points[PARTS[place.part]], found.label[PARTS[place.part]]
    if place.subset is not None:
        index = stratified(label, place.subset)
        points, label = points[index], label[index]
    found = Dataset(points, label, found.classes)
    return Domain(found, place.dataset, corruption, severity, whole)


def clouds_of(unit: Unit) -> list[int]:
    """How many clouds each domain of a unit has."""
    return [_count(_place(unit), *each) for each in unit.domains]


@cache
def _count(place: Place, corruption: str, severity: int) -> int:
    return len(_domain(place, corruption, severity).data.label)


@cache
def _described_domain(place: Place, corruption: str, severity: int) -> Row:
    return describe_domain(_domain(place, corruption, severity))
