"""Bookshelf and dresser; the front looks along −y."""

from itertools import pairwise

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import Parts, Vector, box, ellipsoid, move, taper, tube
from purgegate.points.shapes.supports import support


def bookshelf(rng: np.random.Generator) -> Parts:
    """Boards in a case, empty or filled with books, perhaps with a few drawers below."""
    width, height, depth = rng.uniform(0.5, 1.7), rng.uniform(0.7, 2.2), rng.uniform(0.22, 0.42)
    thick, foot = rng.uniform(0.015, 0.045), rng.uniform(0.04, 0.2) * chance(rng, 0.35)
    shelves = int(np.clip(round((height - foot) / rng.uniform(0.26, 0.5)), 2, 7))
    parts = support(rng, (width, depth, foot), legs=0.8, panels=0.2) if foot else []
    parts += _case((width, depth, height - foot), thick, foot, back=chance(rng, 0.7))
    levels = np.linspace(foot, height - thick, shelves + 1)
    parts += [box((width - thick, depth * 0.98, thick), (0, 0, level)) for level in levels[1:-1]]
    columns = np.linspace(-0.5, 0.5, (whole(rng, 2, 3) if chance(rng, 0.35) else 1) + 1) * (width - thick)
    parts += [box((thick, depth * 0.98, height - foot), (x, 0, foot)) for x in columns[1:-1]]
    closed = whole(rng, 1, 2) if chance(rng, 0.15) and shelves > 3 else 0
    if closed:
        rise = levels[closed] - foot
        unit = fronts(rng, (width, rise), closed, len(columns) - 1)
        parts += [move(part, (0, -depth / 2, foot)) for part in unit]
    fill = rng.uniform(0.3, 1.0) * (not chance(rng, 0.2))
    for low, high in pairwise(levels[closed:]):
        for left, right in pairwise(columns):
            if chance(rng, fill):
                parts += _books(rng, (left + thick, right - thick), (low + thick, high), depth)
    return parts


def dresser(rng: np.random.Generator) -> Parts:
    """Chest of drawers or cupboard, perhaps on legs or with a mirror."""
    width, height, depth = rng.uniform(0.45, 1.7), rng.uniform(0.55, 1.4), rng.uniform(0.35, 0.6)
    foot = rng.uniform(0.05, 0.25) * chance(rng, 0.6)
    parts = support(rng, (width, depth, foot), legs=0.85, panels=0.15) if foot else []
    columns = 1 if width < 0.75 else whole(rng, 1, 3)
    rows = whole(rng, 2, 6) if chance(rng, 0.82) else 1
    unit = drawers(rng, (width, depth, height - foot), rows, max(columns, 2) if rows == 1 else columns)
    parts += [move(part, (0, 0, foot)) for part in unit]
    if chance(rng, 0.6):
        parts.append(box((width * 1.05, depth * 1.06, rng.uniform(0.02, 0.05)), (0, 0, height)))
    if chance(rng, 0.18):
        tall = rng.uniform(0.4, 0.9)
        parts.append(box((width * rng.uniform(0.4, 0.9), 0.04, tall), (0, depth * 0.4, height)))
    if chance(rng, 0.1):
        parts += _case((width, depth * 0.6, rng.uniform(0.25, 0.6)), 0.03, height, back=True)
    return parts


def drawers(rng: np.random.Generator, size: Vector, rows: int, columns: int) -> Parts:
    """Case with a grid of fronts and handles, standing at the origin."""
    unit = fronts(rng, (size[0], size[2]), rows, columns)
    return [box(size, (0, 0, 0)), *(move(part, (0, -size[1] / 2, 0)) for part in unit)]


def fronts(rng: np.random.Generator, face: Vector, rows: int, columns: int) -> Parts:
    """Grid of drawer fronts over a face in the plane y = 0, with handles; one drawer may stand open."""
    width, height = face[0] / columns, face[1] / rows
    kind, pair = pick(rng, knob=0.5, bar=0.35, none=0.15), width > 0.55 and chance(rng, 0.6)
    thick, opened = rng.uniform(0.012, 0.025), whole(rng, 0, rows * columns - 1) if chance(rng, 0.15) else -1
    parts: Parts = []
    for index in range(rows * columns):
        x, z = (index % columns - (columns - 1) / 2) * width, (index // columns) * height
        pull = rng.uniform(0.08, 0.25) if index == opened and rows > 1 else thick
        parts.append(box((width * 0.92, pull, height * 0.88), (x, -pull / 2, z + height * 0.06)))
        for side in (-0.25, 0.25) if pair else (0.0,):
            at = np.array([x + side * width, -pull, z + height * 0.55])
            if kind == "knob":
                parts.append(ellipsoid((0.018, 0.022, 0.018), at - [0, 0.015, 0], segments=8))
            elif kind == "bar":
                reach = np.array([min(width * 0.15, 0.08), 0, 0])
                parts.append(
                    tube([at - reach - [0, 0.015, 0], at + reach - [0, 0.015, 0]], 0.008, segments=6)
                )
    return parts


def _case(size: Vector, thick: float, foot: float, *, back: bool) -> Parts:
    """Open box: sides, bottom and top, perhaps a back."""
    width, depth, height = size
    parts: Parts = [
        box((thick, depth, height), (x, 0, foot)) for x in (-(width - thick) / 2, (width - thick) / 2)
    ]
    parts += [box((width, depth, thick), (0, 0, z)) for z in (foot, foot + height - thick)]
    return [*parts, box((width, 0.012, height), (0, depth / 2 - 0.006, foot))] if back else parts


def _books(rng: np.random.Generator, span: Vector, levels: Vector, depth: float) -> Parts:
    """Row of books from the left, the last one perhaps leaning; widths, heights and depths differ."""
    room = levels[1] - levels[0]
    widths = rng.uniform(0.025, 0.075, size=24)
    ends = span[0] + np.cumsum(widths)
    last = span[0] + (span[1] - span[0]) * rng.uniform(0.35, 1.0)
    sizes = room * rng.uniform(0.55, 0.9, size=24)
    parts: Parts = []
    for wide, end, tall in zip(widths, ends, sizes, strict=True):
        if end > last:
            break
        deep = depth * 0.7
        parts.append(box((wide * 0.94, deep, tall), (end - wide / 2, -depth * 0.06, levels[0])))
    if parts and chance(rng, 0.4) and end + 0.08 < span[1]:
        shift = (-min(0.06, tall * 0.2), 0)
        parts.append(
            taper(
                (0.03, depth * 0.7),
                (0.03, depth * 0.7),
                tall * 0.9,
                foot=(end, -depth * 0.06, levels[0]),
                shift=shift,
            )
        )
    return parts
