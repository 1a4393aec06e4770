"""Aeroplanes; the nose points along −y."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Part,
    Parts,
    Vector,
    both,
    ellipsoid,
    frustum,
    loft,
    move,
    taper,
    tube,
    turn,
)

# Nearly an aerofoil: chord along y from the leading edge at 0, thickness along z as a part of the chord.
_FOIL = np.array(
    [(0, 0), (0.06, 0.05), (0.3, 0.08), (0.7, 0.04), (1, 0), (0.7, -0.02), (0.3, -0.03), (0.06, -0.03)]
)


def aeroplane(rng: np.random.Generator) -> Parts:
    """Airliner, fighter, light propeller plane or biplane."""
    return _PLANES[pick(rng, airliner=0.4, fighter=0.2, light=0.27, biplane=0.13)](rng)


def _fuselage(rng: np.random.Generator, length: float, radius: float, *, blunt: float) -> Part:
    """Body of round sections from a nose to a tail that sweeps up."""
    along = np.array([0, 0.02, 0.06, 0.14, 0.3, 0.6, 0.8, 0.93, 1.0])
    thick = np.array([0.12, 0.35 + blunt * 0.3, 0.65 + blunt * 0.2, 0.95, 1, 1, 0.7, 0.35, 0.12]) * radius
    lift = np.array([-0.15, -0.12, -0.08, 0, 0, 0, 0.25, 0.55, 0.65]) * radius * rng.uniform(0.5, 1.2)
    path = np.column_stack([np.zeros(9), (along - 0.4) * length, lift])
    return tube(path, thick, segments=16)


def _wing(root: Vector, chords: Vector, reach: Vector) -> Part:
    """Half a wing from the leading edge of its root, with chords at root and tip, and the way to the tip."""
    part = np.array([0, 0.5, 1.0])[:, None]
    at = np.asarray(root) + part * np.asarray(reach)
    chord = chords[0] + part * (chords[1] - chords[0])
    rings = np.stack([np.zeros((3, 8)), chord * _FOIL[:, 0], chord * _FOIL[:, 1]], axis=2) + at[:, None]
    return loft(rings, rings[[0, -1]].mean(axis=1))


def _fin(chords: Vector, height: float, sweep: float) -> Part:
    """Wing on end, from the leading edge of its foot at the origin."""
    return turn(_wing((0, 0, 0), chords, (height, sweep, 0)), 1, -np.pi / 2)


def _tail(rng: np.random.Generator, length: float, size: float, height: float) -> Parts:
    """Fin and tailplanes at the end of a fuselage, the tailplanes low or on top of the fin."""
    y, chord = 0.6 * length - size * 0.75, size * rng.uniform(0.6, 0.8)
    fin = _fin((chord, chord * 0.55), size * rng.uniform(0.8, 1.1), chord * rng.uniform(0.3, 0.8))
    top = chance(rng, 0.2)
    root = (0, y + chord * 0.4 * top, height + size * 0.8 * top)
    plane = _wing(root, (chord * 0.8, chord * 0.45), (size * rng.uniform(0.8, 1.1), chord * 0.4, 0))
    return [move(fin, (0, y, height)), *both(plane)]


def _airliner(rng: np.random.Generator) -> Parts:
    """Long body, swept wings, two or four jets below them or at the tail."""
    length, radius, span = rng.uniform(28, 44), rng.uniform(1.5, 2.6), rng.uniform(13, 20)
    chord, sweep, girth = rng.uniform(5, 8), rng.uniform(4, 9), rng.uniform(0.7, 1.2)
    root = np.array([0, -0.08 * length, -radius * 0.5])
    parts = [_fuselage(rng, length, radius, blunt=1.0)]
    parts += both(_wing(root, (chord, chord * 0.3), (span, sweep, rng.uniform(0.5, 2))))
    parts += _tail(rng, length, rng.uniform(5, 7), radius * 0.5)
    if chance(rng, 0.2):
        return parts + both(_jet((radius * 1.35, 0.36 * length, radius * 0.3), girth))
    for part in (0.33, 0.6)[: whole(rng, 1, 2)]:
        parts += both(_jet(root + np.array([part * span, part * sweep - 1, -girth]), girth))
    return parts


def _jet(at: Vector, radius: float) -> Part:
    """Engine pod along y."""
    path = np.asarray(at) + np.array([(0, y, 0) for y in (-2, -1.6, 0.8, 2)])
    return tube(path, np.array([0.9, 1, 0.95, 0.55]) * radius, segments=14)


def _fighter(rng: np.random.Generator) -> Parts:
    """Pointed body, delta or swept wings, one or two fins."""
    length, radius, span = rng.uniform(13, 18), rng.uniform(0.8, 1.1), rng.uniform(4, 6.5)
    chord = rng.uniform(5, 8)
    parts = [_fuselage(rng, length, radius, blunt=0.0)]
    parts.append(ellipsoid((0.5, 1.6, 0.6), (0, -0.2 * length, radius * 0.8)))
    reach = (span, chord * rng.uniform(0.5, 0.8), 0)
    parts += both(_wing((radius * 0.5, -0.05 * length, 0), (chord, chord * rng.uniform(0.15, 0.4)), reach))
    parts += both(_wing((radius * 0.4, 0.4 * length, 0), (2.2, 1.0), (span * 0.5, 1.5, 0)))
    fin = _fin((3, 1.3), rng.uniform(2.2, 3.2), 1.8)
    if chance(rng, 0.5):
        lean = turn(fin, 1, rng.uniform(0, 0.4))
        return parts + both(move(lean, (radius * 0.9, 0.33 * length, radius * 0.2)))
    return [*parts, move(fin, (0, 0.33 * length, radius * 0.4))]


def _light_plane(rng: np.random.Generator) -> Parts:
    """Plane with straight wings, high or low, a propeller and wheels."""
    length, radius, span = rng.uniform(6.5, 9), rng.uniform(0.5, 0.75), rng.uniform(4.5, 6.5)
    level = radius * (0.95 if chance(rng, 0.5) else -0.6)
    reach = (span, rng.uniform(0, 0.3), 0.3)
    return _light_body(rng, length, radius) + _light_wing(rng, (0, -0.2 * length, level), reach)


def _biplane(rng: np.random.Generator) -> Parts:
    """Light plane with two pairs of wings and struts between them."""
    length, radius, span = rng.uniform(6.5, 9), rng.uniform(0.5, 0.75), rng.uniform(4.5, 6.5)
    low, high, y = -radius * 0.7, radius * 2.0, -0.2 * length
    parts = _light_body(rng, length, radius)
    for level in (low, high):
        parts += _light_wing(rng, (0, y, level), (span, rng.uniform(0, 0.3), 0))
    for x in (0.15 * span, 0.7 * span):
        parts += both(tube([(x, y + 0.6, low), (x, y + 0.6, high)], 0.05))
    return parts


def _light_wing(rng: np.random.Generator, root: Vector, reach: Vector) -> Parts:
    chord = rng.uniform(1.2, 1.8)
    return both(_wing(root, (chord, chord * rng.uniform(0.6, 1)), reach))


def _light_body(rng: np.random.Generator, length: float, radius: float) -> Parts:
    """Fuselage with a cockpit, a tail, a propeller and two wheels."""
    parts = [_fuselage(rng, length, radius, blunt=1.0)]
    parts.append(frustum(0.5, 0.3, radius * 0.7, foot=(0, -0.08 * length, radius * 0.6)))
    parts += _tail(rng, length, rng.uniform(1.4, 1.9), radius * 0.45)
    reach, count = rng.uniform(0.9, 1.2), whole(rng, 2, 3)
    for angle in rng.uniform(0, np.pi) + np.arange(count) * 2 * np.pi / count:
        arm = turn(taper((0.12, 0.05), (0.16, 0.05), reach, foot=(0, 0, 0)), 1, angle)
        parts.append(move(arm, (0, -0.41 * length, -radius * 0.1)))
    y, z = -0.14 * length, -radius - 0.5
    parts += both(tube([(0.27, y, -radius * 0.7), (0.9, y, z)], 0.06))
    return parts + both(tube([(0.8, y, z), (1.0, y, z)], 0.28, segments=14))


_PLANES = {"airliner": _airliner, "fighter": _fighter, "light": _light_plane, "biplane": _biplane}
