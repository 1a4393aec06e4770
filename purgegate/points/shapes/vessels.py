"""Bottle, bowl, cup and vase: surfaces of revolution with a hollow, and what hangs on them."""

import numpy as np
from jaxtyping import Float

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.plants import bouquet
from purgegate.points.shapes.primitives import (
    Curve,
    Part,
    Parts,
    Vector,
    both,
    ellipsoid,
    frustum,
    revolve,
    smooth,
    tube,
)


def bottle(rng: np.random.Generator) -> Parts:
    """Body, shoulder and narrow neck, mostly closed with a cap; sometimes flat, with a handle or a pump."""
    radius, body = rng.uniform(0.03, 0.055), rng.uniform(0.07, 0.22)
    shoulder, neck = rng.uniform(0.01, 0.09), rng.uniform(0.015, 0.09)
    mouth = radius * rng.uniform(0.22, 0.6)
    waist = rng.uniform(0.75, 1.0) if chance(rng, 0.3) else 1.0
    control = [(radius * 0.93, 0), (radius, 0.008), (radius * waist, body * 0.55), (radius, body)]
    rise = body + shoulder
    control += [
        (radius * 0.75 + mouth * 0.25, body + shoulder * 0.5),
        (mouth, rise),
        (mouth * rng.uniform(0.85, 1.1), rise + neck),
    ]
    profile = smooth(control, steps=4)
    parts = [revolve([(0, 0), *profile, (0, rise + neck)])]
    top = pick(rng, cap=0.5, cork=0.15, pump=0.1, open=0.25)
    if top == "open":
        parts = [_hollow(profile, min(0.003, mouth * 0.3))]
    else:
        parts += _stopper(rng, top, mouth, rise + neck)
    if chance(rng, 0.08):
        parts.append(_handle(profile, (body * 0.4, rise), radius * rng.uniform(0.5, 0.9), 0.006))
    if chance(rng, 0.2):
        flat = rng.uniform(0.5, 0.8)
        parts = [(vertices * [1, flat, 1], faces) for vertices, faces in parts]
    return parts


def bowl(rng: np.random.Generator) -> Parts:
    """Wide open vessel on a small foot, perhaps with fruit in it."""
    radius = 0.1
    height, foot = radius * rng.uniform(0.35, 1.25), radius * rng.uniform(0.25, 0.6)
    bulge, lip = rng.uniform(0.62, 0.98), rng.uniform(0.92, 1.12)
    control = [(foot, 0), (foot * rng.uniform(0.8, 1.1), height * rng.uniform(0.04, 0.15))]
    control += [(radius * bulge, height * rng.uniform(0.4, 0.6)), (radius * lip, height)]
    parts = [_hollow(smooth(control), rng.uniform(0.003, 0.009))]
    if chance(rng, 0.18):
        size = rng.uniform(0.02, 0.034)
        for angle in np.arange(whole(rng, 3, 6)) * 1.9:
            at = (np.cos(angle) * radius * 0.4, np.sin(angle) * radius * 0.4, height * rng.uniform(0.6, 1.0))
            parts.append(ellipsoid((size, size, size * rng.uniform(0.85, 1.2)), at, segments=12))
    if chance(rng, 0.12):
        parts += both(_lug(radius * lip, height * 0.9))
    return parts


def cup(rng: np.random.Generator) -> Parts:
    """Mug, tea cup, tumbler or goblet; most have a handle and some a saucer."""
    radius, height = 0.04, rng.uniform(0.055, 0.13)
    kind = pick(rng, mug=0.6, tea=0.28, goblet=0.12)
    height *= {"mug": 1, "tea": 0.75, "goblet": 1.5}[kind]
    outer = smooth(_cup_profile(rng, kind), steps=5) * [radius, height]
    floor = height * 0.42 if kind == "goblet" else None
    parts = [_hollow(outer, rng.uniform(0.002, 0.005), floor=floor)]
    if chance(rng, {"mug": 0.9, "tea": 0.85, "goblet": 0.08}[kind]):
        low, high = rng.uniform(0.12, 0.35), rng.uniform(0.7, 0.92)
        reach, thick = radius * rng.uniform(0.5, 0.95), rng.uniform(0.003, 0.007)
        parts.append(_handle(outer, (low * height, high * height), reach, thick))
    if chance(rng, 0.5 if kind == "tea" else 0.05):
        plate = radius * rng.uniform(1.6, 2.1)
        parts.append(_hollow(smooth([(plate * 0.5, -0.008), (plate * 0.6, -0.006), (plate, 0.006)]), 0.003))
    return parts


