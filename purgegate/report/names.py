"""How methods and corruptions are called in tables and plots."""

import json
from collections.abc import Iterator, Mapping

from purgegate.adapt import METHODS
from purgegate.adapt.described import KINDS
from purgegate.io.results import Row
from purgegate.points.corruptions import CORRUPTIONS, published


class Headers(Mapping[str, str]):
    """Short headers of the registered corruptions: the published ones in the paper's order, then others."""

    def __getitem__(self, name: str) -> str:
        return CORRUPTIONS[name].header or name

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*published(), *CORRUPTIONS)))

    def __len__(self) -> int:
        return len(CORRUPTIONS)


COLUMNS = Headers()

# What tables compare with: the first of each kind.
SOURCE, CONTROL = (
    next(name for name, method in METHODS.items() if method.kind == kind) for kind in ("source", "control")
)


def rank(method: str) -> tuple[int, int, str]:
    """Sorting key: known methods by their kind and in the order of `METHODS`, then the others by name."""
    if method not in METHODS:
        return len(KINDS), 0, method
    return KINDS.index(METHODS[method].kind), list(METHODS).index(method), ""


def shown_options(row: Row) -> dict:
    """The options of a row that are not the usual; rows of others may report all of theirs."""
    return row.get("given", row.get("options")) or {}


def options_of(row: Row) -> str:
    """The same as one line; equal options give equal lines."""
    return ", ".join(f"{name}={_plain(value)}" for name, value in sorted(shown_options(row).items()))


def tell_apart(rows: list[Row]) -> list[Row]:
    """The rows with all options shown by which methods of one name differ, such as their statistics."""
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        lines.setdefault((row["method"], options_of(row)), []).append(row)
    differing = {line: _differing([row.get("options") or {} for row in some]) for line, some in lines.items()}
    return [_with_shown(row, differing[row["method"], options_of(row)]) for row in rows]


def _with_shown(row: Row, names: list[str]) -> Row:
    if not names:
        return row
    options = row.get("options") or {}
    given = row.get("given") or {}
    return row | {"given": given | {name: options.get(name) for name in names}}


def _differing(options: list[dict]) -> list[str]:
    names = dict.fromkeys(name for each in options for name in each)
    return [name for name in names if len({json.dumps(each.get(name)) for each in options}) > 1]


def title_of(method: str, options: str = "") -> str:
    """A method's name for people, with its options."""
    known = METHODS[method].title if method in METHODS else method.rpartition(":")[2]
    name = " ".join(known.split())
    return f"{name} ({options})" if options else name


def _plain(value: object) -> str:
    if isinstance(value, list):
        return "[" + " ".join(_plain(each) for each in value) + "]"
    return value if isinstance(value, str) else json.dumps(value)
