"""What source tokens look like: one mean and one standard deviation a channel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from purgegate.fingerprints import model_fingerprint, state_fingerprint
from purgegate.gate.scores import standardise
from purgegate.io.checkpoints import read_checkpoint, write_tensors
from purgegate.io.files import check_file
from purgegate.twins import evaluation_twin
from purgegate.typing import StrPath


@dataclass(frozen=True, eq=False)
class SourceStatistics:
    """Mean and standard deviation of standardised source tokens, and which model made them."""

    mean: Tensor  # (D,)
    std: Tensor  # (D,)
    count: int = 0
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.mean.ndim != 1 or self.mean.shape != self.std.shape:
            raise ValueError(
                "mean and std must be vectors of one width; "
                f"got {tuple(self.mean.shape)} and {tuple(self.std.shape)}"
            )
        if not torch.isfinite(self.mean).all() or not (torch.isfinite(self.std) & (self.std > 0)).all():
            raise ValueError(
                "mean must be finite and std positive in every channel: collect over more clouds"
            )

    @classmethod
    def collect(cls, model: Any, batches: Iterable[Any], *, after_block: bool = False) -> SourceStatistics:
        """One pass over clean source clouds, under the model's running BatchNorm statistics.

        `batches` gives clouds (B, N, 3), or (clouds, labels). `after_block` takes the tokens behind the first
        block, where the paper's released code takes them, not at the gate, where they are used.
        """
        if after_block and not hasattr(model, "after_first_block"):
            raise ValueError(
                f"after_block=True needs a model with `after_first_block`; {type(model).__name__} has none"
            )
        moments = RunningMoments()
        model = evaluation_twin(model)
        with torch.no_grad():
            for batch in batches:
                points = batch[0] if isinstance(batch, (tuple, list)) else batch
                tokens = model.tokenize(points)
                x = model.after_first_block(tokens) if after_block else tokens.placed()
                moments.add(standardise(x).flatten(0, 1))
        return cls.from_moments(moments, fingerprint=model_fingerprint(model))

    @classmethod
    def from_moments(cls, moments: RunningMoments, *, fingerprint: str | None) -> SourceStatistics:
        """The statistics of all tokens that were taken in, for the model of this fingerprint."""
        if moments.count < 2:
            raise ValueError(f"statistics need at least two tokens; the batches gave {moments.count}")
        std = (moments.squares / (moments.count - 1)).sqrt()
        return cls(moments.mean.float().cpu(), std.float().cpu(), moments.count, fingerprint)

    @classmethod
    def from_weights(cls, name_or_path: StrPath, *, variant: str = "b") -> SourceStatistics:
        """The statistics that `purgegate train` stored with the weights.

        Variant "b" was gathered while the model trained, "a" by one pass over the clean clouds afterwards.
        """
        _, metadata = read_checkpoint(name_or_path)
        stored = metadata.get("statistics")
        stored = stored if isinstance(stored, dict) else {}
        if variant not in stored:
            raise ValueError(
                f"{name_or_path} must hold the statistics {variant!r}; it has {', '.join(stored) or 'none'}: "
                "make them with `purgegate statistics` and give that file, or with SourceStatistics.collect"
            )
        with _reading(name_or_path):
            found = stored[variant]
            mean, std = (torch.tensor(found[name], dtype=torch.float32) for name in ("mean", "std"))
            return cls(mean, std, int(found["count"]), metadata["fingerprint"])

    def check(self, model: Any) -> None:
        """Refuse a model that did not make these statistics."""
        if self.fingerprint is None:
            return
        found = model_fingerprint(model)
        if found is not None and found != self.fingerprint:
            raise ValueError(
                f"these source statistics belong to the model {self.fingerprint}, not to {found}: "
                "collect them again with SourceStatistics.collect(model, batches)"
            )

    def digest(self) -> str:
        """A short name for exactly these numbers, by which rows of results tell them from others."""
        return state_fingerprint({"mean": self.mean, "std": self.std})

    def described(self) -> str:
        """What a row of results says of them."""
        return self.digest()

    def save(self, path: StrPath) -> None:
        """Write a `.safetensors` file with the fingerprint in its metadata."""
        facts = {"count": self.count, "fingerprint": self.fingerprint}
        tensors = {"mean": self.mean.cpu().contiguous(), "std": self.std.cpu().contiguous()}
        write_tensors(tensors, path, metadata={"source_statistics": json.dumps(facts)})

    @classmethod
    def load(cls, path: StrPath) -> SourceStatistics:
        """Read what `save` wrote."""
        if not Path(path).exists():
            raise FileNotFoundError(f"{path} is missing: make it with `purgegate statistics`")
        check_file(Path(path))
        with _reading(path), safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["source_statistics"])
            mean, std = (file.get_tensor(name).float() for name in ("mean", "std"))
            return cls(mean, std, int(facts["count"]), facts["fingerprint"])


@contextmanager
def _reading(path: StrPath) -> Iterator[None]:
    """Turn whatever is wrong with stored statistics into one line that names the file."""
    try:
        yield
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ValueError(
            f"{path} holds no source statistics: {reason}; make it with SourceStatistics.save"
        ) from error


class RunningMoments:
    """Mean and sum of squared deviations over rows that come in batches (Chan's update, in float64)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = torch.zeros(())
        self.squares = torch.zeros(())

    def add(self, rows: Float[Tensor, "m D"]) -> None:
        """Take in a batch of rows."""
        rows = rows.double()
        mean = rows.mean(dim=0)
        squares = (rows - mean).square().sum(dim=0)
        total = self.count + len(rows)
        shift = mean - self.mean
        self.squares = self.squares + squares + shift.square() * (self.count * len(rows) / total)
        self.mean = self.mean + shift * (len(rows) / total)
        self.count = total
