"""What a source's features look like: their mean, and the class token's mean and spread behind each block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from purgegate.backbones.base import HasClassToken
from purgegate.fingerprints import model_fingerprint, state_fingerprint
from purgegate.gate.statistics import RunningMoments
from purgegate.io.checkpoints import write_tensors
from purgegate.io.files import check_file
from purgegate.points.sampling import resample
from purgegate.twins import evaluation_twin
from purgegate.typing import StrPath

NAMES = ("feature", "mean", "std")


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """Means over source clouds, and which model made them; no class token, no mean and spread of it."""

    feature: Tensor  # (F,), the mean of what the head sees
    mean: Tensor  # (L · D,), of the class token in front of each norm of `context_norms`
    std: Tensor  # (L · D,)
    count: int = 0
    fingerprint: str | None = None
    made: str = ""  # from which source clouds

    @classmethod
    def collect(cls, model: Any, points: Any, *, batch: int = 32) -> FeatureStatistics:
        """One pass over clean source clouds (n, N, 3), under the model's running BatchNorm statistics.

        Clouds of more points than the model was made for are brought to that number.
        """
        points = torch.as_tensor(points)
        if len(points) < 2:
            raise ValueError(f"statistics need at least two source clouds; got {len(points)}")
        model = evaluation_twin(model)
        features, tokens = RunningMoments(), RunningMoments()
        with torch.no_grad(), class_tokens(context_norms(model)) as seen:
            for part in points.split(batch):
                part = resample(part, min(part.shape[1], getattr(model, "points", 1024)))
                features.add(model.encode(model.tokenize(part.to(_device(model)))))
                tokens.add(seen(len(part)))
        std = (tokens.squares / (tokens.count - 1)).sqrt()
        feature, mean, std = (each.float().cpu() for each in (features.mean, tokens.mean, std))
        return cls(feature, mean, std, features.count, model_fingerprint(model))

    def check(self, model: Any) -> None:
        """Refuse a model that did not make these statistics."""
        found = model_fingerprint(model)
        if None not in (found, self.fingerprint) and found != self.fingerprint:
            raise ValueError(
                f"these feature statistics belong to the model {self.fingerprint}, not to {found}: "
                "collect them again with FeatureStatistics.collect(model, points)"
            )

    def described(self) -> str:
        """What a row of results says of them."""
        return self.made or state_fingerprint({name: getattr(self, name) for name in NAMES})

    def save(self, path: StrPath) -> None:
        """Write a `.safetensors` file with the fingerprint in its metadata."""
        facts = {"count": self.count, "fingerprint": self.fingerprint}
        tensors = {name: getattr(self, name).contiguous() for name in NAMES}
        write_tensors(tensors, path, metadata={"feature_statistics": json.dumps(facts)})

    @classmethod
    def load(cls, path: StrPath) -> FeatureStatistics:
        """Read what `save` wrote."""
        check_file(Path(path))
        try:
            with safe_open(path, framework="pt") as file:
                facts = json.loads((file.metadata() or {})["feature_statistics"])
                feature, mean, std = (file.get_tensor(name) for name in NAMES)
                return cls(feature, mean, std, int(facts["count"]), facts["fingerprint"])
        except (SafetensorError, KeyError, ValueError) as error:
            raise ValueError(
                f"{path} holds no feature statistics: make it with FeatureStatistics.save"
            ) from error


def context_norms(model: Any) -> list[nn.Module]:
    """What normalises the class token behind each block: the next block's first norm, at last the model's."""
    blocks = getattr(getattr(model, "blocks", None), "blocks", None)
    parts = ("contextualise", "pool", "norm")
    if not isinstance(model, HasClassToken) or not blocks or not all(hasattr(model, each) for each in parts):
        return []
    return [*(block.norm1 for block in blocks[1:]), model.norm]  # type: ignore[attr-defined]


@contextmanager
def class_tokens(norms: list[nn.Module]) -> Iterator[Callable[[int], Float[Tensor, "B E"]]]:
    """While it lasts, what the first token of each cloud was behind these norms since last asked for."""
    parts: list[list[Tensor]] = [[] for _ in norms]
    handles = [
        norm.register_forward_hook(lambda layer, given, y, kept=kept: kept.append(y[:, 0]))
        for norm, kept in zip(norms, parts, strict=True)
    ]

    def seen(clouds: int) -> Float[Tensor, "B E"]:
        found = torch.cat([torch.cat(kept).float() for kept in parts], dim=1) if parts else None
        for kept in parts:
            kept.clear()
        return torch.empty(clouds, 0) if found is None else found

    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _device(model: Any) -> torch.device:
    found = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if found is None else found.device
