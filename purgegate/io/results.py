"""Result rows in `results.jsonl`: appended as soon as known, never lost or doubled by a killed run."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from purgegate.typing import StrPath

Row = dict[str, Any]

# What was run; all else in a row is what came out. Two rows with the same key are the same measurement.
KEYS = (
    *("method", "options", "dataset", "backbone", "weights", "fingerprint", "corruption", "severity"),
    *("seed", "batch", "points", "padding", "reset", "order", "total"),
)


def key_of(row: Row) -> str:
    """What tells one measurement from another, as one string."""
    return json.dumps({name: row.get(name) for name in KEYS}, sort_keys=True)


def read_rows(path: StrPath) -> list[Row]:
    """All whole rows of a file, each measurement once; a last line left torn by a kill is passed over."""
    path = Path(path)
    if not path.is_file():
        return []
    *whole, _torn = path.read_text("utf-8").split("\n")
    rows: dict[str, Row] = {}
    for number, line in enumerate(whole, start=1):
        row = _parse(line)
        if row is None:
            raise ValueError(f"{path}, line {number} is no JSON object: remove that line")
        rows.setdefault(key_of(row), row)
    return list(rows.values())


def append_rows(path: StrPath, rows: Iterable[Row]) -> None:
    """Add rows so that they are on the disk when this returns."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _drop_torn_line(file)
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        file.flush()
        os.fsync(file.fileno())


def _parse(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _drop_torn_line(file: Any) -> None:
    file.seek(0)
    content = file.read()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        file.truncate(end)
        file.seek(0, os.SEEK_END)
