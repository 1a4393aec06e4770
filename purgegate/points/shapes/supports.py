"""What a seat or a top stands on: legs, pedestals, sleds, panels, trestles."""

from collections.abc import Callable

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Part,
    Parts,
    Vector,
    both,
    box,
    frustum,
    mirror,
    move,
    revolve,
    smooth,
    taper,
    tube,
)

_CORNERS = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], dtype=np.float64)


def support(rng: np.random.Generator, size: Vector, **weights: float) -> Parts:
    """One of the named kinds of support, under a top of size (width, depth) at a height."""
    return SUPPORTS[pick(rng, **weights)](rng, size)


def legs(rng: np.random.Generator, size: Vector) -> Parts:
    """Four legs, round or square, straight or splayed, perhaps with stretchers."""
    width, depth, height = size
    thick = min(width, depth) * rng.uniform(0.05, 0.12)
    heads = _CORNERS * (np.array([width, depth]) / 2 - thick * rng.uniform(0.6, 1.6))
    feet = heads * (1 + chance(rng, 0.5) * rng.uniform(0, 0.22))
    thin = thick * rng.uniform(0.45, 1.0)
    round_legs = chance(rng, 0.5)
    parts = [
        _leg(foot, head, height, thin, thick, round_legs) for foot, head in zip(feet, heads, strict=True)
    ]
    if chance(rng, 0.4):
        parts += _stretchers(rng, feet, heads, height, thin * rng.uniform(0.5, 0.9))
    return parts


def three_legs(rng: np.random.Generator, size: Vector) -> Parts:
    """Three round legs spread from the middle."""
    spread, height = min(size[0], size[1]) / 2, size[2]
    thick = spread * rng.uniform(0.1, 0.2)
    angles = np.arange(3) * 2 * np.pi / 3 + rng.uniform(0, np.pi)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    heads, feet = circle * spread * 0.7, circle * spread * rng.uniform(0.8, 1.2)
    return [
        _leg(foot, head, height, thick * 0.7, thick, True) for foot, head in zip(feet, heads, strict=True)
    ]


def pedestal(rng: np.random.Generator, size: Vector) -> Parts:
    """One column, plain or turned, on a disc, a plate or a star of feet."""
    width, depth, height = size
    reach, radius = min(width, depth) / 2, min(width, depth) * rng.uniform(0.04, 0.12)
    base = height * rng.uniform(0.04, 0.1)
    if chance(rng, 0.25):
        swell = smooth(
            [(radius * rng.uniform(0.6, 2.0), level) for level in np.linspace(0, height - base, 5)], steps=4
        )
        swell[:, 0] = np.maximum(swell[:, 0], radius * 0.4)
        column = revolve(swell, foot=(0, 0, base), segments=16)
    else:
        column = frustum(radius, radius * rng.uniform(0.6, 1), height - base, foot=(0, 0, base), segments=14)
    spread = reach * rng.uniform(0.6, 1.0)
    kind = pick(rng, star=0.5, disc=0.35, plate=0.15)
    if kind == "star":
        return [column, *_star(rng, spread, radius, base)]
    if kind == "disc":
        return [column, frustum(spread, spread * rng.uniform(0.3, 0.95), base, foot=(0, 0, 0), segments=24)]
    return [column, box((spread * 1.6, spread * 1.6, base), (0, 0, 0))]


def sled(rng: np.random.Generator, size: Vector) -> Parts:
    """Bent bar at each side, resting on the floor along its length."""
    width, depth, height = size
    radius = min(width, depth) * rng.uniform(0.025, 0.05)
    reach, x = depth / 2 * rng.uniform(0.8, 1.0), width / 2 - radius * rng.uniform(1, 3)
    lean = reach * rng.uniform(0.7, 1.1)
    bend = [
        (reach, height),
        (lean, radius * 2),
        (lean * 0.9, radius),
        (-lean * 0.9, radius),
        (-lean, radius * 2),
    ]
    if not chance(rng, 0.3):  # the rest are cantilevers, which spring from the floor at the front only
        bend.append((-reach, height))
    else:
        bend = [(y * -1, z) for y, z in bend]
    sides: Parts = both(tube([(x, y, z) for y, z in bend], radius))
    if chance(rng, 0.6):
        y = float(rng.choice([-1, 1])) * lean * 0.8
        sides.append(tube([(-x, y, radius), (x, y, radius)], radius * 0.9))
    return sides


