"""A recipe run: every method meets every domain, in whatever process; one row a cell."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from purgegate.adapt import METHODS, create_adapter
from purgegate.adapt.bftt3d import Memory, Remembering, remember_in
from purgegate.adapt.pointnn import PointNN
from purgegate.backbones.loading import default_device, load_backbone
from purgegate.evaluate import (
    Domain,
    Settings,
    describe_domain,
    describe_model,
    evaluate,
    mix,
    name_rows,
)
from purgegate.gate.statistics import SourceStatistics
from purgegate.io.datasets import load_corrupted, load_dataset
from purgegate.io.labelled import Dataset
from purgegate.io.results import Row, append_rows, key_of, read_rows
from purgegate.memory import keep_freed_memory
from purgegate.recipes import PARTS, Recipe, domains_of, runs_of, settings_of, with_severity
from purgegate.typing import StrPath
from purgegate.workers import worker_map

VARIANTS = ("a", "b")  # of the source statistics that come with weights

Advance = Callable[[int], None]

_memories: dict["Prototypes", Memory] = {}  # of this process
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


class Prototypes(NamedTuple):
    """What BFTT3D remembers of labelled clouds, and the file that keeps it."""

    source: str
    points: int
    path: str


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
    advance: Advance = lambda cells: None,
    remembering: Remembering = lambda done, total: None,
) -> list[Row]:
    """Run what `out` does not hold yet, and return the recipe's rows.

    Rows are appended as soon as they are known; those of a continual stream when it ends. BFTT3D's prototypes
    are kept beside `out`.
    """
    if Path(out).is_dir():
        raise ValueError(
            f"{out} is a folder: give a file for the rows, such as {Path(out) / 'results.jsonl'}"
        )
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    for read in (_domain, _described_domain, _model, _described, _statistics):
        read.cache_clear()  # files may have changed since an earlier run of this process
    _memories.clear()
    units = list(units_of(recipe, data=str(data), out=str(out)))
    named = [names_of(unit) for unit in units]
    known = {key_of(row): row for row in read_rows(out)}
    pending = [
        unit for unit, rows in zip(units, named, strict=True) if any(key_of(r) not in known for r in rows)
    ]
    advance(sum(len(unit.domains) for unit in units) - sum(len(unit.domains) for unit in pending))
    _check_methods(pending)
    Path(out).open("ab").close()  # before the work, lest it be lost
    remembered = {_prototypes(unit) for unit in pending if unit.method.startswith("bftt3d")}
    for each in remembered:
        _memory(each, remembering)  # made here, with all threads; workers read it
    with worker_map(workers, ordered=False) as run:
        for rows in run(run_unit, pending):
            new = [row for row in rows if key_of(row) not in known]
            append_rows(out, new)
            known |= {key_of(row): row for row in new}
            advance(len(rows))
    return [known[key_of(row)] for rows in named for row in rows]


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


def run_unit(unit: Unit) -> list[Row]:
    """Run one unit, in whatever process."""
    keep_freed_memory()
    domains = [_domain(_place(unit), *each) for each in unit.domains]
    with _naming(unit, on=", ".join(corruption for corruption, _ in unit.domains)):
        adapter = _adapter(unit)
        _warm_up(adapter, unit)
        return evaluate(adapter, domains, settings=unit.settings, facts=_facts(unit))


def _adapter(unit: Unit) -> Any:
    options = dict(unit.options)
    if name := _statistics_name(unit):
        options["statistics"] = _statistics(unit.weights, name)
    if unit.method.startswith("bftt3d"):
        options["source"] = _memory(_prototypes(unit))
    if isinstance(options.get("purge"), list):
        options["purge"] = tuple(options["purge"])
    return create_adapter(unit.method, _model(unit.weights), **options, seed=unit.settings.seed)


def _check_methods(units: list[Unit]) -> None:
    """Make each method once before the first cell, lest what it lacks stop a run of hours at its turn."""
    norms: dict[tuple[str, str, str], str | None] = {}
    for unit in units:
        key = unit.method, str(unit.options), unit.weights
        with _naming(unit):
            if key not in norms:
                norms[key] = _norm(unit)
            if norms[key] in ("batch", "survivors") and unit.settings.batch < 2:
                raise ValueError(f"norm='{norms[key]}' needs a batch of at least 2: give others in `batches`")


def _norm(unit: Unit) -> str | None:
    """Where a method takes BatchNorm's statistics; BFTT3D, whose prototypes take minutes, is not made."""
    if unit.method.startswith("bftt3d"):
        return unit.options.get("norm", inspect.signature(METHODS[unit.method]).parameters["norm"].default)
    adapter = _adapter(unit)
    return None if getattr(adapter, "duplicate", False) else getattr(adapter, "norm", None)


