"""Cars; the nose points along −y."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick
from purgegate.points.shapes.primitives import (
    Part,
    Parts,
    Vector,
    across,
    both,
    box,
    ellipsoid,
    extrude,
    loft,
    move,
    tube,
)

# For each kind of car: length, height of the hull and of the cabin, then where the cabin starts and ends at
# its foot and at its roof, as parts of the length from the nose.
_CARS = {
    "sedan": (4.6, 0.62, 0.52, (0.27, 0.82), (0.42, 0.7)),
    "hatch": (3.9, 0.66, 0.58, (0.25, 0.98), (0.4, 0.86)),
    "suv": (4.6, 0.85, 0.7, (0.26, 0.99), (0.36, 0.95)),
    "van": (4.9, 0.9, 0.95, (0.1, 1.0), (0.2, 0.99)),
    "pickup": (5.2, 0.85, 0.65, (0.27, 0.6), (0.37, 0.57)),
    "sports": (4.3, 0.5, 0.42, (0.34, 0.86), (0.5, 0.68)),
}


def car(rng: np.random.Generator) -> Parts:
    """Sedan, hatchback, off-roader, van, pick-up or sports car on four wheels."""
    kind = pick(rng, sedan=0.25, hatch=0.2, suv=0.17, van=0.12, pickup=0.12, sports=0.14)
    length, low, high, foot, roof = _CARS[kind]
    length, low, high = np.array([length, low, high]) * rng.uniform(0.88, 1.12, size=3)
    width, wheel = rng.uniform(1.6, 1.95), rng.uniform(0.3, 0.4) * (1.12 if kind in ("suv", "pickup") else 1)
    ground = wheel * rng.uniform(0.45, 0.85)
    parts = [_hull(rng, (width, length, low), ground)]
    parts.append(_cabin(rng, (width, length, high), foot, roof, ground + low))
    for y in (-length * rng.uniform(0.29, 0.34), length * rng.uniform(0.27, 0.33)):
        parts += _wheels(width / 2, y, wheel)
    if kind == "pickup":
        parts += _bed(width, length, ground + low)
    return parts + _trim(rng, (width, length, low), (ground, high, foot[0]))


def _hull(rng: np.random.Generator, size: Vector, ground: float) -> Part:
    """Lower body from its side view, with rounded flanks."""
    width, length, height = size
    nose, tail = rng.uniform(0.5, 0.85), rng.uniform(0.7, 1.0)
    bottom = [(-1, -0.8), (-0.93, -1), (0.95, -1), (1, -0.7)]
    top = [(1, 2 * tail - 1), (0.92, 1), (-0.4, 1), (-0.85, 2 * nose - 0.9), (-1, 1.6 * nose - 1)]
    side = np.array(bottom + top) * [length / 2, height / 2]
    levels = np.array([-0.5, -0.46, 0.46, 0.5]) * width
    return move(across(extrude(side, levels, scales=(0.93, 1, 1, 0.93))), (0, 0, ground + height / 2))


def _cabin(rng: np.random.Generator, size: Vector, foot: Vector, roof: Vector, level: float) -> Part:
    """Glass house that narrows to the roof."""
    width, length, height = size
    ends = (np.array([*foot, *roof]) + rng.normal(size=4) * 0.012 - 0.5) * length
    part, half = np.array([-0.02, 0.85, 1.0]), np.array([0.47, 0.42 * rng.uniform(0.92, 1), 0.36]) * width
    front, back = (ends[i] + part * (ends[i + 2] - ends[i]) for i in (0, 1))
    z = level + part * height
    rings = np.stack([(-half, front, z), (half, front, z), (half, back, z), (-half, back, z)], axis=0)
    rings = rings.transpose(2, 0, 1)
    return loft(rings, rings[[0, -1]].mean(axis=1))


def _wheels(x: float, y: float, radius: float) -> Parts:
    """Tyre and hub, left and right."""
    along = np.array([-0.22, -0.17, 0.01, 0.05]) + x
    tyre = tube([(at, y, radius) for at in along], np.array([0.85, 1, 1, 0.85]) * radius, segments=20)
    hub = tube([(x - 0.1, y, radius), (x + 0.07, y, radius)], radius * 0.45, segments=12)
    return [*both(tyre), *both(hub)]


def _bed(width: float, length: float, level: float) -> Parts:
    """Side walls and tailgate of a pick-up."""
    start, end = 0.12 * length, 0.49 * length
    wall = box((0.08, end - start, 0.3), (width * 0.45, (start + end) / 2, level - 0.02))
    return [*both(wall), box((width * 0.9, 0.08, 0.3), (0, end, level - 0.02))]


def _trim(rng: np.random.Generator, size: Vector, levels: Vector) -> Parts:
    """Bumpers, lights and mirrors, and what only some cars have."""
    width, length, low = size
    ground, high, glass = levels
    belt = ground + low
    parts = [
        box((width * 0.96, 0.15, low * 0.3), (0, y, ground + low * 0.1)) for y in (-length / 2, length / 2)
    ]
    light = (width * 0.38, -length * 0.485, ground + low * 0.5)
    parts += both(ellipsoid((0.14, 0.08, 0.08), light, segments=10))
    parts += both(box((0.16, 0.08, 0.12), (width / 2 + 0.03, (glass - 0.42) * length, belt)))
    if chance(rng, 0.2):
        parts.append(box((width * 0.85, 0.25, 0.04), (0, length * 0.47, belt + 0.2)))
        parts += both(box((0.05, 0.15, 0.22), (width * 0.3, length * 0.47, belt - 0.01)))
    if chance(rng, 0.15):
        rail = [(width * 0.3, y * length, belt + high + 0.05) for y in (-0.1, 0.25)]
        parts += both(tube(rail, 0.03))
    return parts