def panels(rng: np.random.Generator, size: Vector) -> Parts:
    """Board at each end, perhaps with one between them."""
    width, depth, height = size
    thick = height * rng.uniform(0.04, 0.14)
    x, span = width / 2 - thick * rng.uniform(0.5, 2.5), depth * rng.uniform(0.75, 1.0)
    foot = span * rng.uniform(0.8, 1.15)
    parts = both(taper((thick, foot), (thick, span), height, foot=(x, 0, 0)))
    if chance(rng, 0.55):
        rise = height * rng.uniform(0.15, 0.9)
        parts.append(box((2 * x, thick * 0.7, rise), (0, depth * rng.uniform(-0.1, 0.35), height - rise)))
    return parts


def trestle(rng: np.random.Generator, size: Vector) -> Parts:
    """Two pairs of crossed or leaning boards joined by a bar."""
    width, depth, height = size
    thick, reach = depth * rng.uniform(0.06, 0.12), depth * rng.uniform(0.35, 0.48)
    x, crossed = width * rng.uniform(0.32, 0.45), chance(rng, 0.6)
    head = -reach if crossed else reach * rng.uniform(0.1, 0.5)
    # Crossed boards pass beside each other.
    foot, shift = (x + crossed * thick / 2, reach, 0), (0, head - reach)
    board = taper((thick, thick), (thick, thick), height, foot=foot, shift=shift)
    opposite = mirror(move(board, (-crossed * thick, 0, 0)), 1)
    parts = [*both(board), *both(opposite)]
    level = height * (0.5 if crossed else rng.uniform(0.2, 0.8))
    parts.append(box((2 * x, thick, thick), (0, 0, level - thick / 2)))
    return parts


def _leg(foot: Vector, head: Vector, height: float, thin: float, thick: float, round_leg: bool) -> Part:
    if round_leg:
        return tube([(*foot, 0), (*head, height)], [thin / 2, thick / 2], segments=10)
    shift = np.asarray(head) - np.asarray(foot)
    return taper((thin, thin), (thick, thick), height, foot=(*foot, 0), shift=shift)


def _stretchers(
    rng: np.random.Generator, feet: np.ndarray, heads: np.ndarray, height: float, thick: float
) -> Parts:
    """Bars between neighbouring legs: on two sides, on all sides, or as an H."""
    level = rng.uniform(0.15, 0.6)
    joints = np.column_stack([feet + level * (heads - feet), np.full(4, level * height)])
    kind = pick(rng, sides=0.3, all=0.45, h=0.25)
    pairs = [(0, 3), (1, 2)] + [(0, 1), (2, 3)] * (kind == "all")
    parts = [tube([joints[a], joints[b]], thick / 2) for a, b in pairs]
    if kind == "h":
        parts.append(tube([(joints[0] + joints[3]) / 2, (joints[1] + joints[2]) / 2], thick / 2))
    return parts


def _star(rng: np.random.Generator, spread: float, radius: float, height: float) -> Parts:
    """Feet that reach out from a column, perhaps on casters."""
    count, casters = whole(rng, 3, 5), chance(rng, 0.4)
    parts: Parts = []
    for angle in 2 * np.pi * (np.arange(count) + rng.random()) / count:
        tip = np.array([np.cos(angle), np.sin(angle)]) * spread
        parts.append(tube([(0, 0, height * 1.2), (*tip, height * 0.6)], [radius, radius * 0.5]))
        if casters:
            parts.append(frustum(radius * 0.7, radius * 0.7, height * 0.5, foot=(*tip, 0), segments=8))
    return parts


SUPPORTS: dict[str, Callable[[np.random.Generator, Vector], Parts]] = {
    "legs": legs,
    "three_legs": three_legs,
    "pedestal": pedestal,
    "sled": sled,
    "panels": panels,
    "trestle": trestle,
}
