"""Recipes: which methods meet which domains, with which weights and seeds, read from a file and checked."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from purgegate.adapt import METHODS, find_method
from purgegate.adapt.described import NEEDS
from purgegate.adapt.options import NAMES_OF_KINDS
from purgegate.evaluate import Settings, check_settings
from purgegate.imports import is_path
from purgegate.io.files import check_file
from purgegate.kernels.products import PRECISIONS
from purgegate.points.corruptions import CORRUPTIONS
from purgegate.typing import StrPath

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
    precision: str = "float32"  # or "bfloat16", of the products of the model
    views: str = "random"  # or "prepared", as `purgegate predict` sees a file
    mixed: bool = False  # all corruptions of a severity as one shuffled stream
    confusion: bool = False  # rows say which classes were taken for which


# What the keys of a recipe file must be; a list says of what kind each of its values is.
KINDS: dict[str, type | list[type]] = {
    **dict.fromkeys(("title", "dataset", "reset", "order", "padding", "part", "views", "precision"), str),
    **dict.fromkeys(("clean", "source"), str),
    **{name: [str] for name in ("weights", "corruptions")},
    **{name: [int] for name in ("severities", "seeds", "batches")},
    "methods": [str, dict],
    "points": int,
    "subset": int,
    **dict.fromkeys(("mixed", "confusion"), bool),
}


def read_recipe(path: StrPath) -> Recipe:
    """Read and check a recipe file; an unknown key or name is an error that lists the choices."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: give the path of a recipe (*.toml)")
    check_file(path)
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
    given: dict[str, Any] = {name: _once_each(v) if name in listed else v for name, v in found.items()}
    given["methods"] = tuple({"name": each} if isinstance(each, str) else each for each in given["methods"])
    recipe = Recipe(**given)
    _check_methods(path, recipe)
    _check_domains(path, recipe)
    return recipe


def _once_each(values: list[Any]) -> tuple[Any, ...]:
    """What is given twice would be measured twice, and have one row."""
    return tuple(each for place, each in enumerate(values) if each not in values[:place])


def domains_of(recipe: Recipe) -> list[tuple[str, int]]:
    """Corruptions and severities in their order; severity 0 is clean."""
    if recipe.mixed:
        return [("mixed", each) for each in recipe.severities if with_severity(recipe.corruptions, each)]
    return list(
        dict.fromkeys(each for s in recipe.severities for each in with_severity(recipe.corruptions, s))
    )


def with_severity(corruptions: Sequence[str], severity: int) -> list[tuple[str, int]]:
    """The corruptions that have this severity: a view number is none, occlusion and lidar have fewer."""
    domains = [("clean", 0) if name == "clean" else (name, severity) for name in corruptions]
    return [(name, s) for name, s in domains if name == "clean" or s <= len(CORRUPTIONS[name].strengths)]


def runs_of(recipe: Recipe) -> Iterator[tuple[str, dict[str, Any], Sequence[int]]]:
    """Each method with its options and batch sizes; `each` gives one run for every value of an option."""
    for method in recipe.methods:
        options, batches = method.get("options", {}), method.get("batches", recipe.batches)
        swept = method.get("each", {})
        if not swept:
            yield method["name"], options, batches
        for option, values in swept.items():
            for value in values:
                yield method["name"], {**options, option: value}, batches


def settings_of(recipe: Recipe, *, batch: int, seed: int) -> Settings:
    """The stream of one run."""
    return Settings(batch, recipe.points, recipe.reset, recipe.order, seed, recipe.padding, recipe.views)


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
    for method in recipe.methods:
        if type(method.get("name")) is not str:
            raise ValueError(f"{path} must give a text for the name of every method; got {method}")
    unknown = {each["name"] for each in recipe.methods if not is_path(each["name"])} - METHODS.keys()
    _refuse(path, "method", unknown, METHODS)
    for method in recipe.methods:
        _refuse(path, "key of a method", method.keys() - METHOD_KEYS.keys(), METHOD_KEYS)
        for key, kind in METHOD_KEYS.items():
            if key in method and type(method[key]) is not kind:
                raise ValueError(f"{path} must give {NAMES_OF_KINDS[kind]} for {key} of {method['name']}")
        if any(type(batch) is not int for batch in method.get("batches", [])):
            raise ValueError(f"{path} must give a list of whole numbers for batches of {method['name']}")
        if any(type(values) is not list for values in method.get("each", {}).values()):
            raise ValueError(f"{path} must give a list of values for what {method['name']} has in `each`")
        entry = find_method(method["name"])
        known = entry.options.keys() - {"seed"}
        given = {*method.get("options", {}), *method.get("each", {})}
        if not entry.takes_any:
            _refuse(path, f"option of {method['name']}", given - known, sorted(known))
        if len(method.get("each", {})) > 1:
            raise ValueError(f"{path} may sweep one option of {method['name']} at a time, in `each`")
        if "source" in entry.needs and recipe.source is None:
            raise ValueError(f"{path} has {method['name']}, which needs {NEEDS['source']}: give `source`")


def _check_domains(path: Path, recipe: Recipe) -> None:
    _refuse(path, "part", {recipe.part} - PARTS.keys(), PARTS)
    _refuse(path, "corruption", set(recipe.corruptions) - {*CORRUPTIONS, "clean"}, (*CORRUPTIONS, "clean"))
    if recipe.subset is not None and recipe.subset < 1:
        raise ValueError(f"{path} must have a subset of at least 1 cloud; got {recipe.subset}")
    if "clean" in recipe.corruptions and recipe.clean is None:
        raise ValueError(f"{path} has the corruption 'clean', which needs a data set: give `clean`")
    sizes = {batch for *_, batches in runs_of(recipe) for batch in batches}
    if not all((sizes, recipe.weights, recipe.seeds, domains_of(recipe))):
        raise ValueError(
            f"{path} has nothing to run: no method, weights, seed, batch or severity that exists"
        )
    for batch, seed in product(sizes, recipe.seeds):
        check_settings(settings_of(recipe, batch=batch, seed=seed))
    if recipe.precision not in PRECISIONS:
        raise ValueError(f"{path} must have a precision of {', '.join(PRECISIONS)}; got {recipe.precision!r}")


def _refuse(path: Path, kind: str, unknown: set[str], choices: Sequence[str] | Any) -> None:
    if unknown:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"{path} has the unknown {kind} {names}: choose from {', '.join(choices)}")
