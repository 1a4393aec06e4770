"""Bed, table and desk; the front looks along −y."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Part,
    Parts,
    Vector,
    box,
    cushion,
    extrude,
    frustum,
    merge,
    move,
    smooth,
    turn,
    upright,
)
from purgegate.points.shapes.storage import drawers
from purgegate.points.shapes.supports import support


def bed(rng: np.random.Generator) -> Parts:
    """Mattress with pillows on a frame, often with a headboard; sometimes a bunk or four posts."""
    width, length = rng.uniform(0.8, 2.0), rng.uniform(1.75, 2.2)
    foot, frame, soft = rng.uniform(0.03, 0.3), rng.uniform(0.06, 0.25), rng.uniform(0.12, 0.3)
    parts = support(rng, (width, length, foot), legs=0.7, panels=0.3)
    parts += _berth(rng, (width, length), (foot, frame, soft))
    head = foot + frame + soft
    if chance(rng, 0.9):
        parts += _headboard(rng, width * rng.uniform(1.0, 1.12), head + rng.uniform(0.15, 0.75), length / 2)
    if chance(rng, 0.4):
        low = head * rng.uniform(0.8, 1.25)
        parts.append(box((width * 1.04, 0.06, low), (0, -length / 2 - 0.03, 0)))
    kind = pick(rng, plain=0.82, bunk=0.08, posts=0.1)
    if kind != "plain":
        parts += _posts_or_bunk(rng, (width, length), kind == "bunk", (foot, frame, soft))
    return parts


def table(rng: np.random.Generator) -> Parts:
    """Flat top on any support, from a coffee table to a bar table."""
    height = rng.uniform(0.6, 0.85)
    if chance(rng, 0.3):
        height = rng.uniform(0.3, 0.5) if chance(rng, 0.65) else rng.uniform(0.9, 1.15)
    width = max(rng.uniform(0.5, 2.2), 0.8 * height)  # narrower, it would be a stool
    depth, thick = width * rng.uniform(0.4, 1.0), rng.uniform(0.015, 0.08)
    oval = chance(rng, 0.35)
    under = (width * (0.7 if oval else 0.95), depth * (0.7 if oval else 0.95), height)
    parts = support(rng, under, legs=0.55, pedestal=0.15 + 0.3 * oval, sled=0.08, panels=0.1, trestle=0.12)
    parts.append(_top(rng, (width, depth, thick), height, oval))
    if chance(rng, 0.35):
        rim = rng.uniform(0.04, 0.12)
        parts.append(box((under[0] * 0.9, under[1] * 0.9, rim), (0, 0, height - rim)))
    if chance(rng, 0.15):
        parts.append(box((under[0] * 0.85, under[1] * 0.85, 0.025), (0, 0, height * rng.uniform(0.15, 0.5))))
    return parts


def desk(rng: np.random.Generator) -> Parts:
    """Table to work at: drawers beneath, a back panel, sometimes a hutch or a second wing."""
    width, depth, height = rng.uniform(0.95, 1.9), rng.uniform(0.45, 0.85), rng.uniform(0.66, 0.8)
    thick, box_width = rng.uniform(0.02, 0.06), rng.uniform(0.28, 0.45)
    parts: Parts = [box((width, depth, thick), (0, 0, height))]
    kind = pick(rng, one=0.45, two=0.3, flat=0.2, none=0.05)
    for side in {"one": (1,), "two": (-1, 1)}.get(kind, ()):
        low = 0.0 if chance(rng, 0.7) else height * rng.uniform(0.3, 0.6)
        unit = drawers(rng, (box_width, depth * 0.9, height - low), whole(rng, 2, 4), 1)
        parts.append(move(merge(unit), (side * (width * 0.49 - box_width / 2), 0, low)))
    if kind == "flat":
        unit = drawers(rng, (width * 0.9, depth * 0.9, 0.13), 1, whole(rng, 1, 3))
        parts.append(move(merge(unit), (0, 0, height - 0.13)))
    if kind != "two" or chance(rng, 0.3):
        parts += support(rng, (width * 0.97, depth * 0.95, height), legs=0.6, panels=0.4)
    if chance(rng, 0.6):
        rise = height * rng.uniform(0.3, 0.9)
        parts.append(box((width * 0.95, 0.02, rise), (0, depth * 0.4, height - rise)))
    if chance(rng, 0.22):
        parts += _hutch(rng, (width, depth), height + thick)
    if chance(rng, 0.15):
        x, reach = depth * 0.4 - width / 2, rng.uniform(0.4, 0.8)
        parts.append(box((depth * 0.8, reach, thick), (x, -depth / 2 - reach / 2, height)))
        parts.append(box((depth * 0.75, 0.03, height), (x, 0.03 - depth / 2 - reach, 0)))
    return parts


def _berth(rng: np.random.Generator, flat: Vector, levels: Vector) -> Parts:
    """Frame, mattress, pillows at the head and perhaps a blanket."""
    width, length = flat
    foot, frame, soft = levels
    top = foot + frame + soft
    parts: Parts = [box((width, length, frame), (0, 0, foot))]
    flatness = rng.uniform(0.12, 0.25)
    parts.append(cushion((width * 0.98, length * 0.98, soft), (0, 0, foot + frame), roundness=flatness))
    count = 1 if width < 1.2 else 2
    for x in (np.arange(count) - (count - 1) / 2) * width * 0.47:
        size = (width / count * rng.uniform(0.7, 0.9), rng.uniform(0.3, 0.45), rng.uniform(0.09, 0.18))
        pillow = turn(cushion(size, (0, 0, 0), roundness=0.5), 0, rng.uniform(0, 0.5))
        parts.append(move(pillow, (x, length * 0.36, top - 0.02)))
    if chance(rng, 0.5):
        reach = length * rng.uniform(0.3, 0.7)
        at = (0, (reach - length) / 2, top - soft * 0.82)
        parts.append(cushion((width * 1.03, reach, soft * 0.9), at, roundness=0.15))
    return parts


def _headboard(rng: np.random.Generator, width: float, height: float, y: float) -> Parts:
    """Board at the head: a panel, an arch, a cushion, or bars between two posts."""
    thick, kind = rng.uniform(0.04, 0.1), pick(rng, panel=0.35, arch=0.2, soft=0.2, bars=0.25)
    at = (0.0, y + thick / 2, 0.0)
    if kind == "panel":
        return [box((width, thick, height), at)]
    if kind == "soft":
        return [cushion((width, thick * 1.5, height), at, roundness=0.25)]
    if kind == "arch":
        bow = smooth(
            [
                (width / 2, height * 0.1),
                (width * 0.3, height / 2),
                (-width * 0.3, height / 2),
                (-width / 2, height * 0.1),
            ]
        )
        outline = np.concatenate([[(-width / 2, -height / 2), (width / 2, -height / 2)], bow])
        return [move(upright(extrude(outline, (0, thick))), (0, y + thick, height / 2))]
    posts = [box((thick, thick, height * 1.03), (x, at[1], 0)) for x in (-width / 2, width / 2)]
    rail = box((width, thick * 0.8, thick), (0, at[1], height - thick))
    inner = np.linspace(-0.5, 0.5, whole(rng, 6, 11))[1:-1] * width
    return [*posts, rail, *(box((0.025, 0.025, height * 0.8), (x, at[1], height * 0.15)) for x in inner)]


def _posts_or_bunk(rng: np.random.Generator, flat: Vector, bunk: bool, levels: Vector) -> Parts:
    """Tall posts at the corners, which carry a second berth or a canopy frame."""
    width, length = flat
    tall, thick = rng.uniform(1.4, 1.9), rng.uniform(0.04, 0.09)
    ends = [(x, y) for x in (-width / 2, width / 2) for y in (-length / 2, length / 2)]
    parts: Parts = [box((thick, thick, tall), (x, y, 0)) for x, y in ends]
    if bunk:
        level = tall - rng.uniform(0.3, 0.5)
        return [*parts, *_berth(rng, flat, (level, levels[1] / 2, levels[2] * 0.8))]
    parts += [box((width, thick, thick), (0, y, tall - thick)) for y in (-length / 2, length / 2)]
    return parts + [box((thick, length, thick), (x, 0, tall - thick)) for x in (-width / 2, width / 2)]


def _top(rng: np.random.Generator, size: Vector, height: float, oval: bool) -> Part:
    width, depth, thick = size
    if oval:
        disc = frustum(0.5 * rng.uniform(0.9, 1), 0.5, thick, foot=(0, 0, height), segments=32)
        return disc[0] * [width, depth, 1], disc[1]
    return box(size, (0, 0, height)) if chance(rng, 0.75) else cushion(size, (0, 0, height), roundness=0.15)


def _hutch(rng: np.random.Generator, flat: Vector, height: float) -> Parts:
    """Open shelf over the rear of a desk."""
    width, depth = flat
    rise, deep = rng.uniform(0.25, 0.6), depth * rng.uniform(0.3, 0.45)
    y = depth / 2 - deep / 2
    columns = np.linspace(-0.5, 0.5, whole(rng, 2, 4)) * (width - 0.03)
    boards = [box((0.025, deep, rise), (x, y, height)) for x in columns]
    boards += [
        box((width, deep, 0.025), (0, y, height + level * rise))
        for level in ([1] if rise < 0.4 else [0.5, 1])
    ]
    return [*boards, box((width, 0.015, rise), (0, depth / 2 - 0.008, height))]
