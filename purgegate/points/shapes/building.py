"""Door and stairs; both are met along +y."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Part,
    Parts,
    Vector,
    both,
    box,
    ellipsoid,
    extrude,
    merge,
    mirror,
    move,
    smooth,
    taper,
    tube,
    turn,
    upright,
)


def door(rng: np.random.Generator) -> Parts:
    """One or two leaves, panelled or with glass, closed or ajar, mostly in a frame."""
    double = chance(rng, 0.15)
    width, height = rng.uniform(0.65, 1.05), rng.uniform(1.85, 2.35)
    thick = rng.uniform(0.035, 0.07)
    swing = rng.uniform(0.2, 1.3) if chance(rng, 0.35) else 0.0
    style = pick(rng, plain=0.25, panels=0.4, glass=0.25, arch=0.1)
    leaf = merge(_leaf(rng, (width, thick, height), style))
    hinge = move(turn(move(leaf, (width / 2, 0, 0)), 2, swing), (-width / 2, 0, 0))
    parts = [hinge]
    if double:
        parts = [move(hinge, (-width / 2, 0, 0)), move(mirror(leaf), (width / 2, 0, 0))]
    if chance(rng, 0.75 if not swing else 0.95) and style != "arch":
        parts += _frame(rng, (width * (1 + double), thick, height))
    return parts


def stairs(rng: np.random.Generator) -> Parts:
    """Straight, turning or spiral steps, solid or open, with or without rails."""
    steps, rise, run = whole(rng, 4, 13), rng.uniform(0.15, 0.21), rng.uniform(0.22, 0.34)
    width = rng.uniform(0.7, 1.6)
    kind = pick(rng, straight=0.68, turning=0.17, spiral=0.15)
    if kind == "spiral":
        return _spiral(rng, max(steps, 8), rise, width * 0.8)
    solid = chance(rng, 0.55)
    parts = _flight(rng, steps, (width, run, rise), solid=solid)
    if kind == "turning":
        base, middle = (0.0 if solid else (steps - 1) * rise), steps * run + width / 2
        landing = box((width, width, steps * rise - base), (0, middle, base))
        upper = merge(_flight(rng, whole(rng, 3, 6), (width, run, rise), solid=solid))
        parts += [landing, move(turn(upper, 2, -np.pi / 2), (width / 2, middle, steps * rise))]
    return parts


def _leaf(rng: np.random.Generator, size: Vector, style: str) -> Parts:
    """Door leaf in the plane y = 0 with its trim and handles on both faces; hinges on the left."""
    width, thick, height = size
    if style == "glass":
        parts = _glazed(rng, size)
    elif style == "arch":
        bow = smooth([(width / 2, height * 0.3), (0, height / 2), (-width / 2, height * 0.3)], steps=8)
        outline = np.concatenate([[(-width / 2, -height / 2), (width / 2, -height / 2)], bow])
        parts = [move(upright(extrude(outline, (0, thick))), (0, thick / 2, height / 2))]
    else:
        parts = [box(size, (0, 0, 0))]
    if style in ("panels", "arch"):
        rows, columns = whole(rng, 1, 4), whole(rng, 1, 2)
        tall, wide = height * (0.72 if style == "arch" else 0.95) / rows, width * 0.95 / columns
        for row in range(rows):
            for column in range(columns):
                x = (column - (columns - 1) / 2) * wide
                parts.append(
                    box(
                        (wide * 0.75, thick + 0.03, tall * 0.78),
                        (x, 0, row * tall + tall * 0.12 + 0.02 * height),
                    )
                )
    return parts + _handles(rng, width, thick, height * rng.uniform(0.43, 0.5))


def _glazed(rng: np.random.Generator, size: Vector) -> Parts:
    """Stiles, rails and bars round openings, over a solid lower part."""
    width, thick, height = size
    stile, low = width * rng.uniform(0.1, 0.2), height * rng.uniform(0.1, 0.45)
    parts = both(box((stile, thick, height), ((width - stile) / 2, 0, 0)))
    parts += [box((width, thick, low), (0, 0, 0)), box((width, thick, stile), (0, 0, height - stile))]
    rows, columns = whole(rng, 1, 4), whole(rng, 1, 3)
    for z in np.linspace(low, height - stile, rows + 1)[1:-1]:
        parts.append(box((width, thick * 0.6, 0.03), (0, 0, z)))
    for x in np.linspace(-0.5, 0.5, columns + 1)[1:-1] * (width - 2 * stile):
        parts.append(box((0.03, thick * 0.6, height - low), (x, 0, low)))
    return parts


def _handles(rng: np.random.Generator, width: float, thick: float, level: float) -> Parts:
    """Knob, lever or pull bar on both faces."""
    kind, x = pick(rng, knob=0.4, lever=0.4, pull=0.2), width * 0.41
    parts: Parts = []
    for y in (-1, 1):
        out = y * (thick / 2 + 0.06)
        parts.append(tube([(x, 0, level), (x, out, level)], 0.014))
        if kind == "knob":
            parts.append(ellipsoid((0.038, 0.03, 0.038), (x, out, level), segments=12))
        elif kind == "lever":
            parts.append(tube([(x, out, level), (x - 0.13, out, level)], 0.014))
        else:
            parts.append(tube([(x, out, level - 0.2), (x, out, level + 0.3)], 0.014))
    return parts


def _frame(rng: np.random.Generator, size: Vector) -> Parts:
    """Jambs and lintel, perhaps a threshold."""
    width, thick, height = size
    bar, deep = rng.uniform(0.05, 0.14), thick * rng.uniform(1.3, 3.0)
    parts = both(box((bar, deep, height), ((width + bar) / 2, 0, 0)))
    parts.append(box((width + 2 * bar, deep, bar), (0, 0, height)))
    return [*parts, box((width + 2 * bar, deep, 0.02), (0, 0, -0.02))] if chance(rng, 0.3) else parts


def _flight(rng: np.random.Generator, steps: int, step: Vector, *, solid: bool) -> Parts:
    """Straight flight that climbs along +y from the origin."""
    width, run, rise = step
    if solid:
        parts = [box((width, run, (i + 1) * rise), (0, (i + 0.5) * run, 0)) for i in range(steps)]
    else:
        thick, slope = rng.uniform(0.03, 0.06), (steps * run, steps * rise)
        parts = [
            box((width, run * rng.uniform(0.95, 1.1), thick), (0, (i + 0.5) * run, (i + 1) * rise - thick))
            for i in range(steps)
        ]
        stringers = (-0.5, 0.5) if chance(rng, 0.75) else (0,)
        parts += [_stringer(side * width * 0.96, slope, rise) for side in stringers]
    if chance(rng, 0.55):
        sides = (-1, 1) if chance(rng, 0.5) else (1,)
        for side in sides:
            parts += _rail(rng, side * width * 0.46, steps, (run, rise))
    return parts


def _stringer(x: float, slope: Vector, rise: float) -> Part:
    """Board on edge beneath the treads."""
    length, height = slope
    return taper(
        (0.04, rise * 1.6),
        (0.04, rise * 1.6),
        height,
        foot=(x, rise * 0.5, -rise * 0.3),
        shift=(0, length - rise),
    )


def _rail(rng: np.random.Generator, x: float, steps: int, step: Vector) -> Parts:
    """Handrail on balusters, one on each step or every other."""
    run, rise = step
    high, every = rng.uniform(0.75, 0.95), whole(rng, 1, 2)
    posts = [i for i in range(steps) if i % every == 0 or i == steps - 1]
    parts: Parts = [box((0.035, 0.035, high), (x, (i + 0.5) * run, (i + 1) * rise)) for i in posts]
    ends = [(x, (i + 0.5) * run, (i + 1) * rise + high) for i in (0, steps - 1)]
    return [*parts, tube(ends, 0.035)]


def _spiral(rng: np.random.Generator, steps: int, rise: float, reach: float) -> Parts:
    """Wedge-shaped treads round a column, with a handrail."""
    pitch, thick = rng.uniform(0.3, 0.5), rng.uniform(0.03, 0.08)
    corners, faces = box((reach * 0.9, pitch * reach, thick), (reach * 0.5, 0, 0))
    corners[:, 1] *= np.where(corners[:, 0] > reach / 2, 1, 0.25)
    parts = [tube([(0, 0, 0), (0, 0, (steps + 1) * rise)], reach * rng.uniform(0.05, 0.1), segments=14)]
    parts += [move(turn((corners, faces), 2, i * pitch), (0, 0, (i + 1) * rise)) for i in range(steps)]
    if chance(rng, 0.7):
        angle, level = np.arange(steps) * pitch, (np.arange(steps) + 1) * rise
        rim = np.column_stack([np.cos(angle) * reach * 0.92, np.sin(angle) * reach * 0.92, level])
        parts += [box((0.03, 0.03, 0.85), foot) for foot in rim]
        parts.append(tube(rim + np.array([0, 0, 0.85]), 0.03))
    return parts
