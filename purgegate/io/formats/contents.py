"""What a reader hands back, and what several readers need."""

import os
import zipfile
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64

# Deflate packs at most 1,032 bytes into one, so a member that claims more is damaged or hostile.
MOST_PACKED = 1100
MOST_UNPACKED = 1 << 28  # bytes that any file may unpack to, however small it is
LIKELY_PACKED = 50  # bytes in one: repeated points reach it, coordinates about 2


class Contents(NamedTuple):
    """Points of a file in its own precision, its triangles if it is a mesh, and the columns left behind."""

    points: Float[np.ndarray, "N 3"]
    faces: Int64[np.ndarray, "T 3"] | None = None
    extra: int = 0


def decode(data: bytes) -> str:
    """Turn the bytes of a text file into text; odd characters matter only inside numbers, where they fail."""
    if b"\0" in data:
        raise ValueError("it should be text but holds binary data")
    return data.decode("utf-8-sig", errors="replace")


def table(
    rows: Sequence[str], *, columns: tuple[int, int, int] = (0, 1, 2), delimiter: str | None = None
) -> Float64[np.ndarray, "N 3"]:
    """Read three columns of numbers from lines of text."""
    if not rows:
        raise ValueError("it holds no points")
    if not all(map(str.strip, rows)):
        raise ValueError("it has a point without coordinates")
    return np.loadtxt(rows, delimiter=delimiter, usecols=columns, ndmin=2, comments=None, quotechar='"')


def must_hold(what: str, *, declared: int, held: int) -> None:
    """Refuse a count that the file does not hold, before anything of that size is made."""
    if not 0 <= declared <= held:
        raise ValueError(f"it declares {declared} {what} but has room for {held}: it is truncated or damaged")


def must_be_likely(*, declared: int, packed: int) -> None:
    """Refuse a bomb before memory is taken: much from little, as no packed coordinates are."""
    if declared > MOST_UNPACKED and declared > LIKELY_PACKED * packed:
        raise ValueError(
            f"it unpacks {packed:,} bytes to {declared:,}, far more than coordinates can be packed: if "
            "that is meant, save them unpacked"
        )


def check_archive(archive: zipfile.ZipFile) -> None:
    """Refuse members that claim far more than the archive can hold, each or together."""
    for entry in archive.infolist():
        must_hold("bytes", declared=entry.file_size, held=MOST_PACKED * (entry.compress_size + 1))
    must_be_likely(
        declared=sum(entry.file_size for entry in archive.infolist()),
        # Not the sum of what the members claim: they may lie on top of each other.
        packed=os.stat(str(archive.filename)).st_size,
    )


def triangles(polygons: Iterable[Sequence[int]]) -> Int64[np.ndarray, "T 3"]:
    """Cut polygons into fans of triangles; points and lines have none."""
    fans = [(p[0], p[i], p[i + 1]) for p in polygons for i in range(1, len(p) - 1)]
    return np.array(fans, dtype=np.int64).reshape(-1, 3)
