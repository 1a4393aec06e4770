"""Result rows in `results.jsonl`: appended as soon as known, never lost or doubled by a killed run."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from purgegate.io.files import check_file, make_folder
from purgegate.io.locks import only_writer
from purgegate.typing import StrPath

Row = dict[str, Any]

# What was run; all else in a row is what came out. Two rows with the same key are the same measurement.
KEYS = (
    *("method", "options", "dataset", "backbone", "weights", "fingerprint", "corruption", "severity"),
    "precision",
    *("seed", "batch", "points", "padding", "views", "reset", "order", "total", "data", "after"),
)

BLOCK = 65536  # bytes that are looked at in one go for the last line

OURS = ("method", "corruption", "correct", "total")  # what every row has


def pack_answers(right: Bool[np.ndarray, " n"]) -> str:
    """Which clouds were answered rightly, in the order of the data, for the optional `answers` of a row."""
    return np.packbits(right).tobytes().hex()


def unpack_answers(row: Row) -> Bool[np.ndarray, " n"] | None:
    """The clouds that a row has right, or None where it does not keep them."""
    text = row.get("answers")
    if text is None:
        return None
    try:
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))
    except (TypeError, ValueError):
        bits = np.empty(0, np.uint8)
    total, correct = row["total"], row["correct"]
    if len(bits) != -(-total // 8) * 8 or bits[total:].any() or bits.sum() != correct:
        raise ValueError(
            f"the answers of {row['method']}, {row['corruption']} must tell which {correct} of {total} clouds"
            " are right: the row was changed by hand, or damaged"
        )
    return bits[:total].astype(bool)


def key_of(row: Row) -> str:
    """What tells one measurement from another, as one string."""
    return json.dumps({name: row.get(name) for name in KEYS}, sort_keys=True)


def read_rows(path: StrPath) -> list[Row]:
    """All whole rows of a file, each measurement once; a last line left torn by a kill is passed over.

    Two results of one measurement are an error.
    """
    path = Path(path)
    if not path.is_file():
        return []
    try:
        *lines, last = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no file of rows: {error}") from error
    rows: dict[str, Row] = {}
    for number, line in enumerate([*lines, last] if _parse(last) else lines, start=1):
        row = _parse(line)
        if row is None:
            raise ValueError(f"{path}, line {number} is no JSON object: remove that line")
        take_in(rows, row, origin=f"{path}, line {number}")
    return list(rows.values())


def take_in(rows: dict[str, Row], row: Row, *, origin: StrPath) -> None:
    """Add a row to those of other measurements; another result of the same one is an error."""
    first = rows.setdefault(key_of(row), row)
    if first is not row and first.get("correct") != row.get("correct"):
        raise ValueError(
            f"{origin} has another result for {row.get('method')}, {row.get('corruption')} than a row before "
            "it: was the program or the data changed between them? Remove the older rows"
        )


@contextmanager
def writing(path: StrPath) -> Iterator[None]:
    """Be the only writer of a file of rows, from before its rows are read until the last one is added.

    A file that another process writes, or that holds something else than rows, is an error.
    """
    path = Path(path)
    make_folder(path.parent)
    with only_writer(path):
        if path.exists():
            check_file(path)
            _check_ours(path)
        yield


def append_rows(path: StrPath, rows: Iterable[Row]) -> None:
    """Add rows so that they are on the disk when this returns."""
    path = Path(path)
    with writing(path), path.open("a+b") as file:
        _end_last_line(file)
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        file.flush()
        os.fsync(file.fileno())


def lost_beside(path: StrPath) -> Path:
    """The file of what could not be measured, beside a file of rows."""
    return Path(path).with_suffix(".lost.jsonl")


def note_lost(path: StrPath, rows: Iterable[Row], error: str) -> None:
    """Say beside a file of rows which ones it lacks, and why; without `correct`, no table takes them."""
    with lost_beside(path).open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row | {"error": error}) + "\n" for row in rows))


def _check_ours(path: Path) -> None:
    """Refuse to add to a file whose first line is none of our rows, nor the beginning of one."""
    with path.open("rb") as file:
        line = file.readline()
    first = _parse(line.decode("utf-8", "replace"))
    torn = first is None and not line.endswith(b"\n") and line.startswith(b'{"'[: len(line)])
    if line and not torn and not (first and all(name in first for name in OURS)):
        raise ValueError(
            f"{path} is no file of rows, which are JSON objects with {', '.join(OURS)}: give another file"
        )


def _parse(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _end_last_line(file: Any) -> None:
    """A last line without its end is torn, and dropped, unless it is whole but for that."""
    last = _last_line(file)
    if _parse(last.decode("utf-8", "replace")):
        file.write(b"\n")
    elif last:
        file.truncate(file.seek(0, os.SEEK_END) - len(last))
        file.seek(0, os.SEEK_END)


def _last_line(file: Any) -> bytes:
    """What stands behind the last end of a line, without reading all that is before it."""
    start, content = file.seek(0, os.SEEK_END), b""
    while start and b"\n" not in content:
        size = min(start, BLOCK)
        start = file.seek(start - size)
        content = file.read(size) + content
    return content[content.rfind(b"\n") + 1 :]
