"""Lamp and monitor; the screen looks along −y."""

import numpy as np

from purgegate.points.shapes.draws import chance, pick, whole
from purgegate.points.shapes.primitives import (
    Parts,
    box,
    cushion,
    ellipsoid,
    frustum,
    loft,
    merge,
    move,
    revolve,
    smooth,
    taper,
    tube,
    turn,
)


def lamp(rng: np.random.Generator) -> Parts:
    """Table lamp, floor lamp, desk lamp with an arm, or pendant."""
    return _LAMPS[pick(rng, table=0.38, floor=0.27, arm=0.22, pendant=0.13)](rng)


def monitor(rng: np.random.Generator) -> Parts:
    """Screen on a stand: flat, curved or an old deep one; sometimes two side by side."""
    width = rng.uniform(0.4, 0.9)
    height = width * float(rng.choice([0.42, 0.56, 0.62, 0.75], p=[0.15, 0.45, 0.2, 0.2]))
    kind = pick(rng, flat=0.68, curved=0.14, deep=0.18)
    panel = _PANELS[kind](rng, width, height)
    lift = rng.uniform(0.03, 0.2)
    tilted = move(turn(merge(panel), 0, -rng.uniform(-0.05, 0.25)), (0, 0, lift))
    if chance(rng, 0.08):
        parts = [move(turn(tilted, 2, side * 0.15), (side * width * 0.52, 0, 0)) for side in (1, -1)]
        width *= 1.5
    else:
        parts = [tilted]
    return parts + _stand(rng, width, lift + height * rng.uniform(0.3, 0.6), deep=kind == "deep")


def _table_lamp(rng: np.random.Generator) -> Parts:
    """Body, turned or plain, under a shade."""
    height, radius = rng.uniform(0.2, 0.45), rng.uniform(0.03, 0.1)
    if chance(rng, 0.7):
        control = [(radius * rng.uniform(0.7, 1.3), 0), (radius * rng.uniform(0.6, 1.3), height * 0.25)]
        control += [(radius * rng.uniform(0.4, 1.1), height * 0.6), (0.015, height * 0.9), (0.012, height)]
        outer = smooth(control, steps=5)
        outer[:, 0] = np.maximum(outer[:, 0], 0.01)
        body = [revolve(outer)]
    else:
        body = _post(rng, height, radius * 1.2)
    return body + _shade(rng, rng.uniform(0.11, 0.22), height)


def _floor_lamp(rng: np.random.Generator) -> Parts:
    """Tall post on a disc or a tripod, under a shade or a bowl that shines up."""
    height = rng.uniform(1.1, 1.6)
    if chance(rng, 0.3):
        reach, angles = rng.uniform(0.2, 0.35), np.arange(3) * 2 * np.pi / 3 + rng.uniform(0, 2)
        post = [tube([(0, 0, height), (np.cos(a) * reach, np.sin(a) * reach, 0)], 0.015) for a in angles]
    else:
        post = _post(rng, height, rng.uniform(0.11, 0.18))
    if chance(rng, 0.25):
        torch = smooth([(0.03, height), (0.12, height + 0.05), (rng.uniform(0.16, 0.24), height + 0.12)])
        return [*post, revolve([*torch, *(torch[::-1] - [0.01, -0.004])[:-3], (0, height + 0.03)])]
    return post + _shade(rng, rng.uniform(0.15, 0.3), height)


def _arm_lamp(rng: np.random.Generator) -> Parts:
    """Foot, two arms with a joint (or one bow) and a head that looks down; for a desk or the floor."""
    scale = 1.0 if chance(rng, 0.75) else 2.5
    elbow = np.array([0, rng.uniform(0.02, 0.15), rng.uniform(0.2, 0.35)]) * scale
    wrist = elbow + np.array([0, -rng.uniform(0.15, 0.35), rng.uniform(-0.02, 0.22)]) * scale
    joints = [np.array([0, 0, 0.02]), elbow, wrist]
    bent = chance(rng, 0.35)
    parts: Parts = [tube(smooth(joints) if bent else joints, 0.008 * scale)]
    parts.append(frustum(rng.uniform(0.07, 0.12) * scale**0.5, 0.06 * scale**0.5, 0.02, foot=(0, 0, 0)))
    if not bent:
        parts += [ellipsoid((0.016 * scale,) * 3, joint, segments=10) for joint in (elbow, wrist)]
    size, deep = rng.uniform(0.05, 0.09) * scale, rng.uniform(0.08, 0.14) * scale
    bell = smooth([(size * 0.25, 0), (size * 0.5, -deep * 0.3), (size, -deep)], steps=5)
    head = revolve([(0, 0), *bell, *(bell[::-1] - [0.004, 0])[:-2], (0, -deep * 0.2)])
    return [*parts, move(turn(head, 0, rng.uniform(-0.6, 0.3)), wrist + np.array([0, 0, 0.01]))]


def _pendant(rng: np.random.Generator) -> Parts:
    """Shade or globes that hang from a ceiling plate."""
    drop = rng.uniform(0.3, 0.9)
    plate = frustum(0.04, 0.06, 0.025, foot=(0, 0, drop))
    if chance(rng, 0.3):
        count, reach = whole(rng, 3, 6), rng.uniform(0.2, 0.32)
        parts: Parts = [
            plate,
            tube([(0, 0, drop), (0, 0, 0)], 0.012),
            ellipsoid((0.04, 0.04, 0.05), (0, 0, 0)),
        ]
        for angle in np.arange(count) * 2 * np.pi / count:
            out = np.array([np.cos(angle) * reach, np.sin(angle) * reach])
            arm = smooth([(0, 0, 0), (*(out * 0.6), -0.07), (*out, 0.03)])
            parts += [tube(arm, 0.008), ellipsoid((0.05, 0.05, 0.06), (*out, 0.08), segments=10)]
        return parts
    return [plate, tube([(0, 0, drop), (0, 0, 0.0)], 0.006), *_shade(rng, rng.uniform(0.15, 0.3), 0.0)]


