"""Weights by name: those that come with the package, and large ones that come with a clone of it alone."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open

from purgegate.typing import StrPath

FOLDER = Path(__file__).resolve().parents[1] / "weights"
LARGE = FOLDER.parents[1] / "weights"  # in a clone, beside the package; no wheel has it


class Weights(NamedTuple):
    """What a file of bundled weights says of itself; the accuracy is that of the weights in the file."""

    accuracy: float  # on the clean test set, one view
    total: int  # clouds in that set
    data: str
    classes: tuple[str, ...]
    objectives: tuple[str, ...]
    recipe: dict[str, Any]
    command: str
    seconds: float  # of training, on 2 busy CPU cores


def list_weights() -> dict[str, Weights]:
    """All weights at hand by name, with their clean accuracy and how they were made."""
    return {name: _describe(weights_path(name)) for name in bundled_names()}


def bundled_names() -> list[str]:
    """Names of all weights at hand."""
    return sorted(path.stem for folder in (FOLDER, LARGE) for path in folder.glob("*.safetensors"))


def weights_path(name_or_path: StrPath) -> Path:
    """The file of a bundled name, or the path itself."""
    if not isinstance(name_or_path, (str, PathLike)):
        raise ValueError(f"weights are given by a name or a path; got {type(name_or_path).__name__}")
    if not str(name_or_path):
        raise ValueError("weights are given by a name or a path; got an empty text")
    named = [folder / f"{name_or_path}.safetensors" for folder in (FOLDER, LARGE)]
    found = [] if Path(name_or_path).exists() else [path for path in named if path.is_file()]
    return found[0] if found else Path(name_or_path)


def reference_path(name: StrPath) -> Path:
    """Where weights by name have what clean clouds look like to them; other weights have no such file."""
    return weights_path(name).parent / "references" / f"{name}.safetensors"


def _describe(path: Path) -> Weights:
    with safe_open(path, framework="np") as file:
        metadata = {key: json.loads(value) for key, value in file.metadata().items()}
    facts = metadata["training"]
    return Weights(
        accuracy=facts["correct"] / facts["total"],
        total=facts["total"],
        data=facts["data"],
        classes=tuple(metadata["class_names"]),
        objectives=tuple(facts["objectives"]),
        recipe=facts["recipe"],
        command=facts["command"],
        seconds=facts["seconds"],
    )