def vase(rng: np.random.Generator) -> Parts:
    """Tall vessel with a belly, a neck and a lip, perhaps with two handles or flowers."""
    height, belly = rng.uniform(0.22, 0.5), rng.uniform(0.05, 0.13)
    foot, neck = belly * rng.uniform(0.4, 0.8), belly * rng.uniform(0.25, 0.75)
    lip = neck * rng.uniform(1.0, 1.9)
    level, throat = rng.uniform(0.25, 0.65), rng.uniform(0.74, 0.9)
    control = [(foot, 0), (belly, level * height), (neck, throat * height), (lip, height)]
    if chance(rng, 0.25):  # a plain beaker or a trumpet
        control = [(foot, 0), ((foot + belly) * rng.uniform(0.35, 0.55), height * 0.5), (belly, height)]
    outer = smooth(control, steps=8)
    outer[:, 0] = np.maximum(outer[:, 0], 0.012)
    square, segments = chance(rng, 0.12), whole(rng, 6, 8) if chance(rng, 0.15) else 28
    parts = [_hollow(outer, rng.uniform(0.003, 0.007), segments=4 if square else segments)]
    if chance(rng, 0.15) and not square:
        reach = belly * rng.uniform(0.5, 0.7)
        parts += both(_handle(outer, (level * height * 1.1, throat * height), reach, 0.006))
    if chance(rng, 0.25):
        parts += bouquet(rng, outer[-1, 0] * 0.6, height)
    return parts


def _cup_profile(rng: np.random.Generator, kind: str) -> Curve:
    """Outer wall of a cup from its foot at height 0 to its lip at 1, with a radius of about 1."""
    if kind == "mug":
        foot, bulge, lip = rng.uniform(0.65, 1.05), rng.uniform(0.85, 1.1), rng.uniform(0.95, 1.1)
        return [(foot, 0), (foot + 0.04, 0.05), (bulge, 0.5), (lip, 1)]
    if kind == "tea":
        foot, bulge, lip = rng.uniform(0.45, 0.65), rng.uniform(0.85, 1.0), rng.uniform(1.05, 1.3)
        return [(foot, 0), (0.6, 0.08), (bulge, 0.45), (lip, 1)]
    stem, lip = rng.uniform(0.07, 0.13), rng.uniform(0.75, 1.0)
    return [(0.85, 0), (stem * 1.3, 0.07), (stem, 0.38), (0.75, 0.5), (1.0, 0.7), (lip, 1)]


def _hollow(
    outer: Float[np.ndarray, "m 2"], wall: float, *, floor: float | None = None, segments: int = 28
) -> Part:
    """Vessel with a wall of that thickness inside an outer profile, open at the top."""
    floor = outer[0, 1] + wall * 1.5 if floor is None else floor
    inside = outer[::-1][outer[::-1, 1] > floor + 1e-4] - [wall, 0]
    inside[:, 0] = np.maximum(inside[:, 0], 0.002)
    return revolve([(0, outer[0, 1]), *outer, *inside, (0, floor)], segments=segments)


def _handle(outer: Float[np.ndarray, "m 2"], levels: Vector, reach: float, thick: float) -> Part:
    """Ear on a wall of that profile, from one height to another."""
    low, high = levels
    foot, head = np.interp(levels, outer[:, 1], outer[:, 0])
    out, rise = max(foot, head) + reach, high - low
    bend: Curve = [(foot, low), (out - reach * 0.2, low + rise * 0.12), (out, (low + high) / 2)]
    bend = [*bend, (out - reach * 0.2, high - rise * 0.08), (head, high)]
    return tube([(x, 0, z) for x, z in smooth(bend, steps=5)], thick)


def _lug(radius: float, height: float) -> Part:
    """Flat loop at the rim, to carry a bowl by."""
    loop = smooth([(0, -0.03), (0.03, -0.02), (0.03, 0.02), (0, 0.03)])
    return tube([(radius + x, y, height) for x, y in loop], 0.004)


def _stopper(rng: np.random.Generator, kind: str, mouth: float, height: float) -> Parts:
    """Cap, cork or pump on a neck that ends at a height."""
    if kind == "pump":
        return _pump(mouth, height)
    if kind == "cork":
        return [frustum(mouth * 0.8, mouth * 0.9, 0.02, foot=(0, 0, height - 0.001))]
    return [frustum(mouth * 1.3, mouth * 1.2, rng.uniform(0.012, 0.035), foot=(0, 0, height - 0.01))]


def _pump(radius: float, height: float) -> Parts:
    """Collar, stem and spout of a dispenser."""
    return [
        frustum(radius * 1.2, radius * 1.2, 0.012, foot=(0, 0, height - 0.004)),
        tube([(0, 0, height), (0, 0, height + 0.03)], 0.004),
        tube([(0.006, 0, height + 0.03), (-0.02, 0, height + 0.031), (-0.035, 0, height + 0.024)], 0.005),
    ]
