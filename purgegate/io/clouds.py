"""A file of points or a mesh, in any common format, as a float32 array."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Float

from purgegate.io.files import check_file
from purgegate.io.formats import READERS
from purgegate.io.formats.contents import Contents
from purgegate.points.patches import FARTHEST
from purgegate.points.surface import sample_surface
from purgegate.typing import Cloud, Mesh, StrPath

SAMPLES = 8192  # points drawn from a mesh, enough for farthest point sampling to choose from
FAR = 1000  # times its size from the origin, a cloud in float32 is blurred by 1/16,000 of its size
BLURRED = 1000  # steps of float32 that a cloud must span: its points lie about 1/30 of its size apart

log = logging.getLogger("purgegate")


def read_cloud(
    path: StrPath,
    *,
    generator: np.random.Generator | None = None,
    samples: int = SAMPLES,
    drop_invalid: bool = False,
) -> Cloud:
    """Read the points of a file; a mesh is sampled by area, with a fixed seed unless a generator is given.

    A cloud far from the origin, as maps and surveys have it, is moved to the origin before it becomes
    float32. NaN and infinite points are an error, or are left out with `drop_invalid`.
    """
    contents = _read(Path(path), drop_invalid=drop_invalid)
    if contents.faces is None:
        return contents.points.astype(np.float32)
    with reading(path):
        generator = generator or np.random.default_rng(0)
        return sample_surface((contents.points, contents.faces), samples, generator)


def read_mesh(path: StrPath) -> Mesh:
    """Read the vertices and triangles of a mesh file."""
    contents = _read(Path(path), drop_invalid=False)
    if contents.faces is None:
        raise ValueError(f"{path} holds points and no faces: read it with read_cloud")
    return contents.points.astype(np.float32), contents.faces


@contextmanager
def reading(path: StrPath) -> Iterator[None]:
    """Turn whatever a parser makes of a bad file into one line that names it."""
    check_file(Path(path))
    try:
        yield
    # A parser fed with damaged bytes may raise nearly anything: an index, a key, a library's own error.
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__} "
        reason = kind + " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read: {reason}") from error


def _read(path: Path, *, drop_invalid: bool) -> Contents:
    if path.suffix.lower() not in READERS:
        raise ValueError(f"{path} must have one of the endings {' '.join(READERS)}; got {path.suffix!r}")
    with reading(path):
        contents = READERS[path.suffix.lower()].read(path)
        contents = _drop_invalid(contents) if drop_invalid else contents
        if contents.faces is not None and len(contents.faces) == 0:
            contents = contents._replace(faces=None)
        _check(contents)
    if contents.extra:
        log.info("%s: only x, y and z are used; %d other columns are dropped", path, contents.extra)
    return contents._replace(points=_near(path, contents.points))


def _check(contents: Contents) -> None:
    points, faces, _ = contents
    if len(points) == 0:
        raise ValueError("it holds no points")
    invalid = int((~(np.abs(points) <= FARTHEST)).any(axis=1).sum())
    if invalid:
        raise ValueError(
            f"all coordinates must be finite; {invalid} of {len(points)} points have NaN, infinite or "
            "far too large ones: remove them, or leave them out with drop_invalid=True (--drop-invalid)"
        )
    if faces is not None and not 0 <= faces.min() <= faces.max() < len(points):
        raise ValueError(
            f"faces must refer to vertices 0 to {len(points) - 1}; got {faces.min()} to {faces.max()}"
        )


def _drop_invalid(contents: Contents) -> Contents:
    """Leave out points that are not finite, and the triangles that touch them."""
    valid = (np.abs(contents.points) <= FARTHEST).all(axis=1)
    faces = contents.faces
    if faces is not None:
        renumbered = np.cumsum(valid) - 1
        faces = renumbered[faces[valid[faces].all(axis=1)]]
    return contents._replace(points=contents.points[valid], faces=faces)


def _near(path: Path, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Move a cloud to the origin where float32 would blur it, and say so; say where that is past mending."""
    low, high = points.min(axis=0), points.max(axis=0)
    extent, farthest = (high - low).max(), np.abs([low, high]).max()
    if points.dtype != np.float64:
        step = np.spacing(farthest)
        if step * BLURRED > extent > 0:
            log.warning(
                "%s has lost precision: its coordinates are float32 and lie %g from the origin, where they "
                "come in steps of %g in a cloud of size %g; write it in double precision, or move it to the "
                "origin before it becomes float32",
                *(path, farthest, step, extent),
            )
        return points
    if farthest <= FAR * extent or extent == 0:
        return points
    centre = (low + high) / 2
    log.info("%s: moved by (%g, %g, %g) to the origin, to keep its precision", path, *-centre)
    return points - centre
