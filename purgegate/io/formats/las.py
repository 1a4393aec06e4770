"""Airborne and mobile laser scans: .las, and .laz which packs it."""

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import laspy
import numpy as np

from purgegate.io.formats.contents import Contents, must_be_likely, must_hold

CHUNK = 1_000_000  # points unpacked at a time
COORDINATES = laspy.DecompressionSelection.base() | laspy.DecompressionSelection.Z
POINT = 24  # bytes of a point's coordinates in memory
SHORTEST_HEADER = 227  # bytes, of version 1.0
RECORD_HEADER = 54  # bytes at the head of a variable-length record
PACKING = b"laszip encoded"  # whose record says how points are packed
PACKING_ITEMS = 84  # bytes from there to the number of items of a point: type, size and version of each
UNKNOWN_PLACE = -1  # of the table of chunks, when a writer could not go back: the last bytes tell it then

# laspy prints an error that it also raises; one line is enough.
logging.getLogger("laspy").addHandler(logging.NullHandler())


def read_las(path: Path) -> Contents:
    """Read points from a .las or .laz file, in double precision: they are often far from the origin."""
    _check_header(path)
    with laspy.open(path, read_evlrs=False, decompression_selection=COORDINATES) as file:
        header = file.header
        room = path.stat().st_size - header.offset_to_point_data
        if header.are_points_compressed:
            data = path.read_bytes()
            _check_items(data, header.point_format.size)
            _check_chunks(data, header.offset_to_point_data)
            must_be_likely(declared=header.point_count * POINT, packed=room)
        else:
            must_hold("points", declared=header.point_count, held=room // header.point_format.size)
        with _panics():
            chunks = [np.stack([chunk.x, chunk.y, chunk.z], axis=1) for chunk in file.chunk_iterator(CHUNK)]
    points = np.concatenate([np.empty((0, 3)), *chunks])
    must_hold("points", declared=header.point_count, held=len(points))
    return Contents(points, extra=len(list(header.point_format.dimension_names)) - 3)


def _check_header(path: Path) -> None:
    """Refuse counts that make laspy read records which are not there."""
    with path.open("rb") as file:
        start = file.read(SHORTEST_HEADER)
    if not start.startswith(b"LASF") or len(start) < SHORTEST_HEADER:
        raise ValueError("it must start with `LASF` and a whole header")
    offset, records = struct.unpack_from("<II", start, 96)
    must_hold("bytes before its points", declared=offset, held=path.stat().st_size)
    must_hold("records before its points", declared=records, held=offset // RECORD_HEADER)


@contextmanager
def _panics() -> Iterator[None]:
    """A panic of the unpacker, which is written in Rust, is an error like others; it is no Exception."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"its packed points are damaged: {error}") from error


def _check_items(data: bytes, size: int) -> None:
    """Refuse packed points of another size than the header says, by which the unpacker divides."""
    place = data.find(PACKING) + PACKING_ITEMS
    (count,) = struct.unpack_from("<H", data, place)
    must_hold("bytes of items", declared=6 * count, held=len(data) - place - 2)
    sizes = [struct.unpack_from("<H", data, place + 4 + 6 * number)[0] for number in range(count)]
    if sum(sizes) != size:
        raise ValueError(
            f"its packed points must have {size} bytes each, as its header says; got {sum(sizes)}"
        )


def _check_chunks(data: bytes, start: int) -> None:
    """Refuse a table of packed chunks that the file does not hold; it may lie anywhere behind the points."""
    place = int.from_bytes(data[start : start + 8], "little", signed=True)
    if place == UNKNOWN_PLACE:
        place = int.from_bytes(data[-8:], "little", signed=True)
    must_hold("bytes before its chunks", declared=place, held=len(data) - 8)
    must_hold(
        "chunks", declared=int.from_bytes(data[place + 4 : place + 8], "little"), held=len(data) - place
    )
