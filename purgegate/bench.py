"""Recipes: which methods meet which domains, with which weights and seeds; one row a cell."""

import inspect
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purgegate.adapt import METHODS, create_adapter
from purgegate.adapt.bftt3d import Memory, remember
from purgegate.adapt.pointnn import PointNN
from purgegate.backbones.loading import default_device, load_backbone
from purgegate.evaluate import (
    Domain,
    Settings,
    check_settings,
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
from purgegate.io.workers import worker_map
from purgegate.memory import keep_freed_memory
from purgegate.points.corruptions import CORRUPTIONS
from purgegate.typing import StrPath

Advance = Callable[[int], None]

METHOD_KEYS: dict[str, type] = {"name": str, "options": dict, "each": dict, "batches": list}
PARTS = {"all": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}


@dataclass(frozen=True)
class Recipe:
    """What a table or figure is made of; every key of a recipe file is a field here."""

    title: str
    dataset: str  # its name in the rows
    # {"name": …, "options": {…}, "each": {option: [values]}, "batches": [sizes other than the recipe's]}
    methods: tuple[dict[str, Any], ...]
    weights: tuple[str, ...]
    corruptions: tuple[str, ...] = tuple(CORRUPTIONS)
    severities: tuple[int, ...] = (5,)
    seeds: tuple[int, ...] = (0,)
    batches: tuple[int, ...] = (32,)
    points: int = 1024
    reset: str = "domain"
    order: str = "shuffled"
    padding: str = "repeat"
    part: str = "all"  # "even" or "odd" places only: choose on one half, confirm on the other
    subset: int | None = None  # this many clouds of that part, stratified by class
    clean: str | None = None  # data set for the corruption "clean", by name or path
    source: str | None = None  # labelled source clouds, for methods that keep prototypes
    mixed: bool = False  # all corruptions of a severity as one shuffled stream


# What the keys of a recipe file must be; a list tells of what kind each of its values is.
KINDS: dict[str, type | list[type]] = {
    **dict.fromkeys(("title", "dataset", "reset", "order", "padding", "part", "clean", "source"), str),
    **{name: [str] for name in ("weights", "corruptions")},
    **{name: [int] for name in ("severities", "seeds", "batches")},
    "methods": [str, dict],
    "points": int,
    "subset": int,
    "mixed": bool,
}
NAMES_OF_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    dict: "a table, in { }",
    list: "a list, in [ ]",
}


class Unit(NamedTuple):
    """One method over domains that depend on each other: one domain, or all of a continual stream."""

    method: str
    options: dict[str, Any]
    weights: str
    settings: Settings
    domains: tuple[tuple[str, int], ...]
    recipe: Recipe
    data: str


class Place(NamedTuple):
    """Where the domains of a recipe come from."""

    folder: str
    dataset: str
    clean: str | None
    part: str
    subset: int | None
    mixed: tuple[str, ...]  # corruptions that make up the one called "mixed"
    points: int


