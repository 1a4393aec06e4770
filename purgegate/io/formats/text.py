"""Clouds as lines of numbers: .xyz, .txt, .csv, with any common separator and header."""

from pathlib import Path

from purgegate.io.formats.contents import Contents, decode, must_hold, table

COMMENTS = ("#", "//", "%")


def read_text(path: Path) -> Contents:
    """Read points from lines of text: the columns x, y, z of a header, or else the first three."""
    lines = [line.strip() for line in decode(path.read_bytes()).splitlines() if line.strip()]
    header, rows = _split_header(lines)
    if not rows:
        raise ValueError("it holds no points")
    delimiter = next((mark for mark in ";," if mark in rows[0]), None)
    if delimiter == ";" and "," in rows[0]:
        rows = [row.replace(",", ".") for row in rows]  # decimal commas
    width = len(rows[0].split(delimiter))
    if width < 3:
        raise ValueError(f"points must have 3 columns, or more; got {width}")
    return Contents(table(rows, columns=_columns(header), delimiter=delimiter), extra=width - 3)


def _split_header(lines: list[str]) -> tuple[str, list[str]]:
    """Part the rows of numbers from comments, a line of column names and a line with their count."""
    rows = [line for line in lines if not line.startswith(COMMENTS)]
    header = lines[0].lstrip("#/% ") if lines and lines[0].startswith(COMMENTS) else ""
    if rows and not any(_is_number(field) for field in _fields(rows[0])):
        header, rows = rows[0], rows[1:]
    if len(rows) > 1 and rows[0].isdecimal() and not rows[1].isdecimal():
        must_hold("points", declared=int(rows[0]), held=len(rows) - 1)
        rows = rows[1:]
    return header, rows


def _columns(header: str) -> tuple[int, int, int]:
    names = [name.lower() for name in _fields(header)]
    if all(names.count(axis) == 1 for axis in "xyz"):
        return names.index("x"), names.index("y"), names.index("z")
    return 0, 1, 2


def _fields(line: str) -> list[str]:
    for mark in ",;\"'":
        line = line.replace(mark, " ")
    return line.split()


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
