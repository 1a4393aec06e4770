"""A recipe run: every method meets every domain, in whatever process; one row a cell."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from purgegate.adapt import create_adapter, find_method
from purgegate.adapt.bftt3d import Remembering
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
from purgegate.io.results import Row, append_rows, key_of, read_rows, writing
from purgegate.memory import keep_freed_memory
from purgegate.needs import KeptPrototypes, load_model, load_statistics, supply
from purgegate.recipes import PARTS, Recipe, domains_of, runs_of, settings_of, with_severity
from purgegate.typing import StrPath
from purgegate.workers import worker_map

Advance = Callable[[int], None]

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
    for read in (_domain, _described_domain, _model, _described, _kept, load_statistics):
        read.cache_clear()  # files may have changed since an earlier run of this process
    _named_adapters.clear()
    units = list(units_of(recipe, data=str(data), out=str(out)))
    with writing(out):
        return _run_missing(units, out=out, workers=workers, advance=advance, remembering=remembering)


def _run_missing(
    units: list[Unit], *, out: StrPath, workers: int, advance: Advance, remembering: Remembering
) -> list[Row]:
    """Run the units that a file of rows lacks, add their rows to it, and return those of all."""
    named = [names_of(unit) for unit in units]
    known = {key_of(row): row for row in read_rows(out)}
    pending = [
        unit for unit, rows in zip(units, named, strict=True) if any(key_of(r) not in known for r in rows)
    ]
    advance(sum(len(unit.domains) for unit in units) - sum(len(unit.domains) for unit in pending))
    _check_batches(pending)
    Path(out).open("ab").close()  # before the work, so that none is lost to a file that cannot be written
    for each in {_prototypes(unit) for unit in pending if "source" in find_method(unit.method).needs}:
        each.memory(remembering)  # made here, with all threads; workers read it
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
    source = _prototypes(unit) if unit.recipe.source else None
    options = supply(unit.method, unit.options, weights=unit.weights, source=source)
    if "seed" in find_method(unit.method).options:  # a person's own method may draw nothing
        options["seed"] = unit.settings.seed
    return create_adapter(unit.method, _model(unit.weights), **options)


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
    return {**name_adapter(_named(unit), seed=0), **_described(unit.weights)}


@cache
def _model(weights: str) -> Any:
    return load_model(weights)


@cache
def _described(weights: str) -> Row:
    return describe_model(_model(weights))


def _warm_up(adapter: Any, unit: Unit) -> None:
    """Have compiled code loaded before the clock runs, by two clouds once a process and method."""
    if (unit.method, unit.weights) not in _warm:
        two = torch.rand(2, unit.settings.points, 3, generator=torch.Generator().manual_seed(0))
        adapter(two.to(device_of(_model(unit.weights))))
        _warm.add((unit.method, unit.weights))


def _prototypes(unit: Unit) -> KeptPrototypes:
    points = getattr(_model(unit.weights), "points", 1024)
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


@cache
def _described_domain(place: Place, corruption: str, severity: int) -> Row:
    return describe_domain(_domain(place, corruption, severity))
