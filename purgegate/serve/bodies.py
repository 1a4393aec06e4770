"""The body of a request to a cloud: .npy, .ply, raw float32 or JSON; never code, never a path."""

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from purgegate.io.clouds import read_cloud
from purgegate.io.formats.arrays import array_of, as_cloud
from purgegate.points.patches import FARTHEST

JSON, RAW, NPY, PLY = "application/json", "application/octet-stream", "application/x-npy", "application/x-ply"
ROW = 12  # bytes of a raw point: three little-endian float32


class Refused(ValueError):  # noqa: N818 (it names what happened to the request)
    """A request that cannot be answered, with the HTTP status that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def cloud_of(body: bytes, kind: str, *, most_points: int) -> Float[np.ndarray, "N 3"]:
    """The cloud of a request's body; whatever is wrong with it is Refused."""
    kind = kind.partition(";")[0].strip().lower()
    if kind not in (JSON, RAW, NPY, PLY):
        raise Refused(
            415, f"the content type must be one of {JSON}, {RAW}, {NPY}, {PLY}; got {kind or 'none'}"
        )
    try:
        points = _parse(body, kind)
    except Refused:
        raise
    # A parser fed with a stranger's bytes may raise nearly anything.
    except Exception as error:
        raise Refused(422, f"the body cannot be read as {kind}: {' '.join(str(error).split())}") from error
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        raise Refused(422, f"a cloud must be numbers of shape (N, 3); got {points.shape}")
    if len(points) > most_points:
        raise Refused(413, f"a cloud may have {most_points} points; got {len(points)}")
    if not (np.abs(points) <= FARTHEST).all():
        raise Refused(422, "all coordinates must be finite, and not far too large")
    return points


def points_of_json(found: Any) -> Float[np.ndarray, "..."]:
    """Parsed JSON as an array: a list of [x, y, z], or {"points": such a list}."""
    try:
        return np.array(found.get("points") if isinstance(found, dict) else found, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError('a cloud must be a list of [x, y, z], or {"points": such a list}') from error


def _parse(body: bytes, kind: str) -> Float[np.ndarray, "..."]:
    if kind == JSON:
        return points_of_json(json.loads(body))
    if kind == NPY:
        return as_cloud(array_of(io.BytesIO(body), "of the body")).points
    if kind == RAW:
        if len(body) % ROW:
            raise ValueError(f"raw points have {ROW} bytes each; got {len(body)} bytes")
        return np.frombuffer(body, "<f4").reshape(-1, 3)
    with tempfile.TemporaryDirectory(prefix="purgegate-") as folder:
        path = Path(folder) / "body.ply"
        path.write_bytes(body)
        try:
            return read_cloud(path)
        except ValueError as error:
            raise ValueError(str(error).replace(f"{path} cannot be read: ", "")) from error
