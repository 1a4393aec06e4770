"""Things to sit on: chair, stool, bench, sofa; the front looks along −y."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Part,
    Parts,
    Vector,
    both,
    box,
    cushion,
    frustum,
    merge,
    move,
    smooth,
    tube,
    turn,
)
from purgegate.points.shapes.supports import support


def chair(rng: np.random.Generator) -> Parts:
    """Seat for one with a back, from a low-backed bar chair to an office chair with arms."""
    width, depth, thick = rng.uniform(0.38, 0.62), rng.uniform(0.36, 0.56), rng.uniform(0.025, 0.12)
    height = rng.uniform(0.38, 0.52) if chance(rng, 0.85) else rng.uniform(0.55, 0.8)
    seat, under = _seat(rng, (width, depth, thick), height, round_share=0.1)
    parts = [seat, *support(rng, under, legs=0.55, pedestal=0.22, sled=0.18, panels=0.05)]
    tall = rng.uniform(0.14, 0.3) if chance(rng, 0.2) else rng.uniform(0.3, 0.75)
    back = _back(rng, width * rng.uniform(0.8, 1.0), tall)
    parts += _reclined(back, rng.uniform(-0.02, 0.35), depth, height + thick)
    if chance(rng, 0.4):
        parts += _arms(rng, (under[0], under[1], height + thick))
    return parts


def stool(rng: np.random.Generator) -> Parts:
    """Seat for one without a back, or with hardly any."""
    width, thick, height = rng.uniform(0.26, 0.48), rng.uniform(0.025, 0.1), rng.uniform(0.32, 0.85)
    depth = width * rng.uniform(0.75, 1.05)
    seat, under = _seat(rng, (width, depth, thick), height, round_share=0.5)
    parts = [seat, *support(rng, under, legs=0.5, three_legs=0.15, pedestal=0.2, sled=0.08, panels=0.07)]
    if chance(rng, 0.3):
        parts += _foot_ring(width * rng.uniform(0.38, 0.5), height * rng.uniform(0.2, 0.45))
    if chance(rng, 0.12):
        back = _back(rng, width * 0.85, rng.uniform(0.06, 0.16))
        parts += _reclined(back, rng.uniform(0, 0.2), depth, height + thick)
    return parts


def bench(rng: np.random.Generator) -> Parts:
    """Seat for several, of boards, often with a back and arms, as in a park."""
    width, depth, thick = rng.uniform(0.85, 2.0), rng.uniform(0.28, 0.5), rng.uniform(0.025, 0.08)
    height = rng.uniform(0.36, 0.5)
    seat, under = _seat(rng, (width, depth, thick), height, round_share=0.0)
    parts = support(rng, under, legs=0.4, panels=0.3, sled=0.15, trestle=0.15)
    parts += _slats((width, depth, thick), whole(rng, 3, 6), height) if chance(rng, 0.6) else [seat]
    if chance(rng, 0.5):
        tall = rng.uniform(0.25, 0.5)
        back = _boards(rng, width, tall) if chance(rng, 0.6) else _back(rng, width, tall)
        parts += _reclined(back, rng.uniform(0, 0.3), depth, height + thick)
    if chance(rng, 0.35):
        parts += _arms(rng, (under[0], under[1], height + thick))
    return parts


def sofa(rng: np.random.Generator) -> Parts:
    """Upholstered seat for one to four, with thick arms and cushions."""
    places = int(pick(rng, **{"1": 0.2, "2": 0.35, "3": 0.3, "4": 0.15}))
    width, depth = 0.45 + places * rng.uniform(0.48, 0.7), rng.uniform(0.7, 1.0)
    foot, base = rng.uniform(0.02, 0.16), rng.uniform(0.15, 0.3)
    arm = rng.uniform(0.08, 0.26) * (not chance(rng, 0.1))
    parts = support(rng, (width, depth, foot), legs=0.85, panels=0.15)
    parts.append(box((width, depth, base), (0, 0, foot)))
    seat, back = foot + base, rng.uniform(0.14, 0.26)
    thick, tall = rng.uniform(0.08, 0.2), rng.uniform(0.4, 0.62)
    parts.append(box((width, back * 0.6, tall * rng.uniform(0.7, 1.0)), (0, depth / 2 - back * 0.3, seat)))
    place = (width - 2 * arm) / places
    for x in (np.arange(places) - (places - 1) / 2) * place:
        parts.append(cushion((place * 0.98, depth - back, thick), (x, -back / 2, seat), roundness=0.25))
        rest = cushion((place * 0.98, back, tall), (0, 0, 0), roundness=0.35)
        parts.append(move(turn(rest, 0, -rng.uniform(0.05, 0.2)), (x, depth / 2 - back, seat + thick * 0.7)))
    if arm:
        parts += _sofa_arms(rng, (width, depth, arm), seat, thick)
    if chance(rng, 0.2):
        reach = rng.uniform(0.4, 0.8)
        at = (width / 2 - arm - place / 2, -depth / 2 - reach / 2, foot)
        parts.append(cushion((place, reach, base + thick), at, roundness=0.2))
    for _ in range(whole(rng, 1, 3) * chance(rng, 0.3)):
        pillow = cushion((0.4, 0.13, 0.38), (0, 0, 0), roundness=0.5)
        x = rng.uniform(-0.4, 0.4) * (width - 2 * arm)
        parts.append(move(turn(pillow, 0, -0.4), (x, depth / 2 - back * 1.7, seat + thick)))
    return parts


def _seat(
    rng: np.random.Generator, size: Vector, height: float, *, round_share: float
) -> tuple[Part, Vector]:
    """Round, soft or plain seat at a height, and the size of what it stands on."""
    width, depth, thick = size
    if chance(rng, round_share):
        disc = frustum(0.5 * rng.uniform(0.8, 1), 0.5, thick, foot=(0, 0, height), segments=24)
        return (disc[0] * [width, depth, 1], disc[1]), (width * 0.75, depth * 0.75, height)
    if chance(rng, 0.5):
        soft = cushion((width, depth, max(thick, 0.05)), (0, 0, height), roundness=rng.uniform(0.15, 0.5))
        return soft, (width, depth, height)
    return box(size, (0, 0, height)), (width, depth, height)


def _back(rng: np.random.Generator, width: float, height: float) -> Parts:
    """Upright back in the plane y = 0, from z = 0."""
    kind = pick(rng, panel=0.25, soft=0.2, slats=0.22, rungs=0.18, loop=0.15)
    thick = rng.uniform(0.018, 0.06)
    if kind == "panel":
        low = rng.uniform(0, 0.4) * height
        return [*_posts(width * 0.9, low + 0.01, thick), box((width, thick, height - low), (0, 0, low))]
    if kind == "soft":
        return [cushion((width, max(thick, 0.05) * 1.5, height), (0, 0, 0), roundness=rng.uniform(0.2, 0.6))]
    if kind == "rungs":
        return _boards(rng, width, height)
    inner = np.linspace(-0.5, 0.5, whole(rng, 4, 7))[1:-1] * width
    spindles: Parts = [tube([(x, 0, 0), (x, 0, height * 0.96)], thick * 0.3, segments=6) for x in inner]
    if kind == "slats":
        rail = box((width, thick, min(0.3 * height, 0.09)), (0, 0, height - min(0.3 * height, 0.09)))
        return [*_posts(width - thick, height, thick), rail, *spindles]
    bow = [
        (-width / 2, 0, 0),
        (-width * 0.48, 0, height * 0.7),
        (0, 0, height),
        (width * 0.48, 0, height * 0.7),
        (width / 2, 0, 0),
    ]
    hoop = tube(smooth(bow), thick / 2)
    if chance(rng, 0.6):
        return [hoop, *spindles[1:-1]]
    return [hoop, cushion((width * 0.8, thick, height * 0.6), (0, 0, height * 0.28), roundness=0.4)]


def _boards(rng: np.random.Generator, width: float, height: float) -> Parts:
    """Two posts and boards across them."""
    count, thick = whole(rng, 2, 4), rng.uniform(0.02, 0.04)
    pitch = height / (count + 0.3)
    boards = [
        box((width, thick, pitch * 0.6), (0, -thick / 2, height - (i + 0.75) * pitch)) for i in range(count)
    ]
    return [*_posts(width * rng.uniform(0.85, 0.97), height, thick * 1.2), *boards]


def _posts(span: float, height: float, thick: float) -> Parts:
    return [box((thick, thick, height), (x, 0, 0)) for x in (-span / 2, span / 2)]


def _reclined(back: Parts, angle: float, depth: float, height: float) -> Parts:
    """Back leaning away from the sitter, at the rear edge of a seat."""
    return [move(turn(merge(back), 0, -angle), (0, depth / 2 - 0.02, height - 0.02))]


def _arms(rng: np.random.Generator, size: Vector) -> Parts:
    """Two armrests above a seat: boards on posts, bent bars, or closed sides."""
    width, depth, height = size
    rise, thick = rng.uniform(0.15, 0.27), rng.uniform(0.025, 0.07)
    x, kind = width / 2 + thick / 2, pick(rng, posts=0.5, bars=0.3, sides=0.2)
    if kind == "sides":
        return both(box((thick, depth, rise + 0.1), (x, 0, height - 0.1)))
    if kind == "bars":
        bend = [
            (depth * 0.45, rise * 0.95),
            (-depth * 0.25, rise),
            (-depth * 0.4, rise * 0.85),
            (-depth * 0.4, -0.03),
        ]
        return both(tube([(x, y, height + z) for y, z in bend], thick * 0.35))
    post = box((thick * 0.7, thick * 0.7, rise + 0.03), (x, -depth * 0.35, height - 0.03))
    return [*both(post), *both(box((thick, depth * 0.95, thick * 0.6), (x, 0, height + rise)))]


def _sofa_arms(rng: np.random.Generator, size: Vector, seat: float, thick: float) -> Parts:
    """Two upholstered arms, square, soft or rolled."""
    width, depth, arm = size
    x, rise = (width - arm) / 2, thick + rng.uniform(0.05, 0.25)
    kind = pick(rng, square=0.35, soft=0.4, rolled=0.25)
    if kind == "soft":
        return both(cushion((arm, depth, rise + 0.1), (x, 0, seat - 0.1), roundness=0.25))
    square = both(box((arm, depth, rise), (x, 0, seat)))
    if kind == "square":
        return square
    roll = tube([(x, y, seat + rise) for y in (-depth / 2 - 0.01, depth / 2)], arm * 0.6, segments=14)
    return [*square, *both(roll)]


def _slats(size: Vector, count: int, height: float) -> Parts:
    """Seat of boards along x with gaps between them."""
    width, depth, thick = size
    pitch = depth / count
    centres = (np.arange(count) - (count - 1) / 2) * pitch
    return [box((width, pitch * 0.75, thick), (0, y, height)) for y in centres]


def _foot_ring(radius: float, height: float) -> Parts:
    """Ring to rest the feet on, with two bars across it."""
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.column_stack([np.cos(angles) * radius, np.sin(angles) * radius, np.full(24, height)])
    bars = [tube(ring[[start, start + 12]], 0.008, segments=6) for start in (3, 9)]
    return [tube(ring, 0.012, closed=True), *bars]