def read_recipe(path: StrPath) -> Recipe:
    """Read and check a recipe file; an unknown key or name is an error that lists the choices."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: give the path of a recipe (*.toml)")
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML: {error}") from error
    known = {each.name for each in fields(Recipe)}
    needed = {each.name for each in fields(Recipe) if each.default is MISSING}
    _refuse(path, "key", found.keys() - known, sorted(known))
    if missing := needed - found.keys():
        raise ValueError(f"{path} lacks {', '.join(sorted(missing))}")
    if found.get("corruptions") == ["all"]:
        del found["corruptions"]
    for name, value in found.items():
        _check_kind(path, name, value)
    listed = [name for name, kind in KINDS.items() if isinstance(kind, list)]
    given: dict[str, Any] = {name: tuple(v) if name in listed else v for name, v in found.items()}
    given["methods"] = tuple({"name": each} if isinstance(each, str) else each for each in given["methods"])
    recipe = Recipe(**given)
    _check_methods(path, recipe)
    _check_domains(path, recipe)
    return recipe


def _check_kind(path: Path, name: str, value: Any) -> None:
    """Refuse a value of another kind than its key has."""
    kind = KINDS[name]
    if isinstance(kind, list):
        right = isinstance(value, list) and all(type(each) in kind for each in value)
        wanted = f"a list, in [ ], of {' or '.join(NAMES_OF_KINDS[each] for each in kind)}"
    else:
        right, wanted = type(value) is kind, NAMES_OF_KINDS[kind]
    if not right:
        raise ValueError(f"{path} must give {wanted} for {name}; got {value!r}")


def _check_methods(path: Path, recipe: Recipe) -> None:
    """Refuse before the first cell what would stop a later one."""
    _refuse(path, "method", {each.get("name", "") for each in recipe.methods} - METHODS.keys(), METHODS)
    for method in recipe.methods:
        _refuse(path, "key of a method", method.keys() - METHOD_KEYS.keys(), METHOD_KEYS)
        for key, kind in METHOD_KEYS.items():
            if key in method and type(method[key]) is not kind:
                raise ValueError(f"{path} must give {NAMES_OF_KINDS[kind]} for {key} of {method['name']}")
        if any(type(values) is not list for values in method.get("each", {}).values()):
            raise ValueError(f"{path} must give a list of values for what {method['name']} has in `each`")
        known = inspect.signature(METHODS[method["name"]]).parameters.keys() - {"model", "seed"}
        given = {*method.get("options", {}), *method.get("each", {})}
        _refuse(path, f"option of {method['name']}", given - known, sorted(known))
        if len(method.get("each", {})) > 1:
            raise ValueError(f"{path} may sweep one option of {method['name']} at a time, in `each`")
        if method["name"].startswith("bftt3d") and recipe.source is None:
            raise ValueError(f"{path} has bftt3d, which needs labelled source clouds: give `source`")


def _check_domains(path: Path, recipe: Recipe) -> None:
    _refuse(path, "part", {recipe.part} - PARTS.keys(), PARTS)
    _refuse(path, "corruption", set(recipe.corruptions) - {*CORRUPTIONS, "clean"}, (*CORRUPTIONS, "clean"))
    if recipe.subset is not None and recipe.subset < 1:
        raise ValueError(f"{path} must have a subset of at least 1 cloud; got {recipe.subset}")
    if "clean" in recipe.corruptions and recipe.clean is None:
        raise ValueError(f"{path} has the corruption 'clean', which needs a data set: give `clean`")
    units = list(units_of(recipe, data=""))
    if not units:
        raise ValueError(f"{path} has nothing to run: no method, weights, seed, or severity that exists")
    for settings in dict.fromkeys(unit.settings for unit in units):
        check_settings(settings)


def run_recipe(
    recipe: Recipe,
    *,
    data: StrPath,
    out: StrPath,
    workers: int = 1,
    advance: Advance = lambda cells: None,
) -> list[Row]:
    """Run what `out` does not hold yet, and return the recipe's rows; rows are appended as soon as known."""
    if Path(out).is_dir():
        raise ValueError(
            f"{out} is a folder: give a file for the rows, such as {Path(out) / 'results.jsonl'}"
        )
    units = list(units_of(recipe, data=str(data)))
    named = [names_of(unit) for unit in units]
    known = {key_of(row): row for row in read_rows(out)}
    pending = [
        unit for unit, rows in zip(units, named, strict=True) if any(key_of(r) not in known for r in rows)
    ]
    advance(sum(len(unit.domains) for unit in units) - sum(len(unit.domains) for unit in pending))
    with worker_map(workers, ordered=False) as run:
        for rows in run(run_unit, pending):
            new = [row for row in rows if key_of(row) not in known]
            append_rows(out, new)
            known |= {key_of(row): row for row in new}
            advance(len(rows))
    return [known[key_of(row)] for rows in named for row in rows]


def units_of(recipe: Recipe, *, data: str) -> Iterator[Unit]:
    """The grid of a recipe, seeds × weights × methods × batch sizes × domains.

    Seeds come outermost, so that a run that is broken off has whole tables of the first ones.
    """
    domains = [(name, severity) for severity in recipe.severities for name in recipe.corruptions]
    domains = [("clean", 0) if name == "clean" else (name, severity) for name, severity in domains]
    # A view number is no severity: occlusion and lidar have fewer.
    domains = [each for each in dict.fromkeys(domains) if each[0] == "clean" or _exists(*each)]
    if recipe.mixed:
        domains = [("mixed", severity) for severity in recipe.severities]
    streams = [tuple(domains)] if recipe.reset == "never" else [(each,) for each in domains]
    streams = [stream for stream in streams if stream]
    for seed in recipe.seeds:
        for weights in recipe.weights:
            for method, options, batches in _runs(recipe):
                for batch in batches:
                    settings = Settings(
                        batch, recipe.points, recipe.reset, recipe.order, seed, recipe.padding
                    )
                    for stream in streams:
                        yield Unit(method, options, weights, settings, stream, recipe, data)


