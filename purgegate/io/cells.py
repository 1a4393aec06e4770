"""The files of a corrupted benchmark: data, what made them, labels; each written whole or not at all."""

import hashlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32, Shaped

from purgegate.io.files import write_whole
from purgegate.io.labelled import Dataset

Metadata = dict[str, Any]


class Cell(NamedTuple):
    """One corruption at one severity: one file of a benchmark."""

    corruption: str
    severity: int

    @property
    def stem(self) -> str:
        """Name of its files, without their endings."""
        return f"data_{self.corruption}_{self.severity}"


def is_finished(folder: Path, cell: Cell, metadata: Metadata, *, overwrite: bool) -> bool:
    """Say whether a cell is there as the metadata describe it; another in its place is an error."""
    data, beside = (folder / f"{cell.stem}{ending}" for ending in (".npy", ".json"))
    if not data.exists():
        return False
    found = _read_metadata(beside)
    digest = found.pop("sha256", None)
    if found == metadata:
        # Bytes that are not those that were written, as after a full disk, are made again.
        return digest == _sha256(data.read_bytes())
    if not overwrite:
        other = [f"{key} {found.get(key)!r}" for key in metadata if found.get(key) != metadata[key]]
        made = f"with {', '.join(other)}" if found else f"by something that left no readable {beside.name}"
        raise FileExistsError(f"{data} was made {made}: choose another folder, or --overwrite it")
    return False


def write_cell(folder: Path, cell: Cell, metadata: Metadata, points: Float32[np.ndarray, "n M 3"]) -> None:
    """Write what made a cell and then its points, so that no points are without it."""
    content = _npy(points)
    data = folder / f"{cell.stem}.npy"
    data.unlink(missing_ok=True)
    write_whole(folder / f"{cell.stem}.json", _json(metadata | {"sha256": _sha256(content)}))
    write_whole(data, content)


def write_labels(folder: Path, source: Dataset, cells: Iterable[Cell], *, overwrite: bool) -> None:
    """Write labels and class names once for all cells; others in their place are an error.

    They are overwritten only together with all cells of the folder, which they belong to.
    """
    others = {path.name for path in folder.glob("data_*.npy")} - {f"{cell.stem}.npy" for cell in cells}
    for name, content in (("label.npy", _npy(source.label)), ("classes.json", _json(list(source.classes)))):
        path = folder / name
        if path.exists() and path.read_bytes() == content:
            continue
        if path.exists() and not overwrite:
            raise FileExistsError(
                f"{path} belongs to another data set: choose another folder, or --overwrite it"
            )
        if path.exists() and others:
            raise FileExistsError(
                f"{path} belongs to another data set, and so does {min(others)}: choose another folder, or "
                "overwrite all of its corruptions and severities"
            )
        write_whole(path, content)


def _read_metadata(path: Path) -> Metadata:
    """Read what made a cell; nothing, where there is no such file or it is none of ours."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _npy(array: Shaped[np.ndarray, "..."]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