@contextmanager
def _naming(unit: Unit, *, on: str = "") -> Iterator[None]:
    """Have an error tell whose it is."""
    try:
        yield
    except (ValueError, TypeError) as error:
        named = f"{unit.method} {unit.options or ''} with {unit.weights}{on and f' on {on}'}"
        raise ValueError(f"{named}: {error}") from error


def stratified(label: np.ndarray, count: int) -> np.ndarray:
    """Indices of `count` clouds, every class by its share and in the data's order; always the same ones."""
    if count >= len(label):
        return np.arange(len(label))
    order = np.argsort(label, kind="stable")
    places = np.floor((np.arange(count) + 0.5) * len(label) / count).astype(int)
    return np.sort(order[places])


def _facts(unit: Unit) -> Row:
    made: Row = {"source": unit.recipe.source} if unit.method.startswith("bftt3d") else {}
    name = _statistics_name(unit)
    found = _statistics(unit.weights, name) if name else None  # missing ones are told before the first cell
    if found and name not in VARIANTS:
        made["statistics"] = found.digest()  # of a file the name says little
    return {"method": unit.method, "options": unit.options, **made, **_described(unit.weights)}


@cache
def _model(weights: str) -> Any:
    return load_backbone(weights).to(default_device())


@cache
def _described(weights: str) -> Row:
    return describe_model(_model(weights))


def _statistics_name(unit: Unit) -> str | None:
    """Which source statistics a method wants: a variant, or a file."""
    return unit.options.get("statistics", "b" if unit.method == "pg_sp" else None)


@cache
def _statistics(weights: str, name: str) -> SourceStatistics:
    """The statistics of a variant that came with the weights, or of a file."""
    if name in VARIANTS:
        return SourceStatistics.from_weights(weights, variant=name)
    return SourceStatistics.load(name)


def _warm_up(adapter: Any, unit: Unit) -> None:
    """Have compiled code loaded before the clock runs, by two clouds once a process and method."""
    if (unit.method, unit.weights) not in _warm:
        two = torch.rand(2, unit.settings.points, 3, generator=torch.Generator().manual_seed(0))
        adapter(two.to(next(_model(unit.weights).parameters()).device))
        _warm.add((unit.method, unit.weights))


def _prototypes(unit: Unit) -> Prototypes:
    points = _model(unit.weights).points
    path = Path(unit.out).with_suffix(f".prototypes{points}.npz")
    return Prototypes(str(unit.recipe.source), points, str(path))


def _memory(of: Prototypes, advance: Remembering = lambda done, total: None) -> Memory:
    """Prototypes of the source clouds, which take minutes to make: once for all cells, beside the rows."""
    if of not in _memories:
        source = load_dataset(of.source, split="train")
        encoder = PointNN(points=of.points)
        _memories[of] = remember_in(of.path, source, encoder=encoder, advance=advance)
    return _memories[of]


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


@cache
def _described_domain(place: Place, corruption: str, severity: int) -> Row:
    return describe_domain(_domain(place, corruption, severity))
