"""One unit of a recipe, in whatever process: what it is called, what it needs, and how it is run."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from purgegate.adapt import create_adapter, find_method
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
from purgegate.io.results import Row
from purgegate.memory import keep_freed_memory
from purgegate.needs import KeptPrototypes, load_model, load_statistics, supply
from purgegate.recipes import PARTS, Recipe, domains_of, runs_of, settings_of, with_severity

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


@lru_cache(maxsize=1)
def begin(run: str) -> None:
    """Forget what an earlier run read in this process: files may have changed since."""
    for read in (read_domain, _count, _described_domain, model_of, described_model, _kept, load_statistics):
        read.cache_clear()
    _named_adapters.clear()


def names_of(unit: Unit) -> list[Row]:
    """What each row of a unit will say of itself before it is run."""
    place = place_of(unit)
    return name_rows(
        facts_of(unit), unit.settings, [_described_domain(place, *each) for each in unit.domains]
    )


def run_unit(
    unit: Unit, given: Given | None = None, advance: Callable[[int], None] = lambda clouds: None
) -> list[Row]:
    """Run one unit, in whatever process."""
    keep_freed_memory()
    given = given or _gather(unit)
    with naming(unit, on=", ".join(corruption for corruption, _ in unit.domains)):
        adapter = _make(unit.method, given.model, given.options, seed=unit.settings.seed)
        _warm_up(adapter, unit, device_of(given.model))
        return evaluate(
            adapter,
            given.domains,
            settings=unit.settings,
            facts=given.facts,
            confusion=unit.recipe.confusion,
            advance=advance,
        )


def _gather(unit: Unit) -> Given:
    """What a unit needs, from files."""
    domains = [read_domain(place_of(unit), *each) for each in unit.domains]
    with naming(unit):
        return Given(model_of(unit.weights, unit.recipe.precision), options_of(unit), facts_of(unit), domains)


_named_adapters: dict[tuple[str, str, str], Any] = {}


def adapter_of(unit: Unit) -> Any:
    """The unit's method, made once for all its cells and seeds, for what it says of itself."""
    key = unit.method, str(unit.options), unit.weights
    if key not in _named_adapters:
        with naming(unit):
            model = model_of(unit.weights, unit.recipe.precision)
            _named_adapters[key] = _make(unit.method, model, options_of(unit), seed=0)
    return _named_adapters[key]


def options_of(unit: Unit) -> dict[str, Any]:
    """The options of a unit's method, with what it is fed with."""
    source = _prototypes(unit) if unit.recipe.source else None
    return supply(unit.method, unit.options, weights=unit.weights, source=source)


def _make(method: str, model: Any, options: dict[str, Any], *, seed: int) -> Any:
    seeded = "seed" in find_method(method).options  # a person's own method may draw nothing
    return create_adapter(method, model, **options, **({"seed": seed} if seeded else {}))


@contextmanager
def naming(unit: Unit, *, on: str = "") -> Iterator[None]:
    """Have an error tell whose it is."""
    try:
        yield
    except (ValueError, TypeError) as error:
        options = f" {unit.options}" if unit.options else ""
        named = f"{unit.method}{options} with {unit.weights}{on and f' on {on}'}"
        raise ValueError(f"{named}: {error}") from error


def facts_of(unit: Unit) -> Row:
    """What the rows of a unit say of its method and its model."""
    return {**name_adapter(adapter_of(unit), seed=0), **described_model(unit.weights, unit.recipe.precision)}


@cache
def model_of(weights: str, precision: str) -> Any:
    """A model, read once a run and process."""
    return load_model(weights, precision=precision)


@cache
def described_model(weights: str, precision: str) -> Row:
    """What rows say of a model."""
    return describe_model(model_of(weights, precision))


def _warm_up(adapter: Any, unit: Unit, device: torch.device) -> None:
    """Have compiled code loaded before the clock runs, by two clouds once a process and method."""
    if (unit.method, unit.weights) not in _warm:
        two = torch.rand(2, unit.settings.points, 3, generator=torch.Generator().manual_seed(0))
        adapter(two.to(device))
        _warm.add((unit.method, unit.weights))


def _prototypes(unit: Unit) -> KeptPrototypes:
    points = getattr(model_of(unit.weights, unit.recipe.precision), "points", 1024)
    path = Path(unit.out).with_suffix(f".prototypes{points}.npz")
    return _kept(str(unit.recipe.source), points, str(path))


@cache
def _kept(source: str, points: int, path: str) -> KeptPrototypes:
    return KeptPrototypes(source, points=points, path=path)


def place_of(unit: Unit) -> Place:
    """Where the domains of a unit come from."""
    recipe = unit.recipe
    dataset = recipe.dataset if recipe.part == "all" else f"{recipe.dataset} ({recipe.part} half)"
    mixed = recipe.corruptions if recipe.mixed else ()
    return Place(
        unit.data, dataset, recipe.clean, recipe.part, recipe.subset, mixed, recipe.points, recipe.padding
    )


@lru_cache(maxsize=4)
def read_domain(place: Place, corruption: str, severity: int) -> Domain:
    """The clouds of one corruption and severity, or of "clean" or "mixed"."""
    if corruption == "mixed":
        parts = [read_domain(place, *each) for each in with_severity(place.mixed, severity)]
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


def stratified(label: np.ndarray, count: int) -> np.ndarray:
    """Indices of `count` clouds, every class by its share and in the data's order; always the same ones."""
    if count > len(label):
        raise ValueError(f"a subset must have at most all of the {len(label)} clouds; got {count}")
    order = np.argsort(label, kind="stable")
    places = np.floor((np.arange(count) + 0.5) * len(label) / count).astype(int)
    return np.sort(order[places])


def clouds_of(unit: Unit) -> list[int]:
    """How many clouds each domain of a unit has."""
    return [_count(place_of(unit), *each) for each in unit.domains]


@cache
def _count(place: Place, corruption: str, severity: int) -> int:
    return len(read_domain(place, corruption, severity).data.label)


@cache
def _described_domain(place: Place, corruption: str, severity: int) -> Row:
    return describe_domain(read_domain(place, corruption, severity))