def _post(rng: np.random.Generator, height: float, radius: float) -> Parts:
    """Thin post on a flat foot."""
    thick = rng.uniform(0.008, 0.018)
    foot = frustum(
        radius, radius * rng.uniform(0.6, 1), 0.025, foot=(0, 0, 0), segments=4 if chance(rng, 0.2) else 24
    )
    return [foot, frustum(thick, thick, height, foot=(0, 0, 0), segments=10)]


def _shade(rng: np.random.Generator, radius: float, height: float) -> Parts:
    """Shade round the top of a post: a cone, a drum, a square, a dome or a globe."""
    kind = pick(rng, cone=0.38, drum=0.2, square=0.14, dome=0.14, globe=0.14)
    if kind == "globe":
        return [ellipsoid((radius * 0.8, radius * 0.8, radius * 0.8), (0, 0, height + radius * 0.6))]
    tall, wall = radius * rng.uniform(0.8, 1.5), radius * 0.03
    narrow = {"cone": rng.uniform(0.3, 0.75), "square": rng.uniform(0.5, 0.95)}.get(
        kind, rng.uniform(0.9, 1.0)
    )
    side = np.array([(radius, 0), (radius * narrow, tall)])
    if kind == "dome":
        angles = np.linspace(0, 1.4, 8)
        side = np.column_stack([radius * np.cos(angles), tall * 0.8 * np.sin(angles)])
    shell = revolve(
        [*side, *(side[::-1] - [wall, 0])],
        foot=(0, 0, height - tall * 0.3),
        closed=True,
        segments=4 if kind == "square" else 28,
    )
    bulb = ellipsoid((radius * 0.2, radius * 0.2, radius * 0.3), (0, 0, height + radius * 0.15), segments=10)
    return [shell, bulb]


def _flat_panel(rng: np.random.Generator, width: float, height: float) -> Parts:
    """Thin screen in a bezel, with a swelling behind."""
    thick, rim = rng.uniform(0.015, 0.05), rng.uniform(0.006, 0.03)
    parts: Parts = [box((width, thick, height), (0, 0, 0))]
    for x in (-1, 1):
        parts.append(box((rim, 0.012, height), (x * (width - rim) / 2, -thick / 2 - 0.006, 0)))
    parts += [box((width, 0.012, rim), (0, -thick / 2 - 0.006, z)) for z in (0, height - rim)]
    if chance(rng, 0.6):
        parts.append(box((width * 0.5, 0.05, height * 0.5), (0, thick / 2 + 0.02, height * 0.2)))
    return parts


def _curved_panel(rng: np.random.Generator, width: float, height: float) -> Parts:
    """Screen bent round the viewer."""
    x, bend = np.linspace(-0.5, 0.5, 11), rng.uniform(0.1, 0.22)
    front, back = np.zeros((2, 11, 3))
    front[:, 0] = back[:, 0] = x * width
    front[:, 1] = -bend * width * (2 * x) ** 2
    back[:, 1] = 0.6 * front[:, 1] + 0.03
    top = np.array([0, 0, height])
    rings = np.stack([front, back, back + top, front + top], axis=1)
    return [loft(rings, rings[[0, -1]].mean(axis=1))]


def _deep_panel(rng: np.random.Generator, width: float, height: float) -> Parts:
    """Old tube screen with a tapering back."""
    deep, small = width * rng.uniform(0.4, 0.75), rng.uniform(0.45, 0.75)
    shell = taper(
        (width, height), (width * small, height * small), deep, foot=(0, 0, 0), shift=(0, height * 0.1)
    )
    back = move(turn(shell, 0, -np.pi / 2), (0, 0.02, height / 2))
    glass = cushion((width * 0.82, 0.05, height * 0.8), (0, -0.03, height * 0.1), roundness=0.2)
    return [box((width, 0.06, height), (0, 0, 0)), back, glass]


def _stand(rng: np.random.Generator, width: float, height: float, *, deep: bool) -> Parts:
    """Neck and foot behind a screen."""
    reach, y = width * rng.uniform(0.2, 0.34), 0.05 + 0.1 * deep
    neck = taper((width * 0.14, 0.03), (width * rng.uniform(0.07, 0.2), 0.03), height, foot=(0, y, 0))
    kind = pick(rng, plate=0.45, disc=0.35, feet=0.2)
    if kind == "plate":
        return [neck, box((reach * 2, rng.uniform(0.16, 0.26), 0.015), (0, y - 0.03, -0.005))]
    if kind == "disc":
        disc = frustum(1.0, 0.95, 0.018, foot=(0, 0, 0), segments=24)
        return [neck, (disc[0] * [reach, 0.13, 1] + [0, y - 0.03, 0], disc[1])]
    return [
        neck,
        *(tube([(0, y, 0.03), (x * reach, y - 0.16, 0)], 0.012) for x in (-1, 1)),
        tube([(0, y, 0.03), (0, y + 0.08, 0)], 0.012),
    ]


_LAMPS = {"table": _table_lamp, "floor": _floor_lamp, "arm": _arm_lamp, "pendant": _pendant}
_PANELS = {"flat": _flat_panel, "curved": _curved_panel, "deep": _deep_panel}
