"""What methods are fed with: models, source statistics and prototypes, by the names that people give."""

import io
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from purgegate.adapt import find_method
from purgegate.adapt.bftt3d import Memory, Remembering, remember
from purgegate.adapt.options import describe_option
from purgegate.adapt.pointnn import PointNN
from purgegate.backbones.base import Backbone
from purgegate.backbones.loading import default_device, load_backbone
from purgegate.gate.statistics import SourceStatistics
from purgegate.imports import import_object, is_path
from purgegate.io.checkpoints import read_checkpoint
from purgegate.io.datasets import load_dataset
from purgegate.io.files import write_whole

VARIANTS = ("a", "b")  # of the source statistics that come with weights


def load_model(weights: str, *, precision: str = "float32", **sizes: Any) -> Any:
    """A model by the name or file of its weights, or a person's own by its import path, `@file` or not.

    A size that is None is left to the file.
    """
    own, file = split_weights(weights)
    if not own:
        given = {name: size for name, size in sizes.items() if size is not None}
        return load_backbone(weights, precision=precision, **given).to(default_device())
    if precision != "float32" or any(size is not None for size in sizes.values()):
        raise ValueError(f"{own} is a model of your own: set its precision and sizes where it is made")
    model = make_model(own)
    if file:
        model = load_backbone(file, model=model)
    elif not getattr(model, "weights_name", ""):
        setattr(model, "weights_name", weights)  # noqa: B010 (a person's own class need not declare it)
    return model.to(default_device()) if isinstance(model, torch.nn.Module) else model


def split_weights(weights: str) -> tuple[str, str]:
    """The import path of a person's own model, and the file or bundled name of weights; one may be empty."""
    own, at, file = str(weights).partition("@")
    if not is_path(own) or Path(weights).exists():
        return "", weights
    if at and not file:
        raise ValueError(f"{weights} must name a file of weights behind the @, or leave it out")
    return own, file


def make_model(path: str) -> Any:
    """A person's own model: what an import path stands for, or what that makes."""
    model = import_object(path)
    if isinstance(model, type) or not isinstance(model, Backbone):
        if not callable(model):
            raise ValueError(f"{path} must be a model, or make one; it is a {type(model).__name__}")
        try:
            model = model()
        except TypeError as error:
            raise ValueError(
                f"{path} must make a model without arguments: {error}; give a function that knows them"
            ) from error
    if not isinstance(model, Backbone):
        raise ValueError(
            f"{path} must make a model with the methods tokenize, encode and head; it makes "
            f"{type(model).__name__}"
        )
    return model


def supply(
    method: str, options: dict[str, Any], *, weights: str, source: "KeptPrototypes | None" = None,
    at_hand: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The options of a method with what it needs: statistics by variant or file, prototypes of a source.

    `at_hand` also gives what it only uses, where the weights bring it.
    """
    entry, given = find_method(method), dict(options)
    if "statistics" in (*entry.needs, *entry.uses):
        wanted = given.pop("statistics", None)
        if wanted is None and "statistics" in entry.needs:
            wanted = "b"
        if wanted is None and at_hand and _brings_statistics(weights):
            wanted = "b"
        if wanted is not None and not isinstance(wanted, str):
            raise ValueError(f"statistics are given as {' or '.join(VARIANTS)}, or by a file; got {wanted!r}")
        if wanted is not None:
            given["statistics"] = load_statistics(weights, wanted)
    if "source" in entry.needs and source is not None:
        given["source"] = source
    return given


@cache
def load_statistics(weights: str, name: str) -> SourceStatistics:
    """The statistics of a variant that came with the weights, or of a file."""
    if name not in VARIANTS:
        return SourceStatistics.load(name)
    own, file = split_weights(weights)
    if not file:
        raise ValueError(
            f"{own} is no file that could hold the statistics {name!r}: make them with "
            "`purgegate statistics`, and give that file"
        )
    return SourceStatistics.from_weights(file, variant=name)


def _brings_statistics(weights: str) -> bool:
    _, file = split_weights(weights)
    return bool(file) and "statistics" in read_checkpoint(file).metadata


class KeptPrototypes:
    """Prototypes of labelled source clouds, which take minutes to make: once, kept in a file."""

    def __init__(self, source: str, *, points: int, path: str) -> None:
        self.source, self.path = source, path
        self.encoder = PointNN(points=points)

    def described(self) -> str:
        """A digest of the source clouds."""
        return _digest_of(self.source)

    def clouds(self) -> Any:
        """The source clouds themselves."""
        return load_dataset(self.source, split="train").points

    def is_made(self) -> bool:
        """Whether the file holds them."""
        return self._read("label") is not None

    def memory(self, advance: Remembering = lambda done, total: None) -> Memory:
        """What the file holds; if another source or nobody made it, it is made and written."""
        found = self._read("features", "label")
        if found is not None:
            features, label = found
            return Memory(features, label, self.described())
        source = load_dataset(self.source, split="train")
        memory = remember(source.points, source.label, encoder=self.encoder, advance=advance)
        buffer = io.BytesIO()
        np.savez(buffer, made=self._made(), features=memory.features.numpy(), label=memory.label.numpy())
        write_whole(Path(self.path), buffer.getvalue())
        return memory

    def _made(self) -> str:
        """What the file must have been made from."""
        return f"{self.described()} {sorted(vars(self.encoder).items())}"

    def _read(self, *names: str) -> list[torch.Tensor] | None:
        """Parts of the file, or None of one that is missing, broken, or made from something else."""
        try:
            with np.load(io.BytesIO(Path(self.path).read_bytes()), allow_pickle=False) as found:
                if str(found["made"]) == self._made():
                    return [torch.from_numpy(found[name]) for name in names]
        except (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            pass
        return None


@cache
def _digest_of(source: str) -> str:
    return describe_option(load_dataset(source, split="train"))
