"""Corrupted benchmarks from clean data: one file per cell, the same bytes on any number of workers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float32

from purgegate.fingerprints import array_fingerprint
from purgegate.io.cells import Cell, Metadata, is_finished, write_cell, write_labels
from purgegate.io.files import make_folder
from purgegate.io.labelled import Dataset, Meshes
from purgegate.io.locks import only_writer
from purgegate.points.corruptions import CORRUPTIONS, Corruption, corrupt, seed_number, strength_of
from purgegate.points.sampling import resample
from purgegate.points.transforms import swap_up, unit_sphere
from purgegate.typing import Cloud, Mesh, StrPath
from purgegate.version import __version__
from purgegate.workers import Share, Watch, worker_map

Up = Literal["z", "y", "published"]
Clouds = Float32[np.ndarray, "n N 3"]
Corrupted = Float32[np.ndarray, "n M 3"]
Advance = Callable[[Cell, int], None]

CHUNK = 32  # clouds that a worker takes at a time


class Chunk(NamedTuple):
    """Neighbouring clouds of a cell, with all that decides how they are corrupted."""

    cell: Cell
    kind: Corruption  # goes along, because a worker process knows the package's own corruptions alone
    seed: int
    up: Up
    first: int  # place of the first cloud in its set
    clouds: Clouds
    meshes: list[Mesh] | None


def build(
    source: Dataset,
    dest: StrPath,
    *,
    cells: Sequence[Cell],
    seed: int = 0,
    points: int = 1024,
    workers: int = 1,
    cluster: str | None = None,
    up: Up = "z",
    overwrite: bool = False,
    advance: Advance = lambda cell, clouds: None,
    watch: Watch | None = None,
) -> list[Path]:
    """Write corrupted versions of a data set to a folder, and return the files that were made now.

    Finished cells are kept. `up` is the axis that points up, in the source and in the result; "published" is
    for occlusion and lidar that take z for up and give y up, as the published scripts do.
    """
    _check(source, cells, points=points, seed=seed, up=up)
    folder = Path(dest)
    make_folder(folder)
    described = _describe(source, cells, seed=seed, points=points, up=up)
    with only_writer(folder):
        pending = [
            each for each in cells if not is_finished(folder, each, described[each], overwrite=overwrite)
        ]
        write_labels(folder, source, cells, overwrite=overwrite)
        for cell in described.keys() - pending:
            advance(cell, len(source.label))
        with worker_map(workers, cluster=cluster, watch=watch) as run:
            # One stream of all cells, so that no worker waits while the last clouds of a cell are made.
            parts = run(corrupt_chunk, _chunks(source, pending, run.share, seed=seed, points=points, up=up))
            for cell in pending:
                own = islice(parts, -(-len(source.label) // CHUNK))
                write_cell(folder, cell, described[cell], _gather(cell, own, advance))
    return [folder / f"{cell.stem}.npy" for cell in pending]


def _chunks(
    source: Dataset, cells: Sequence[Cell], share: Share, *, seed: int, points: int, up: Up
) -> Iterator[Chunk]:
    """The tasks of all cells; clean clouds and meshes are shared once, however many cells need them."""
    clouds = cache(lambda count: scaled_sample(source.points, count))
    shared: dict[tuple[str, int, int], Any] = {}

    def once(name: str, taken: int, chunk: Chunk) -> Any:
        key = name, taken, chunk.first
        if key not in shared:
            shared[key] = share(getattr(chunk, name))
        return shared[key]

    for cell in cells:
        taken = points_taken(cell.corruption, points)
        for chunk in chunks_of(cell, clouds(taken), source.meshes, seed=seed, up=up):
            meshes = chunk.meshes and once("meshes", 0, chunk)
            yield chunk._replace(clouds=once("clouds", taken, chunk), meshes=meshes)


def chunks_of(
    cell: Cell, clouds: Clouds, meshes: Meshes | None, *, seed: int, up: Up, start: int = 0
) -> Iterator[Chunk]:
    """Cut clouds into tasks; `start` is the place of the first of them in its set."""
    kind = CORRUPTIONS[cell.corruption]
    seen = meshes if kind.sees_mesh else None
    for first in range(0, len(clouds), CHUNK):
        part = clouds[first : first + CHUNK]
        own = None if seen is None else [seen[first + index] for index in range(len(part))]
        yield Chunk(cell, kind, seed, up, start + first, part, own)


def corrupt_chunk(chunk: Chunk) -> Corrupted:
    """Corrupt each cloud with a generator of its own, so that the order of work does not matter."""
    CORRUPTIONS.setdefault(chunk.cell.corruption, chunk.kind)
    number = seed_number(chunk.cell.corruption)
    made = []
    for index, cloud in enumerate(chunk.clouds):
        generator = np.random.default_rng([chunk.seed, number, chunk.cell.severity, chunk.first + index])
        mesh = chunk.meshes[index] if chunk.meshes else None
        try:
            made.append(corrupt_upright(cloud, chunk.cell, generator, mesh=mesh, up=chunk.up))
        except ValueError as error:
            raise ValueError(f"cloud {chunk.first + index}, {chunk.cell.corruption}: {error}") from error
    return np.stack(made)


def corrupt_upright(
    cloud: Cloud, cell: Cell, generator: np.random.Generator, *, mesh: Mesh | None, up: Up
) -> Float32[np.ndarray, "M 3"]:
    """Corrupt a cloud so that what pointed up still does; the camera stands above it."""
    turned = up != "published" and CORRUPTIONS[cell.corruption].sees_mesh
    if turned and up == "y":
        cloud, mesh = swap_up(cloud), None if mesh is None else (swap_up(mesh[0]), mesh[1])
    bad = corrupt(cloud, cell.corruption, severity=cell.severity, generator=generator, mesh=mesh)
    return swap_up(bad) if turned and up == "z" else bad


def scaled_sample(points: Clouds, count: int) -> Float32[np.ndarray, "n m 3"]:
    """Scale clouds that do not fill the unit sphere, and take a farthest-point sample of each."""
    reach = np.linalg.norm(points, axis=2).max(axis=1)
    placed = points.copy()
    for index in np.flatnonzero(np.abs(reach - 1) > 0.01):
        placed[index] = unit_sphere(points[index])
    return resample(torch.from_numpy(placed), count).numpy()


def points_taken(corruption: str, points: int) -> int:
    """Points of a clean cloud, such that the corrupted one is what `points` would become."""
    return CORRUPTIONS[corruption].shrinks_by * points


def _check(source: Dataset, cells: Sequence[Cell], *, points: int, seed: int, up: Up) -> None:
    """Say before the work begins what would stop it."""
    if points < 1 or seed < 0:
        raise ValueError(f"points must be at least 1 and the seed at least 0; got {points} and {seed}")
    if up not in get_args(Up):
        raise ValueError(f"up must be one of {', '.join(get_args(Up))}; got {up!r}")
    if source.meshes is not None and len(source.meshes) != len(source.label):
        raise ValueError(
            f"there must be one mesh per cloud; got {len(source.meshes)} for {len(source.label)}"
        )
    available = source.points.shape[1]
    for cell in cells:
        strength_of(*cell)
        if (needed := points_taken(cell.corruption, points)) > available:
            raise ValueError(
                f"{cell.corruption} to {points} points needs clouds of at least {needed}; the source has "
                f"{available}: ask for {points * available // needed} points, or leave {cell.corruption} out"
            )


def _describe(
    source: Dataset, cells: Sequence[Cell], *, seed: int, points: int, up: Up
) -> dict[Cell, Metadata]:
    """Describe all that decides the bytes of each cell."""
    classes = np.array(source.classes, dtype=np.str_)
    common: Metadata = {
        "seed": seed,
        "points": points,
        "clouds": len(source.label),
        "source": array_fingerprint(source.points, source.label, classes),
        "purgegate": __version__,
    }
    seen = {"method": "hidden-point removal", "up": up}
    if source.meshes is not None and any(CORRUPTIONS[cell.corruption].sees_mesh for cell in cells):
        meshes = array_fingerprint(*(array for mesh in source.meshes for array in mesh))
        seen = {"method": "depth buffer", "up": up, "meshes": meshes}
    return {
        cell: cell._asdict()
        | common
        | (seen if CORRUPTIONS[cell.corruption].sees_mesh else {"method": "points"})
        for cell in cells
    }


def _gather(cell: Cell, parts: Iterable[Corrupted], advance: Advance) -> Corrupted:
    made = []
    for part in parts:
        made.append(part)
        advance(cell, len(part))
    return np.concatenate(made)
