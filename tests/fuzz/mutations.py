"""Damage as it happens to files: bytes lost, turned, repeated, swapped, numbers made absurd."""

import re

from hypothesis import strategies as st

ODD = (
    b"\x00",
    b"\xff",
    b"-1",
    b"nan",
    b"inf",
    b"1e400",
    b"99999999999999999999",
    b"\n",
    b"\r\n",
    b" ",
    b"{",
    b'"',
)


@st.composite
def mutations(draw, whole: bytes) -> bytes:
    """The bytes of a file with one to four things wrong."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        data = KINDS[kind](draw, data)
    return bytes(data)


def place_in(draw, data: bytearray) -> int:
    """A place, near the start as often as anywhere: headers are there."""
    most = max(len(data) - 1, 0)
    return draw(st.integers(0, min(most, 200)) | st.integers(0, most))


def cut(draw, data: bytearray) -> bytearray:
    return data[: place_in(draw, data)]


def flip(draw, data: bytearray) -> bytearray:
    if data:
        data[place_in(draw, data)] = draw(st.integers(0, 255))
    return data


def lose(draw, data: bytearray) -> bytearray:
    start = place_in(draw, data)
    del data[start : start + draw(st.integers(1, 64))]
    return data


def insert(draw, data: bytearray) -> bytearray:
    start = place_in(draw, data)
    return data[:start] + draw(st.sampled_from(ODD) | st.binary(min_size=1, max_size=16)) + data[start:]


def repeat(draw, data: bytearray) -> bytearray:
    start = place_in(draw, data)
    part = data[start : start + draw(st.integers(1, 200))]
    return data[:start] + part * draw(st.integers(2, 4)) + data[start:]


def fill(draw, data: bytearray) -> bytearray:
    start, length = place_in(draw, data), draw(st.sampled_from((1, 2, 4, 8)))
    data[start : start + length] = bytes([draw(st.sampled_from((0x00, 0xFF, 0x7F, 0x80)))]) * length
    return data


def change_number(draw, data: bytearray) -> bytearray:
    """Make one of the numbers that stand in the file as text another."""
    found = list(re.finditer(rb"-?\d+", bytes(data[:4000])))
    if not found:
        return data
    start, stop = draw(st.sampled_from(found)).span()
    number = draw(st.sampled_from(ODD) | st.integers(-(2**70), 2**70).map(lambda n: str(n).encode()))
    return data[:start] + number + data[stop:]


KINDS = {each.__name__: each for each in (cut, flip, lose, insert, repeat, fill, change_number)}
