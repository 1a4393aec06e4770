"""Clouds of the Point Cloud Library: .pcd as text, binary, or binary packed with LZF."""

import math
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from purgegate.io.formats.contents import Contents, decode, must_hold, table

KINDS = {"F": "f", "I": "i", "U": "u"}
SIZES = {"f": (2, 4, 8), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8)}
HEADER_BYTES = 65536  # far more than any header has


class Header(NamedTuple):
    """Fields of a point with their types and repetitions, the number of points, and how they are kept."""

    fields: list[str]
    types: list[np.dtype]
    counts: list[int]
    points: int
    storage: str

    def axes(self) -> list[int]:
        """Places of x, y and z among the fields."""
        if any(axis not in self.fields for axis in "xyz"):
            raise ValueError(f"its fields must include x, y and z; got {' '.join(self.fields) or 'none'}")
        return [self.fields.index(axis) for axis in "xyz"]

    def sizes(self) -> list[int]:
        """Bytes that each field takes in a point."""
        return [kind.itemsize * count for kind, count in zip(self.types, self.counts, strict=True)]


def read_pcd(path: Path) -> Contents:
    """Read points from a .pcd file."""
    data = path.read_bytes()
    header, start = _header(data)
    if header.storage not in STORAGES:
        raise ValueError(f"its data must be one of {', '.join(STORAGES)}; got {header.storage!r}")
    return Contents(STORAGES[header.storage](header, data[start:]), extra=sum(header.counts) - 3)


def _header(data: bytes) -> tuple[Header, int]:
    """Parse the header, and say where the points start."""
    words: dict[str, list[str]] = {}
    start = 0
    while "DATA" not in words:
        end = data.find(b"\n", start, HEADER_BYTES)
        if end < 0:
            raise ValueError("its header must end with a line `DATA ascii`, `binary` or `binary_compressed`")
        key, *values = decode(data[start:end]).split() or ["#"]
        words[key.upper()] = values
        start = end + 1
    fields = words.get("FIELDS") or words.get("COLUMNS", [])
    counts = [int(count) for count in words.get("COUNT", ["1"] * len(fields))]
    types = [_dtype(*pair) for pair in zip(words.get("TYPE", []), words.get("SIZE", []), strict=True)]
    if not len(fields) == len(counts) == len(types) or any(count < 1 for count in counts):
        raise ValueError("its header must give a SIZE, a TYPE and a COUNT of 1 or more for every field")
    size = [int(words[key][0]) for key in ("WIDTH", "HEIGHT") if words.get(key)]
    points = int(words["POINTS"][0]) if words.get("POINTS") else math.prod(size) if size else 0
    return Header(fields, types, counts, points, " ".join(words["DATA"])), start


def _dtype(kind: str, size: str) -> np.dtype:
    if kind not in KINDS or int(size) not in SIZES[KINDS[kind]]:
        raise ValueError(f"a field must have a TYPE of F, I or U and a fitting SIZE; got {kind} {size}")
    return np.dtype(f"<{KINDS[kind]}{size}")


def _ascii(header: Header, body: bytes) -> Float[np.ndarray, "N 3"]:
    rows = [line for line in decode(body).splitlines() if line.strip()]
    must_hold("points", declared=header.points, held=len(rows))
    starts = np.cumsum([0, *header.counts])
    x, y, z = (int(starts[axis]) for axis in header.axes())
    return table(rows[: header.points], columns=(x, y, z))


def _binary(header: Header, body: bytes) -> Float[np.ndarray, "N 3"]:
    sizes = header.sizes()
    must_hold("points", declared=header.points, held=len(body) // sum(sizes))
    starts = np.cumsum([0, *sizes])
    axes = header.axes()
    layout = np.dtype(
        {
            "names": ["x", "y", "z"],
            "formats": [header.types[axis] for axis in axes],
            "offsets": [int(starts[axis]) for axis in axes],
            "itemsize": sum(sizes),
        }
    )
    points = np.frombuffer(body, layout, header.points)
    return _join([points[axis] for axis in "xyz"])


def _compressed(header: Header, body: bytes) -> Float[np.ndarray, "N 3"]:
    """Unpack points that are kept field after field."""
    if len(body) < 8:
        raise ValueError("it ends before its points: it is truncated")
    packed, unpacked = struct.unpack_from("<II", body)
    must_hold("packed bytes", declared=packed, held=len(body) - 8)
    sizes = header.sizes()
    must_hold("points", declared=header.points, held=unpacked // sum(sizes))
    data = unpack_lzf(body[8 : 8 + packed], unpacked)
    starts = np.cumsum([0, *sizes]) * header.points
    return _join([np.frombuffer(data, header.types[a], header.points, starts[a]) for a in header.axes()])


def unpack_lzf(data: bytes, size: int) -> bytes:
    """Undo LZF: runs of literal bytes, and references to what was written before."""
    out = bytearray()
    place = 0
    while place < len(data) and len(out) <= size:
        control = data[place]
        place += 1
        if control < 32:
            out += data[place : place + control + 1]
            place += control + 1
            continue
        long = control >> 5 == 7
        if place + long >= len(data):
            raise ValueError("its packed points end inside a reference: it is truncated")
        length = (control >> 5) + (data[place] if long else 0) + 2
        back = ((control & 31) << 8) + data[place + long] + 1
        place += 1 + long
        if back > len(out):
            raise ValueError("its packed points refer to before their start: it is damaged")
        seen = out[len(out) - back : len(out) - back + length]
        out += (seen * (length // back + 1))[:length]  # a reference may reach into what it writes
    if len(out) != size:
        raise ValueError(f"its packed points must unpack to {size} bytes; got {len(out)}: it is damaged")
    return bytes(out)


def _join(columns: list[np.ndarray]) -> Float[np.ndarray, "N 3"]:
    single = all(column.dtype in (np.float16, np.float32) for column in columns)
    return np.stack(columns, axis=1).astype(np.float32 if single else np.float64)


STORAGES = {"ascii": _ascii, "binary": _binary, "binary_compressed": _compressed}
