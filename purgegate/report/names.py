"""How methods and corruptions are called in tables and plots."""

import json
from collections.abc import Iterator, Mapping

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

SOURCE, CONTROL = "source", "source_bn"

NAMES = {
    SOURCE: "Source",
    CONTROL: "Source + BN reset",
    "random_starts": "Random starts",
    "random_purge": "Random purge",
    "ttt_rot": "TTT-Rot",
    "mate": "MATE",
    "smart_pc": "SMART-PC",
    "shot": "SHOT",
    "t3a": "T3A",
    "tent": "TENT",
    "ln_tta": "LN-TTA",
    "dua": "DUA",
    "bftt3d": "BFTT3D",
    "bftt3d_bn": "BFTT3D + BN reset",
    "pg_sf": "PG-SF",
    "pg_sp": "PG-SP",
    "pg_auto": "PG-Auto",
}


def rank(method: str) -> tuple[int, str]:
    """Sorting key: known methods in the order of `NAMES`, then the others by name."""
    known = list(NAMES)
    return (known.index(method), "") if method in NAMES else (len(known), method)


def options_of(row: Row) -> str:
    """The options of a row as one line, empty if it has none; equal options give equal lines."""
    options = row.get("options") or {}
    return ", ".join(f"{name}={_plain(value)}" for name, value in sorted(options.items()))


def title_of(method: str, options: str = "") -> str:
    """A method's name for people, with its options."""
    name = " ".join(NAMES.get(method, method).split())
    return f"{name} ({options})" if options else name


def _plain(value: object) -> str:
    if isinstance(value, list):
        return "[" + " ".join(_plain(each) for each in value) + "]"
    return value if isinstance(value, str) else json.dumps(value)
