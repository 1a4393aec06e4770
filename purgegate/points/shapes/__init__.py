"""The embedded data set `shapes`: everyday objects as meshes, made from seeds, so that no file is needed.

Every object draws from a generator of its own, derived from its split, class and index. So any subset can be
made again, and asking for more objects changes none of the earlier ones.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from purgegate.points.shapes.aeroplanes import aeroplane
from purgegate.points.shapes.building import door, stairs
from purgegate.points.shapes.cars import car
from purgegate.points.shapes.draws import chance
from purgegate.points.shapes.furniture import bed, desk, table
from purgegate.points.shapes.household import lamp, monitor
from purgegate.points.shapes.instruments import guitar, piano
from purgegate.points.shapes.plants import plant
from purgegate.points.shapes.primitives import Part, Parts, merge, mirror, turn
from purgegate.points.shapes.seating import bench, chair, sofa, stool
from purgegate.points.shapes.storage import bookshelf, dresser
from purgegate.points.shapes.vessels import bottle, bowl, cup, vase
from purgegate.points.surface import sample_surface
from purgegate.points.transforms import unit_sphere
from purgegate.typing import Cloud, Mesh

SHAPES: dict[str, Callable[[np.random.Generator], Parts]] = {
    "aeroplane": aeroplane,
    "bed": bed,
    "bench": bench,
    "bookshelf": bookshelf,
    "bottle": bottle,
    "bowl": bowl,
    "car": car,
    "chair": chair,
    "cup": cup,
    "desk": desk,
    "door": door,
    "dresser": dresser,
    "guitar": guitar,
    "lamp": lamp,
    "monitor": monitor,
    "piano": piano,
    "plant": plant,
    "sofa": sofa,
    "stairs": stairs,
    "stool": stool,
    "table": table,
    "vase": vase,
}
CLASSES: tuple[str, ...] = tuple(SHAPES)
COUNTS = {"train": 100, "test": 25}  # objects of each class, unless told


class Shapes(NamedTuple):
    """Clouds in the unit sphere with their labels, and the meshes they were drawn from in the same frame."""

    points: Float32[np.ndarray, "n N 3"]
    label: Int64[np.ndarray, " n"]
    classes: tuple[str, ...]
    meshes: list[Mesh]


def make_shapes(split: str, *, count: int | None = None, points: int = 2048) -> Shapes:
    """Make `count` objects of every class, ordered by index and then class, each as a cloud and a mesh."""
    count = _count(split) if count is None else count
    if count < 1:
        raise ValueError(f"at least one object of each class must be made; got count {count}")
    pairs = [_object(split, name, index, points) for index in range(count) for name in CLASSES]
    label = np.tile(np.arange(len(CLASSES), dtype=np.int64), count)
    return Shapes(np.stack([cloud for cloud, _ in pairs]), label, CLASSES, [mesh for _, mesh in pairs])


def make_mesh(name: str, generator: np.random.Generator) -> Mesh:
    """Draw one object of a class: float32 vertices, triangles wound outwards, z up, lengths about metres."""
    if name not in SHAPES:
        raise ValueError(f"the class must be one of {', '.join(CLASSES)}; got {name!r}")
    vertices, faces = _posed(merge(SHAPES[name](generator)), generator)
    return vertices.astype(np.float32), faces


def object_generator(split: str, name: str, index: int) -> np.random.Generator:
    """Make the generator that draws one object of the data set; the class counts by name, not by position."""
    _count(split)
    return np.random.default_rng([list(COUNTS).index(split), zlib.crc32(name.encode()), index])


def _count(split: str) -> int:
    if split not in COUNTS:
        raise ValueError(f"the split must be one of {', '.join(COUNTS)}; got {split!r}")
    return COUNTS[split]


def _object(split: str, name: str, index: int, points: int) -> tuple[Cloud, Mesh]:
    """Cloud of one object in the unit sphere, and its mesh moved and scaled with it."""
    generator = object_generator(split, name, index)
    vertices, faces = make_mesh(name, generator)
    cloud = sample_surface((vertices, faces), points, generator)
    centre = cloud.mean(axis=0)
    scale = np.linalg.norm(cloud - centre, axis=1).max() or 1
    return unit_sphere(cloud), ((vertices - centre) / scale, faces)


def _posed(part: Part, rng: np.random.Generator) -> Part:
    """Object with its own proportions, perhaps mirrored, turned a little about z and tilted slightly."""
    part = (part[0] * np.exp(rng.normal(size=3) * 0.07), part[1])
    part = mirror(part) if chance(rng, 0.5) else part
    for axis, spread in ((0, 0.03), (1, 0.03), (2, 0.2)):
        part = turn(part, axis, rng.normal() * spread)
    return part
