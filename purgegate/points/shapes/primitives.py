"""Closed, outward-wound parts of which the objects are composed; z is up and lengths are about metres."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from purgegate.points.transforms import turn_about

Part = tuple[Float[np.ndarray, "_ 3"], Int[np.ndarray, "_ 3"]]
Parts = list[Part]
Vector = Sequence[float | int] | np.ndarray
Curve = Sequence[Vector] | np.ndarray

_CORNERS = np.array(
    [(x, y, z) for z in (0, 1) for x, y in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))]
)
_SIDES = np.array([(0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7), (0, 3, 2, 1), (4, 5, 6, 7)])
_BOX_FACES = np.concatenate([_SIDES[:, [0, 1, 2]], _SIDES[:, [0, 2, 3]]])


def box(size: Vector, foot: Vector) -> Part:
    """Box of a size, standing on the point below its middle."""
    return _CORNERS * np.asarray(size) + np.asarray(foot), _BOX_FACES


def taper(bottom: Vector, top: Vector, height: float, *, foot: Vector, shift: Vector = (0, 0)) -> Part:
    """Box whose bottom and top rectangles differ in size, the top shifted sideways: legs, wedges, shades."""
    upper = _CORNERS[:, 2:]
    flat = _CORNERS[:, :2] * np.where(upper, np.asarray(top), np.asarray(bottom)) + upper * np.asarray(shift)
    return np.hstack([flat, upper * height]) + np.asarray(foot), _BOX_FACES


def loft(rings: Float[np.ndarray, "R n 3"], ends: Curve | None = None) -> Part:
    """Skin over a row of rings, closed by fans to the two end points, or joined to itself without them."""
    count, around = rings.shape[:2]
    vertices = rings.reshape(-1, 3)
    if ends is not None:
        vertices = np.concatenate([vertices, np.asarray(ends)])
    faces = _loft_faces(count, around, ends is None)
    return vertices, faces if volume((vertices, faces)) > 0 else faces[:, ::-1]


def revolve(profile: Curve, *, foot: Vector = (0, 0, 0), segments: int = 28, closed: bool = False) -> Part:
    """Surface of revolution of a profile of (radius, height), which may touch the axis at its ends only."""
    profile = np.asarray(profile, dtype=np.float64)
    ends = np.column_stack([np.zeros((2, 2)), profile[[0, -1], 1]]) + np.asarray(foot)
    inner = profile[int(profile[0, 0] == 0) : len(profile) - int(profile[-1, 0] == 0)]
    circle = _circle(segments)
    flat = inner[:, None, :1] * circle
    rings = np.concatenate([flat, np.broadcast_to(inner[:, None, 1:], (*flat.shape[:2], 1))], axis=2)
    return loft(rings + np.asarray(foot), None if closed else ends)


def frustum(bottom: float, top: float, height: float, *, foot: Vector, segments: int = 20) -> Part:
    """Cylinder or cone with two radii, standing on the centre of its bottom."""
    return revolve([(bottom, 0), (top, height)], foot=foot, segments=segments)


def tube(path: Curve, radius: float | Vector, *, segments: int = 8, closed: bool = False) -> Part:
    """Circle swept along a path, with one radius or a radius at each point of the path."""
    path = np.asarray(path, dtype=np.float64)
    tangent = _tangents(path, closed)
    side = np.cross(tangent, _plane_normal(tangent))
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    frame = np.stack([side, np.cross(tangent, side)], axis=1)
    radii = np.broadcast_to(np.asarray(radius, dtype=np.float64), len(path))
    rings = path[:, None] + radii[:, None, None] * (_circle(segments) @ frame)
    return loft(rings, None if closed else path[[0, -1]])


def ellipsoid(radii: Vector, centre: Vector, *, segments: int = 16) -> Part:
    """Ellipsoid with axes along x, y and z."""
    polar = np.linspace(-np.pi / 2, np.pi / 2, segments // 2 + 1)
    profile = np.column_stack([np.cos(polar), np.sin(polar)])
    profile[[0, -1], 0] = 0
    vertices, faces = revolve(profile, segments=segments)
    return vertices * np.asarray(radii) + np.asarray(centre), faces


def cushion(size: Vector, foot: Vector, *, roundness: float = 0.3) -> Part:
    """Box with soft edges, standing on the point below its middle; roundness in (0, 1]."""
    angles = np.linspace(0, 2 * np.pi, 20, endpoint=False) + np.pi / 20
    direction = np.column_stack([np.cos(angles), np.sin(angles)])
    outline = np.sign(direction) * np.abs(direction) ** roundness / 2
    level = np.array([0, 0.12, 0.35, 0.65, 0.88, 1])
    scale = (1 - np.abs(2 * level - 1) ** 6 * 0.5 * roundness)[:, None, None]
    rings = np.concatenate([outline * scale, np.broadcast_to(level[:, None, None], (6, 20, 1))], axis=2)
    ends = np.array([(0, 0, 0), (0, 0, 1)])
    return loft(rings * np.asarray(size) + np.asarray(foot), ends * np.asarray(size) + np.asarray(foot))


def extrude(outline: Curve, levels: Vector, *, scales: Vector | None = None) -> Part:
    """Outline of (x, y), star-shaped about the origin, drawn out along z and scaled at each level."""
    outline, levels = np.asarray(outline, dtype=np.float64), np.asarray(levels, dtype=np.float64)
    following = np.roll(outline, -1, axis=0)
    sweep = outline[:, 0] * following[:, 1] - outline[:, 1] * following[:, 0]
    if not (np.all(sweep > 0) or np.all(sweep < 0)):
        raise ValueError(f"an outline must run round the origin in one direction; got steps {sweep.round(4)}")
    scales = np.ones(len(levels)) if scales is None else np.asarray(scales)
    rings = np.zeros((len(levels), len(outline), 3))
    rings[..., :2] = outline * scales[:, None, None]
    rings[..., 2] = levels[:, None]
    return loft(rings, [(0, 0, levels[0]), (0, 0, levels[-1])])


def blade(path: Curve, widths: Vector, *, side: Vector, thickness: float = 0.004) -> Part:
    """Leaf along a path, flat across `side`, with a width at each point of the path between its tips."""
    path, side = np.asarray(path, dtype=np.float64), np.asarray(side, dtype=np.float64)
    up = np.cross(_tangents(path, False), side)
    up *= thickness / np.linalg.norm(up, axis=1, keepdims=True)
    across = np.asarray(widths)[:, None] / 2 * side
    rings = np.stack([path + across, path + up, path - across, path - up], axis=1)
    return loft(rings[1:-1], path[[0, -1]])


def move(part: Part, offset: Vector) -> Part:
    """Part shifted by an offset."""
    return part[0] + np.asarray(offset), part[1]


def turn(part: Part, axis: int, angle: float) -> Part:
    """Part turned about a coordinate axis through the origin, by an angle in radians."""
    return part[0] @ turn_about(axis, angle).T, part[1]


def mirror(part: Part, axis: int = 0) -> Part:
    """Part reflected in the plane through the origin, still wound outwards."""
    sign = np.ones(3)
    sign[axis] = -1
    return part[0] * sign, part[1][:, ::-1]


def both(part: Part) -> Parts:
    """Part and its reflection in the plane x = 0."""
    return [part, mirror(part)]


def across(part: Part) -> Part:
    """Extrusion of (x, y) along z turned into one of (y, z) along x."""
    return np.roll(part[0], 1, axis=1), part[1]


def upright(part: Part) -> Part:
    """Extrusion of (x, y) along z turned into one of (x, z) along −y, towards the viewer."""
    return turn(part, 0, np.pi / 2)


def merge(parts: Parts) -> Part:
    """One mesh of many parts."""
    starts = np.cumsum([0] + [len(vertices) for vertices, _ in parts[:-1]])
    faces = [faces + start for (_, faces), start in zip(parts, starts, strict=True)]
    return np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces).astype(np.int64)


def volume(part: Part) -> float:
    """Signed volume inside a closed part: positive where it is wound outwards."""
    a, b, c = (part[0][part[1][:, corner]] - part[0][0] for corner in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def smooth(control: Curve, *, steps: int = 6, closed: bool = False) -> Float[np.ndarray, "m d"]:
    """Catmull-Rom curve through control points, with that many steps between two of them."""
    control = np.asarray(control, dtype=np.float64)
    before, after = (
        (control[-1:], control[:2])
        if closed
        else (2 * control[:1] - control[1:2], 2 * control[-1:] - control[-2:-1])
    )
    padded = np.concatenate([before, control, after])
    windows = np.stack([padded[i : len(padded) - 3 + i] for i in range(4)])
    t = np.linspace(0, 1, steps, endpoint=False)
    basis = (
        np.stack([-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2]) / 2
    )
    curve = np.einsum("ks,kwd->wsd", basis, windows).reshape(-1, control.shape[1])
    return curve if closed else np.concatenate([curve, control[-1:]])


@lru_cache(maxsize=16)
def _circle(segments: int) -> Float[np.ndarray, "n 2"]:
    angles = 2 * np.pi * (np.arange(segments) + 0.5) / segments
    return np.column_stack([np.cos(angles), np.sin(angles)])


@lru_cache(maxsize=256)
def _loft_faces(count: int, around: int, joined: bool) -> Int[np.ndarray, "T 3"]:
    """Two triangles for each quad between neighbouring rings, and a fan at each end of an open row."""
    ring, spoke = np.arange(around), np.arange(around) + 1
    spoke[-1] = 0
    low = np.arange(count if joined else count - 1)[:, None] * around
    high = (low + around) % (count * around)
    a, b, c, d = (index.ravel() for index in (low + ring, low + spoke, high + spoke, high + ring))
    faces = [np.column_stack([a, b, c]), np.column_stack([a, c, d])]
    if not joined:
        apex, last = np.full(around, count * around), (count - 1) * around
        faces += [
            np.column_stack([apex, spoke, ring]),
            np.column_stack([apex + 1, last + ring, last + spoke]),
        ]
    return np.concatenate(faces)


def _tangents(path: Float[np.ndarray, "m 3"], closed: bool) -> Float[np.ndarray, "m 3"]:
    """Directions of a path, of length 1; at a corner, halfway between its two sides."""
    steps = np.diff(path, axis=0, append=path[:1])
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    if not closed:
        steps[-1] = steps[-2]
    tangent = steps + np.roll(steps, 1, axis=0)
    if not closed:
        tangent[0] = steps[0]
    return tangent / np.linalg.norm(tangent, axis=1, keepdims=True)


def _plane_normal(tangent: Float[np.ndarray, "m 3"]) -> Float[np.ndarray, " 3"]:
    """Direction normal to a flat curve; for a straight one, any that is clearly not along it."""
    turns = np.cross(tangent[:-1], tangent[1:])
    size = np.linalg.norm(turns, axis=1)
    if size.max() > 1e-6:
        return turns[size.argmax()] / size.max()
    return np.eye(3)[np.abs(tangent[0]).argmin()]
