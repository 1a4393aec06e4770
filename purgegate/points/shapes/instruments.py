"""Guitar and piano; both are seen from −y."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Parts,
    Vector,
    both,
    box,
    cushion,
    ellipsoid,
    extrude,
    frustum,
    merge,
    move,
    smooth,
    taper,
    tube,
    turn,
    upright,
)

# Half of an acoustic guitar's outline from bottom to top; radii of electric ones every 30° from the bottom.
_ACOUSTIC = np.array([(0.1, -0.25), (0.18, -0.19), (0.19, -0.1), (0.125, 0.03), (0.145, 0.14), (0.09, 0.22)])
_ELECTRIC = {
    "horns": (0.22, 0.24, 0.2, 0.14, 0.17, 0.27, 0.15, 0.25, 0.18, 0.14, 0.2, 0.24),
    "single": (0.22, 0.24, 0.2, 0.15, 0.17, 0.26, 0.17, 0.2, 0.18, 0.15, 0.2, 0.24),
    "arrow": (0.1, 0.34, 0.2, 0.13, 0.12, 0.14, 0.16, 0.14, 0.12, 0.13, 0.2, 0.34),
}


def guitar(rng: np.random.Generator) -> Parts:
    """Acoustic or electric, with a neck, a head with pegs, a bridge and strings; upright or leaning."""
    acoustic = chance(rng, 0.55)
    thick = rng.uniform(0.07, 0.13) if acoustic else rng.uniform(0.03, 0.06)
    outline = _acoustic_outline(rng) if acoustic else _electric_outline(rng)
    body = extrude(outline, (0, 0.012, thick - 0.012, thick), scales=(0.96, 1, 1, 0.96))
    top, length = outline[:, 1].max() * 0.8, rng.uniform(0.32, 0.52)
    front = -thick
    parts = [upright(body)]
    neck = rng.uniform(0.045, 0.06)
    parts.append(taper((neck * 1.2, 0.025), (neck, 0.025), length + 0.1, foot=(0, front - 0.005, top - 0.1)))
    parts += _head(rng, neck, (0, front, top + length))
    bridge = -outline[:, 1].max() * rng.uniform(0.35, 0.6)
    parts.append(box((rng.uniform(0.1, 0.16), 0.02, 0.03), (0, front - 0.008, bridge)))
    for x in np.linspace(-0.4, 0.4, whole(rng, 4, 6)) * neck:
        parts.append(tube([(x, front - 0.022, bridge), (x, front - 0.022, top + length)], 0.0012, segments=4))
    if acoustic:
        hole = frustum(rng.uniform(0.04, 0.055), 0.04, 0.008, foot=(0, 0, 0))
        parts.append(move(turn(hole, 0, np.pi / 2), (0, front + 0.004, 0.06)))
    else:
        for z in np.linspace(bridge + 0.06, top - 0.1, whole(rng, 1, 3)):
            parts.append(box((0.08, 0.02, 0.03), (0, front - 0.005, z)))
        for z in (-0.1, -0.15)[: whole(rng, 0, 2)]:
            parts.append(ellipsoid((0.014, 0.014, 0.014), (0.1, front - 0.008, z), segments=8))
    if chance(rng, 0.4):
        parts = [turn(turn(merge(parts), 0, -rng.uniform(0, 0.35)), 1, rng.normal() * 0.12)]
    return parts


def piano(rng: np.random.Generator) -> Parts:
    """Upright or grand piano, sometimes with its stool."""
    width, keybed = rng.uniform(1.25, 1.55), rng.uniform(0.58, 0.72)
    grand = chance(rng, 0.45)
    parts = _grand(rng, width, keybed) if grand else _upright_case(rng, width, keybed)
    if chance(rng, 0.25):
        seat = -rng.uniform(0.5, 0.75) - 0.65 * grand
        parts.append(cushion((width * 0.5, 0.32, 0.07), (0, seat, keybed * 0.68), roundness=0.2))
        ends = [(x, y) for x in (-0.2, 0.2) for y in (-0.11, 0.11)]
        parts += [box((0.04, 0.04, keybed * 0.68), (x * width, seat + y, 0)) for x, y in ends]
    return parts


def _acoustic_outline(rng: np.random.Generator) -> np.ndarray:
    half = _ACOUSTIC * rng.uniform(0.9, 1.1, size=(6, 1)) * [rng.uniform(0.85, 1.1), rng.uniform(0.9, 1.1)]
    return smooth(np.concatenate([half, (half * [-1, 1])[::-1]]), steps=4, closed=True)


def _electric_outline(rng: np.random.Generator) -> np.ndarray:
    radii = np.array(_ELECTRIC[pick(rng, horns=0.5, single=0.3, arrow=0.2)]) * rng.uniform(
        0.93, 1.07, size=12
    )
    angles = np.arange(48) * 2 * np.pi / 48 - np.pi / 2
    return smooth(radii[:, None], steps=4, closed=True) * np.column_stack([np.cos(angles), np.sin(angles)])


def _head(rng: np.random.Generator, neck: float, foot: Vector) -> Parts:
    """Headstock with pegs on both sides or on one."""
    tall, wide = rng.uniform(0.11, 0.17), neck * rng.uniform(1.3, 1.8)
    parts = [taper((neck, 0.02), (wide, 0.016), tall, foot=foot, shift=(0, 0.02))]
    sides = (-1, 1) if chance(rng, 0.65) else (-1,)
    for side in sides:
        for z in np.linspace(0.2, 0.85, whole(rng, 2, 3) * (3 - len(sides))) * tall:
            ends = [(side * x, 0.01, z) for x in (neck * 0.5, wide * 0.5 + neck * 0.4 + 0.015)]
            parts.append(move(tube(ends, 0.006, segments=6), foot))
    return parts


def _keys(width: float, level: float, front: float) -> Parts:
    """White keys as one slab and black keys in twos and threes; the front edge is at y = front."""
    white = width / 28
    slab = box((width, 0.15, 0.02), (0, front + 0.075, level))
    black = box((white * 0.6, 0.09, 0.018), (-width / 2, front + 0.1, level + 0.018))
    return [slab, *(move(black, (i * white, 0, 0)) for i in range(1, 28) if i % 7 not in (0, 3))]


def _upright_case(rng: np.random.Generator, width: float, keybed: float) -> Parts:
    """Tall case with a ledge of keys, legs beneath it and pedals."""
    height, depth, ledge = rng.uniform(0.95, 1.4), rng.uniform(0.28, 0.42), rng.uniform(0.2, 0.28)
    y = -depth / 2 - ledge / 2
    parts = [box((width, depth, height), (0, 0, 0)), box((width, ledge, 0.1), (0, y, keybed - 0.1))]
    parts += _keys(width * 0.88, keybed, y - ledge / 2)
    parts += both(box((width * 0.06, ledge, 0.07), (width * 0.47, y, keybed)))
    parts += both(taper((0.05, 0.05), (0.08, 0.08), keybed - 0.1, foot=(width * 0.45, y - ledge * 0.3, 0)))
    parts += [box((0.03, 0.12, 0.015), (x, -depth / 2 - 0.06, 0.05)) for x in (-0.08, 0.0, 0.08)]
    if chance(rng, 0.7):
        parts.append(box((width * 1.03, depth * 1.1, 0.03), (0, 0, height)))
    if chance(rng, 0.6):
        rest = turn(box((width * rng.uniform(0.4, 0.8), 0.015, 0.22), (0, 0, 0)), 0, -0.25)
        parts.append(move(rest, (0, -depth / 2 - 0.06, keybed + 0.1)))
    return parts


def _grand(rng: np.random.Generator, width: float, keybed: float) -> Parts:
    """Wing-shaped case on three legs, with the lid often up."""
    half, long, rim = width / 2, rng.uniform(0.6, 1.15), rng.uniform(0.22, 0.32)
    bow = smooth(
        [
            (half, -0.1),
            (half * 0.85, 0.2 * long),
            (half * 0.3, 0.5 * long),
            (-half * 0.15, 0.92 * long),
            (-half * 0.6, long),
            (-half, 0.85 * long),
        ],
        steps=4,
    )
    outline = np.concatenate([[(-half, -0.45), (half, -0.45)], bow])
    parts = [move(extrude(outline, (0, rim)), (0, 0, keybed))]
    parts += [box((width, 0.2, 0.12), (0, -0.55, keybed)), *_keys(width * 0.9, keybed + 0.12, -0.65)]
    parts += both(box((width * 0.05, 0.2, 0.2), (half * 0.95, -0.55, keybed)))
    for x, y in ((-half * 0.85, -0.4), (half * 0.85, -0.4), (-half * 0.5, long * 0.75)):
        parts.append(taper((0.06, 0.06), (0.12, 0.12), keybed, foot=(x, y, 0)))
    parts.append(box((0.2, 0.04, keybed), (0, -0.4, 0.04)))
    if chance(rng, 0.65):
        lid = move(extrude(outline, (0, 0.025)), (half, 0, 0))
        parts.append(move(turn(lid, 1, -rng.uniform(0.4, 0.8)), (-half, 0, keybed + rim)))
        parts.append(tube([(half * 0.8, 0, keybed + rim), (half * 0.35, 0, keybed + rim + 0.55)], 0.012))
    parts.append(
        move(turn(box((width * 0.5, 0.015, 0.2), (0, 0, 0)), 0, -0.3), (0, -0.3, keybed + rim - 0.02))
    )
    return parts
