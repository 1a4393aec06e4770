"""Clouds and meshes in .ply files: text or binary, either byte order, any scalar types."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64, Shaped

from purgegate.io.files import write_whole
from purgegate.io.formats.contents import Contents, decode, must_hold, table, triangles

TYPES = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"},
    **{"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"},
    **{"float": "f4", "double": "f8", "float32": "f4", "float64": "f8", "int64": "i8", "uint64": "u8"},
}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
POLYGONS = ("vertex_indices", "vertex_index")
HEADER_BYTES = 1 << 20  # far more than any header has
LENGTH = "length of "  # before a list's name, in the types of a binary record

Geometry = tuple[Float[np.ndarray, "N 3"], Int64[np.ndarray, "T 3"] | None]


class Property(NamedTuple):
    """One value of an element, or a list of them with its length before it."""

    name: str
    value: np.dtype
    length: np.dtype | None = None


class Element(NamedTuple):
    """A kind of record, such as vertex or face, and how many of it the file declares."""

    name: str
    number: int
    properties: list[Property]

    def names(self) -> list[str]:
        """Names of the properties, in the order of the file."""
        return [item.name for item in self.properties]

    def least_bytes(self) -> int:
        """Bytes that the smallest record takes: every list empty."""
        return sum((item.length or item.value).itemsize for item in self.properties)


def read_ply(path: Path) -> Contents:
    """Read the vertices of a .ply file, and its faces if it has them."""
    data = path.read_bytes()
    order, elements, start = _header(data)
    wanted = _until_faces(elements)
    data = data[start:]  # and not the whole file beside it
    points, faces = (_ascii if order == "" else _binary)(wanted, data)
    vertex = next(element for element in elements if element.name == "vertex")
    return Contents(points, faces, extra=len(vertex.properties) - 3)


def write_ply(path: Path, points: Float[np.ndarray, "N 3"], **columns: Shaped[np.ndarray, " N"]) -> None:
    """Write a cloud with further columns, such as flags, as whole numbers from 0 to 255."""
    kinds = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), *((name, "u1") for name in columns)]
    records = np.empty(len(points), dtype=kinds)
    for name, values in zip(records.dtype.names or (), (*points.T, *columns.values()), strict=True):
        records[name] = values
    words = {"<f4": "float", "u1": "uchar"}
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    header += [f"property {words[kind]} {name}" for name, kind in kinds]
    write_whole(path, "\n".join([*header, "end_header", ""]).encode("ascii") + records.tobytes())


def _header(data: bytes) -> tuple[str, list[Element], int]:
    """Parse the header: the byte order, the elements, and where the body starts."""
    end = data.find(b"end_header", 0, HEADER_BYTES)
    if not data.startswith(b"ply") or end < 0:
        raise ValueError("it must start with a line `ply` and have a line `end_header`")
    stop = data.find(b"\n", end)
    lines = [line.split() for line in decode(data[:end]).splitlines()[1:]]
    order = None
    elements: list[Element] = []
    for words in lines:
        match words:
            case ["format", name, _] if name in ORDERS:
                order = ORDERS[name]
            case ["element", name, count]:
                elements.append(Element(name, int(count), []))
            case ["property", "list", length, value, name] if elements:
                elements[-1].properties.append(Property(name, _dtype(value, order), _dtype(length, order)))
            case ["property", value, name] if elements:
                elements[-1].properties.append(Property(name, _dtype(value, order)))
            case [] | ["comment" | "obj_info", *_]:
                pass
            case _:
                raise ValueError(f"its header has a line that cannot be read: {' '.join(words)[:80]!r}")
    if order is None:
        raise ValueError(f"its format must be one of {', '.join(ORDERS)}")
    return order, elements, stop + 1 if stop >= 0 else len(data)


def _dtype(name: str, order: str | None) -> np.dtype:
    if name not in TYPES:
        raise ValueError(f"a property must have one of the types {', '.join(TYPES)}; got {name!r}")
    return np.dtype((order or "") + TYPES[name])


def _until_faces(elements: list[Element]) -> list[Element]:
    """Keep the elements up to the last one that matters, and see that vertices have coordinates."""
    names = [element.name for element in elements]
    if "vertex" not in names or any(axis not in elements[names.index("vertex")].names() for axis in "xyz"):
        raise ValueError("it must have an element `vertex` with the properties x, y and z")
    last = max(names.index(name) for name in ("vertex", "face") if name in names)
    return elements[: last + 1]


def _ascii(elements: list[Element], body: bytes) -> Geometry:
    lines = [line for line in decode(body).splitlines() if line.strip()]
    points, faces = np.empty((0, 3)), None
    for element in elements:
        must_hold(f"records of {element.name}", declared=element.number, held=len(lines))
        rows, lines = lines[: element.number], lines[element.number :]
        if element.name == "vertex" and rows:
            x, y, z = (element.names().index(axis) for axis in "xyz")
            points = table(rows, columns=(x, y, z))
        elif element.name == "face":
            faces = triangles(_polygon(element, row.split()) for row in rows)
    return points, faces


def _polygon(element: Element, words: list[str]) -> list[int]:
    """Find the vertex indices of a face among the words of its line."""
    place = 0
    for item in element.properties:
        length = int(words[place]) if item.length and place < len(words) else 0
        must_hold("values of a face", declared=1 + length, held=len(words) - place)
        if item.name in POLYGONS:
            return [int(word) for word in words[place + 1 : place + 1 + length]]
        place += 1 + length
    return []


def _binary(elements: list[Element], body: bytes) -> Geometry:
    points, faces, place = np.empty((0, 3)), None, 0
    for element in elements:
        least = element.least_bytes()
        must_hold(f"bytes of {element.name}", declared=element.number * least, held=len(body) - place)
        runs = list(_runs(element, body, place)) if least else []
        place += sum(run.nbytes for run in runs)
        if element.name == "vertex" and runs:
            points = np.concatenate([_coordinates(run) for run in runs])
        elif element.name == "face":
            faces = np.concatenate([np.empty((0, 3), np.int64), *map(_fans, runs)])
    return points, faces


def _runs(element: Element, body: bytes, place: int) -> Iterator[np.ndarray]:
    """Read the records of an element, as runs of those whose lists are equally long."""
    left, window = element.number, element.number
    while left:
        layout = _layout(element, body, place)
        held = min(left, window, (len(body) - place) // layout.itemsize)
        rows = np.frombuffer(body, layout, held, place)
        same = np.ones(held, dtype=bool)
        for name in layout.names or ():
            if name.startswith(LENGTH):
                same &= rows[name] == rows[name][0]
        run = rows if same.all() else rows[: np.argmin(same)]
        yield run
        # Where lists vary, look only a little ahead, so that the whole rest is not compared for each run.
        window = 4 * window if len(run) == window else 64
        left -= len(run)
        place += run.nbytes


def _layout(element: Element, body: bytes, place: int) -> np.dtype:
    """Find the types of the record at a place, with the lengths that its lists have there."""
    entries: list[tuple] = []
    for item in element.properties:
        length = 1
        if item.length:
            must_hold("bytes", declared=place + item.length.itemsize, held=len(body))
            length = int(np.frombuffer(body, item.length, 1, place)[0])
            entries.append((LENGTH + item.name, item.length))
            place += item.length.itemsize
        must_hold("bytes", declared=place + length * item.value.itemsize, held=len(body))
        entries.append((item.name, item.value, (length,)) if item.length else (item.name, item.value))
        place += length * item.value.itemsize
    return np.dtype(entries)


def _coordinates(run: np.ndarray) -> Float[np.ndarray, "N 3"]:
    columns = [run[axis] for axis in "xyz"]
    single = all(column.dtype.kind == "f" and column.dtype.itemsize == 4 for column in columns)
    return np.stack(columns, axis=1).astype(np.float32 if single else np.float64, copy=False)


def _fans(run: np.ndarray) -> Int64[np.ndarray, "T 3"]:
    """Cut the polygons of a run, which have equally many corners, into triangles."""
    name = next((name for name in POLYGONS if LENGTH + name in (run.dtype.names or ())), None)
    if name is None or run[name].shape[1] < 3:
        return np.empty((0, 3), np.int64)
    corners = run[name].astype(np.int64)
    fans = [corners[:, (0, i, i + 1)] for i in range(1, corners.shape[1] - 1)]
    return np.stack(fans, axis=1).reshape(-1, 3)