def names_of(unit: Unit) -> list[Row]:
    """What each row of a unit will say of itself before it is run."""
    return name_rows(_facts(unit), unit.settings, [_described_domain(_place(unit), *d) for d in unit.domains])


def run_unit(unit: Unit) -> list[Row]:
    """Run one unit, in whatever process."""
    keep_freed_memory()
    options = dict(unit.options)
    if unit.method == "pg_sp":
        options["statistics"] = _statistics(unit.weights, options.get("statistics", "b"))
    if unit.method.startswith("bftt3d"):
        options["source"] = _memory(unit.recipe.source, _model(unit.weights).points)
    if isinstance(options.get("purge"), list):
        options["purge"] = tuple(options["purge"])
    domains = [_domain(_place(unit), *each) for each in unit.domains]
    try:
        adapter = create_adapter(unit.method, _model(unit.weights), **options, seed=unit.settings.seed)
        return evaluate(adapter, domains, settings=unit.settings, facts=_facts(unit))
    except (ValueError, TypeError) as error:
        named = ", ".join(corruption for corruption, _ in unit.domains)
        raise ValueError(
            f"{unit.method} {unit.options or ''} with {unit.weights} on {named}: {error}"
        ) from error


def stratified(label: np.ndarray, count: int) -> np.ndarray:
    """Indices of `count` clouds, every class by its share and in the data's order; always the same ones."""
    if count >= len(label):
        return np.arange(len(label))
    order = np.argsort(label, kind="stable")
    places = np.floor((np.arange(count) + 0.5) * len(label) / count).astype(int)
    return np.sort(order[places])


def _runs(recipe: Recipe) -> Iterator[tuple[str, dict[str, Any], Sequence[int]]]:
    """Each method with its options and batch sizes; `each` gives one run for every value of an option."""
    for method in recipe.methods:
        options, batches = method.get("options", {}), method.get("batches", recipe.batches)
        swept = method.get("each", {})
        if not swept:
            yield method["name"], options, batches
        for option, values in swept.items():
            for value in values:
                yield method["name"], {**options, option: value}, batches


def _facts(unit: Unit) -> Row:
    source = {"source": unit.recipe.source} if unit.method.startswith("bftt3d") else {}
    return {"method": unit.method, "options": unit.options, **source, **_described(unit.weights)}


@cache
def _model(weights: str) -> Any:
    return load_backbone(weights).to(default_device())


@cache
def _described(weights: str) -> Row:
    return describe_model(_model(weights))


def _statistics(weights: str, name: str) -> SourceStatistics:
    """The statistics of a variant that came with the weights, or of a file."""
    if name in ("a", "b"):
        return SourceStatistics.from_weights(weights, variant=name)
    return SourceStatistics.load(name)


@cache
def _memory(source: str, points: int) -> Memory:
    """Prototypes of the source clouds, which take minutes to make: once for all cells of a process."""
    return remember(*load_dataset(source, split="train")[:2], encoder=PointNN(points=points))


def _place(unit: Unit) -> Place:
    recipe = unit.recipe
    dataset = recipe.dataset if recipe.part == "all" else f"{recipe.dataset} ({recipe.part} half)"
    mixed = recipe.corruptions if recipe.mixed else ()
    return Place(unit.data, dataset, recipe.clean, recipe.part, recipe.subset, mixed, recipe.points)


@lru_cache(maxsize=4)
def _domain(place: Place, corruption: str, severity: int) -> Domain:
    if corruption == "mixed":
        parts = [_domain(place, name, 0 if name == "clean" else severity) for name in place.mixed]
        return mix(parts, points=place.points)._replace(severity=severity)
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


def _exists(corruption: str, severity: int) -> bool:
    return severity <= len(CORRUPTIONS[corruption].strengths)


def _refuse(path: Path, kind: str, unknown: set[str], choices: Sequence[str] | Any) -> None:
    if unknown:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"{path} has the unknown {kind} {names}: choose from {', '.join(choices)}")
