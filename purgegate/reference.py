"""What clean clouds look like to a trained model: the measure of an alarm and of unknown objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from purgegate.adapt.base import Forward
from purgegate.fingerprints import model_fingerprint
from purgegate.gate.purge import entropy
from purgegate.io.bundled import bundled_names, reference_path
from purgegate.io.checkpoints import write_tensors
from purgegate.io.files import check_file
from purgegate.twins import evaluation_twin
from purgegate.typing import StrPath

KNOWN = 0.95  # share of the source's own clouds that are to be called known
TINY = 1e-6  # the least distance that is usual


class Seen(NamedTuple):
    """What the source model makes of clouds, before any adaptation."""

    entropy: Tensor  # (B,) of its answer
    energy: Tensor  # (B,) minus the logarithm of the sum of exponents of the logits: high where no class fits
    distance: Tensor  # (B,) of the feature from the nearest class mean

    def at(self, rows: Sequence[int]) -> Seen:
        """Some of the clouds."""
        return Seen(*(each[list(rows)] for each in self))


@dataclass(frozen=True, eq=False)
class SourceReference:
    """Entropies, energies and distances of clean clouds that the model was not trained on, each sorted."""

    entropy: Tensor  # (n,)
    energy: Tensor  # (n,)
    distance: Tensor  # (n,)
    means: Tensor  # (C, F), mean feature of each class that the model answered
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        values = (self.entropy, self.energy, self.distance)
        if len({len(value) for value in values}) > 1 or len(self.entropy) < 2 or self.means.ndim != 2:
            raise ValueError(f"a reference needs at least two clouds; got {[tuple(v.shape) for v in values]}")
        if not all(value.isfinite().all() for value in (*values, self.means)):
            raise ValueError("a reference must be finite: collect it over clouds that the model can answer")

    @classmethod
    def collect(cls, model: Any, batches: Iterable[Any]) -> SourceReference:
        """One pass over clean clouds that the model was not trained on, prepared as `prepare` does it.

        `batches` gives clouds (B, N, 3), or (clouds, labels); labels are not used.
        """
        twin = evaluation_twin(model)
        with torch.no_grad():
            found = [
                Forward.of(twin, batch[0] if isinstance(batch, (tuple, list)) else batch) for batch in batches
            ]
        if not found:
            raise ValueError("a reference needs at least two clouds; there are none")
        feature, logits = (torch.cat(each).flatten(1).float().cpu() for each in zip(*found, strict=True))
        means, distance = _class_means(feature, logits.argmax(dim=1))
        kept = distance.isfinite()  # a lone cloud of its class has none if there is no other class
        return cls(
            entropy(logits).sort().values,
            _energy(logits).sort().values,
            distance.where(kept, distance[kept].max() if kept.any() else distance).sort().values,
            means.half().float(),  # as they are stored
            model_fingerprint(model),
        )

    def check(self, model: Any) -> None:
        """Refuse a model that did not make this reference."""
        found = model_fingerprint(model)
        if None not in (self.fingerprint, found) and found != self.fingerprint:
            raise ValueError(
                f"this reference belongs to the model {self.fingerprint}, not to {found}: collect it again "
                "with SourceReference.collect(model, batches)"
            )

    def novelty(
        self, energy: Float[Tensor, " B"], answer_entropy: Float[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """From 0 to 1, how unlike every class each cloud is: the share of clean clouds that are less so.

        The lesser of two ranks: the source model's energy, and the entropy of the answer, so that a cloud
        that only a change of the sensor made strange is known again once the method has answered it surely.
        """
        return torch.minimum(_rank(self.energy, energy), _rank(self.entropy, answer_entropy))

    def shift(self, distance: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
        """The distance of each feature from the nearest class mean, as a multiple of that of clean clouds."""
        return distance / self.distance.median().clamp(min=TINY)

    def far(self, distance: Float[Tensor, " B"]) -> Bool[Tensor, " B"]:
        """Which features lie farther from every class than that of any clean cloud."""
        return distance > self.distance[-1]

    def save(self, path: StrPath) -> None:
        """Write a `.safetensors` file with the fingerprint in its metadata."""
        tensors = {name: getattr(self, name).cpu().clone().contiguous() for name in Seen._fields}
        facts = json.dumps({"fingerprint": self.fingerprint})
        write_tensors(
            tensors | {"means": self.means.half().cpu()}, path, metadata={"source_reference": facts}
        )

    @classmethod
    def load(cls, path: StrPath) -> SourceReference:
        """Read what `save` wrote."""
        if not Path(path).exists():
            raise FileNotFoundError(f"{path} is missing: make it with `purgegate statistics --reference`")
        check_file(Path(path))
        try:
            with safe_open(path, framework="pt") as file:
                facts = json.loads((file.metadata() or {})["source_reference"])
                tensors = {name: file.get_tensor(name).float() for name in (*Seen._fields, "means")}
            return cls(**tensors, fingerprint=facts["fingerprint"])
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} holds no reference of a source ({' '.join(str(error).split())}): make it with "
                "`purgegate statistics --reference`"
            ) from error

    @classmethod
    def from_weights(cls, name: str) -> SourceReference | None:
        """The reference that came with bundled weights, or None."""
        if name not in bundled_names():
            return None
        path = reference_path(name)
        return cls.load(path) if path.is_file() else None

    @classmethod
    def of_model(cls, model: Any) -> SourceReference | None:
        """The reference that came with the bundled weights of a model, if it has such."""
        found = cls.from_weights(getattr(model, "weights_name", ""))
        return found if found and found.fingerprint == model_fingerprint(model) else None


class Witness:
    """A model as it was trained, beside what adapts: it sees each cloud too and says how strange it is."""

    def __init__(self, model: Any, means: Tensor | None = None) -> None:
        self.model, self.means = evaluation_twin(model), means

    def __call__(self, points: Float[Tensor, "B N 3"], made: Forward | None = None) -> Seen:
        """Entropy, energy and distance of clouds; the distance is NaN without class means.

        `made` is the source model's forward on them, where somebody has made it already.
        """
        with torch.no_grad():
            made = made or Forward.of(self.model, points)
            feature, logits = (each.flatten(1).float().cpu() for each in made)
            distance = torch.full((len(points),), torch.nan)
            if self.means is not None:
                distance = torch.cdist(feature, self.means).min(dim=1).values
            return Seen(entropy(logits), _energy(logits), distance)


def _energy(logits: Float[Tensor, "B C"]) -> Float[Tensor, " B"]:
    return -logits.logsumexp(dim=1)


def _class_means(
    feature: Float[Tensor, "n F"], label: Tensor
) -> tuple[Float[Tensor, "C F"], Float[Tensor, " n"]]:
    """The mean of each class that occurs, and of each cloud the distance to the nearest mean of others."""
    _, place, size = label.unique(return_inverse=True, return_counts=True)
    means = torch.zeros(len(size), feature.shape[1]).index_add_(0, place, feature) / size[:, None]
    distance = torch.cdist(feature, means)
    # Its own class without the cloud itself: the mean then moves away by n / (n - 1).
    own = size[place] / (size[place] - 1)
    rows = torch.arange(len(feature))
    distance[rows, place] = torch.where(size[place] > 1, distance[rows, place] * own, torch.inf)
    return means, distance.min(dim=1).values


def _rank(usual: Float[Tensor, " n"], values: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    return torch.searchsorted(usual, values) / len(usual)
