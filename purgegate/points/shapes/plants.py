"""Potted plant, and flowers for a vase."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Part,
    Parts,
    Vector,
    blade,
    ellipsoid,
    frustum,
    revolve,
    smooth,
    taper,
    tube,
)


def plant(rng: np.random.Generator) -> Parts:
    """Pot with blades, arching leaves, a bush, a small tree or a cactus."""
    radius, height = rng.uniform(0.08, 0.17), rng.uniform(0.1, 0.3)
    parts = _pot(rng, radius, height)
    kind = pick(rng, rosette=0.28, fern=0.22, bush=0.18, tree=0.2, cactus=0.12)
    if kind == "rosette":
        return parts + _leaves(
            rng, whole(rng, 8, 20), (rng.uniform(0.25, 0.8), rng.uniform(0.05, 0.35)), height
        )
    if kind == "fern":
        return parts + _leaves(
            rng, whole(rng, 12, 28), (rng.uniform(0.25, 0.6), rng.uniform(0.6, 1.1)), height
        )
    if kind == "bush":
        return parts + _bush(rng, radius, height)
    if kind == "tree":
        return parts + _tree(rng, height)
    return parts + _cactus(rng, radius, height)


def bouquet(rng: np.random.Generator, radius: float, height: float) -> Parts:
    """Stems with blossoms that spread from an opening."""
    parts: Parts = []
    for _ in range(whole(rng, 2, 7)):
        angle, rise = rng.uniform(0, 2 * np.pi), height * rng.uniform(0.25, 0.7)
        out = np.array([np.cos(angle), np.sin(angle)])
        tip = np.array([*(out * (radius + rise * rng.uniform(0.1, 0.5))), height + rise])
        parts.append(
            tube(
                smooth([(0, 0, height * 0.4), (*(out * radius * 0.7), height), tip], steps=4),
                0.004,
                segments=5,
            )
        )
        parts.append(_blossom(tip, rng.uniform(0.02, 0.045)))
        if chance(rng, 0.5):
            middle = np.array([*(out * radius * 0.8), height + rise * 0.2])
            parts.append(_leaf(middle, angle + rng.normal(), (0.12, 0.7), 0.04))
    return parts


def _pot(rng: np.random.Generator, radius: float, height: float) -> Parts:
    """Round or square pot filled with earth nearly to the rim."""
    foot = radius * rng.uniform(0.55, 0.95)
    if chance(rng, 0.25):
        return [taper((foot * 2, foot * 2), (radius * 2, radius * 2), height, foot=(0, 0, 0))]
    rim = radius * rng.uniform(1.0, 1.12)
    outer = [
        (foot, 0),
        (radius, height * 0.82),
        (rim, height * 0.83),
        (rim, height),
        (rim * 0.9, height),
        (rim * 0.88, height * 0.9),
    ]
    parts = [revolve(outer)]
    if chance(rng, 0.25):
        parts.append(frustum(radius * 1.1, radius * 1.2, height * 0.08, foot=(0, 0, -height * 0.06)))
    return parts


def _leaf(root: Vector, angle: float, shape: Vector, width: float) -> Part:
    """One leaf from a root: of a length, bending down by a number of radians along it."""
    length, bend = shape
    out = np.array([np.cos(angle), np.sin(angle), 0])
    pitch = np.linspace(1.45 - bend * 0.4, 1.45 - bend * 2, 7)[:, None]
    steps = (np.cos(pitch) * out + np.sin(pitch) * [0, 0, 1]) * length / 7
    path = np.asarray(root) + np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])
    widths = width * np.sin(np.pi * np.linspace(0.12, 1, 8) ** 0.8)
    return blade(path, widths, side=(-out[1], out[0], 0))


def _leaves(rng: np.random.Generator, count: int, shape: Vector, height: float) -> Parts:
    """Leaves that spring from the earth in all directions."""
    length, bend = shape
    width = length * rng.uniform(0.08, 0.28)
    parts: Parts = []
    for angle in np.arange(count) * 2.4:
        root = np.array([np.cos(angle), np.sin(angle), 0]) * rng.uniform(0.005, 0.05) + [0, 0, height * 0.85]
        size = (length * rng.uniform(0.6, 1.0), bend * rng.uniform(0.5, 1.3))
        parts.append(_leaf(root, angle + rng.normal() * 0.2, size, width * rng.uniform(0.8, 1.2)))
    return parts


def _bush(rng: np.random.Generator, radius: float, height: float) -> Parts:
    """Crown of small leaves round a few twigs."""
    size, lift = radius * rng.uniform(1.1, 2.2), height + radius * rng.uniform(0.8, 1.8)
    return [
        tube([(0, 0, height * 0.8), (0, 0, lift)], 0.015),
        *_crown(rng, np.array([0, 0, lift]), size, whole(rng, 50, 90)),
    ]


def _crown(rng: np.random.Generator, centre: Vector, size: float, count: int) -> Parts:
    """Leaves scattered round a ball, pointing outwards and aside."""
    away, aside = rng.normal(size=(2, count, 3))
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    roots = np.asarray(centre) + away * size * rng.uniform(0.4, 0.7, size=(count, 1))
    ahead = away + aside * 0.6
    ahead *= rng.uniform(0.35, 0.6, size=(count, 1)) * size / np.linalg.norm(ahead, axis=1, keepdims=True)
    across = np.cross(ahead, away[::-1])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    paths = roots[:, None] + np.linspace(0, 1, 4)[:, None] * ahead[:, None]
    widths = np.array([0, 0.8, 1, 0]) * size * rng.uniform(0.2, 0.4)
    leaves = [blade(path, widths, side=side) for path, side in zip(paths, across, strict=True)]
    return [ellipsoid((size * 0.5,) * 3, centre, segments=12), *leaves]


def _tree(rng: np.random.Generator, height: float) -> Parts:
    """Trunk with a ball of leaves, or a palm with a tuft."""
    tall, lean = rng.uniform(0.3, 0.9), rng.normal(size=2) * 0.05
    top = np.array([*lean, height + tall])
    trunk = tube(
        smooth([(0, 0, height * 0.8), (*(lean * 0.2), height + tall * 0.5), top], steps=4),
        rng.uniform(0.01, 0.025),
    )
    if chance(rng, 0.4):
        count, length = whole(rng, 8, 14), tall * rng.uniform(0.5, 0.9)
        fronds = [_leaf(top, i * 2.4, (length, rng.uniform(0.5, 0.95)), length * 0.16) for i in range(count)]
        return [trunk, *fronds]
    return [trunk, *_crown(rng, top, rng.uniform(0.14, 0.28), whole(rng, 60, 100))]


def _cactus(rng: np.random.Generator, radius: float, height: float) -> Parts:
    """Ribbed column, perhaps with arms, or a ball."""
    thick, tall = radius * rng.uniform(0.4, 0.8), rng.uniform(0.2, 0.6)
    if chance(rng, 0.25):
        return [ellipsoid((radius, radius, radius * rng.uniform(0.8, 1.2)), (0, 0, height + radius * 0.5))]
    level = np.linspace(0, 1, 7)
    parts = [
        tube(
            [(0, 0, height * 0.8 + tall * z) for z in level],
            thick * np.array([0.9, 1, 1, 1, 0.95, 0.8, 0.35]),
            segments=12,
        )
    ]
    for side in (-1, 1)[: whole(rng, 0, 2)]:
        base = height + tall * rng.uniform(0.25, 0.5)
        elbow = [
            (0, base),
            (thick * 1.6, base),
            (thick * 2.1, base + thick * 0.6),
            (thick * 2.1, base + tall * 0.35),
        ]
        parts.append(tube([(side * x, 0, z) for x, z in smooth(elbow, steps=3)], thick * 0.5))
    return parts


def _blossom(centre: Vector, size: float) -> Part:
    return ellipsoid((size, size, size * 0.7), centre, segments=10)
