"""One sensor's clouds as they come: each is answered at once, the method adapts, an alarm watches."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from purgegate.adapt import OURS, create_adapter, find_method
from purgegate.adapt.base import Forward, Prediction
from purgegate.alarm import Alarm, Watch
from purgegate.answers import Answer, answers_of, class_names_of, compared
from purgegate.evaluate import device_of
from purgegate.fingerprints import model_fingerprint
from purgegate.io.bundled import bundled_names
from purgegate.io.checkpoints import write_tensors
from purgegate.io.clouds import read_cloud
from purgegate.io.files import check_file
from purgegate.needs import load_model, supply
from purgegate.norms import Norm
from purgegate.pools import State
from purgegate.prepare import prepare
from purgegate.reference import Seen, SourceReference, Witness
from purgegate.typing import StrPath

log = logging.getLogger("purgegate")

FORMAT = "stream"  # the key of a file's metadata under which a stream keeps what is no tensor
BY_BATCH = ("batch", "blend", "survivors")  # norms that look at a batch, which a stream has not
LEFT = 0.1  # share of a cloud that must be left after the purge, to learn from


class Stream:
    """Clouds of one sensor, one after the other: `push` answers each, and learns from it.

    `norm` is the method's own, or "pool" where that needs a batch; `memory` lets its statistics forget.
    `reference` is what clean clouds look like to the model: a value, a file, or None for that of bundled
    weights; without any, the alarm takes the first `learn` clouds for clean, and nothing is called unknown.
    `alpha` is the probability of a false alarm over the whole stream; None switches the alarm off, which
    saves one forward per cloud. Streams of one model share its weights and nothing else, so that each may
    have a thread of its own; one stream serves its callers one by one.
    """

    def __init__(
        self,
        model: Any,
        method: str = OURS,
        *,
        norm: Norm | None = None,
        memory: int | float | None = None,
        up: str = "z",
        alpha: float | None = 0.01,
        learn: int = 128,
        reference: SourceReference | StrPath | None = None,
        on_alarm: Callable[[Alarm], None] | None = None,
        **options: Any,
    ) -> None:
        model = load_model(model) if isinstance(model, str) else model
        name = getattr(model, "weights_name", "")
        weights = name if name in bundled_names() else ""  # other weights bring nothing
        self.method, self.up, self.on_alarm = method, up, on_alarm
        given = options | stream_norm(method, norm, memory)
        if weights and "statistics" not in given:
            given = supply(method, given, weights=weights, at_hand=True)
        self.adapter: Any = create_adapter(method, model, **given)
        if getattr(self.adapter, "least_batch", 1) > 1:
            raise ValueError(f"{method} needs batches, and a stream has single clouds: give norm='pool'")
        self.reference = _reference(reference, model)
        usual = self.reference.entropy.tolist() if self.reference else None
        self.watch = None if alpha is None else Watch(usual, alpha=alpha, learn=learn)
        self._witness = Witness(model, self.reference.means if self.reference else None)
        self._names, self._fingerprint = class_names_of(model), model_fingerprint(model)
        self._lock, self.seen = RLock(), 0

    @property
    def model(self) -> Any:
        """The model as it adapts."""
        return getattr(self.adapter, "model", self.adapter)

    @property
    def alarm(self) -> Alarm | None:
        """What the alarm says now; None where it is switched off."""
        return self.watch.read() if self.watch else None

    def push(self, cloud: Any) -> Answer:
        """Answer one cloud, an array or tensor (N, 3) of any size, or a file, and learn from it."""
        return self.push_many([cloud])[0]

    def push_many(self, clouds: Sequence[Any]) -> list[Answer]:
        """Answer a few clouds that came together; they are learned from as one batch, in their order."""
        return self.answer(torch.cat([self.prepared(cloud) for cloud in clouds])) if len(clouds) else []

    def prepared(self, cloud: Any) -> Tensor:
        """A cloud (1, N, 3) as the model sees it."""
        cloud = read_cloud(cloud) if isinstance(cloud, (str, Path)) else cloud
        return prepare(cloud, self.model, up=self.up)

    def answer(
        self, points: Tensor, *, top: int = 1, found: Prediction | None = None, seen: Seen | None = None
    ) -> list[Answer]:
        """Answer prepared clouds (B, N, 3).

        Who has clouds of many streams may have asked for them together: `found` is the prediction of a
        method that learns nothing and treats each cloud for itself, `seen` is what `look` says.
        """
        with self._lock:
            points = points.to(device_of(self.model))
            before = self.adapter.state() if _can_forget(self.adapter) else None
            found = found or Prediction.by(self.adapter, points)
            if seen is None and self.looks:
                seen = self.look(points, found.source)
            learned = [True] * len(points)
            if before is not None:
                found, learned = self._unlearn(points, found, seen, before)
            answers = answers_of(found, self._names, top=top)
            if self.reference and seen:
                answers = compared(answers, found, seen, self.reference)
            return [
                self._take_in(answer, seen and float(seen.entropy[place]), learned[place])
                for place, answer in enumerate(answers)
            ]

    @property
    def looks(self) -> bool:
        """Whether the source model looks at each cloud, beside the method."""
        return self.watch is not None or self.reference is not None

    def look(self, points: Tensor, made: Forward | None = None) -> Seen:
        """What the source model makes of prepared clouds; `made` is its forward, if there is one already."""
        return self._witness(points, made)

    def reset(self) -> None:
        """Forget every cloud, and start the alarm anew."""
        with self._lock:
            self.adapter.reset()
            self.seen = 0
            self.acknowledge()

    def acknowledge(self) -> None:
        """Silence an alarm and start it anew; what was learned stays."""
        with self._lock:
            if self.watch:
                self.watch.reset()

    def describe(self) -> dict[str, Any]:
        """What the stream is, in plain values."""
        alarm = self.alarm
        return {
            "method": self.method,
            "options": getattr(self.adapter, "options", {}),
            "up": self.up,
            "seen": self.seen,
            "alarm": alarm._asdict() if alarm else None,
        }

    def save(self, path: StrPath) -> None:
        """Write all that the stream knows to a `.safetensors` file, which appears whole or not at all."""
        with self._lock:
            if not hasattr(self.adapter, "state"):
                raise ValueError(f"{self.method} cannot be saved: it has no methods `state` and `load_state`")
            tensors = {name: value.cpu().clone().contiguous() for name, value in self.adapter.state().items()}
            facts = self._facts() | {"seen": self.seen, "watch": self.watch.state() if self.watch else None}
            # Under the lock, so that of two who save at once the later state stays.
            write_tensors(tensors, path, metadata={FORMAT: json.dumps(facts)})

    def load(self, path: StrPath) -> "Stream":
        """Go on where `save` was called: the stream must have the same model, method and options."""
        facts, tensors = _read(Path(path))
        for name, own in self._facts().items():
            if facts.get(name) != own:
                raise ValueError(f"{path} is the state of a stream with {name} {facts.get(name)}, not {own}")
        with self._lock:
            try:
                self.adapter.load_state(tensors)
                self.seen = int(facts["seen"])
                if self.watch and facts["watch"]:
                    self.watch.load_state(facts["watch"])
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                self.reset()
                raise ValueError(f"{path} holds no state of this stream: {error}") from error
        return self

    def _facts(self) -> dict[str, Any]:
        """By what a state is known to be of a stream like this."""
        options = json.loads(json.dumps(getattr(self.adapter, "options", {}), default=str))
        alpha = self.watch.alpha if self.watch else None
        return {"method": self.method, "options": options, "model": self._fingerprint, "alpha": alpha}

    def _unlearn(
        self, points: Tensor, found: Prediction, seen: Seen | None, before: State
    ) -> tuple[Prediction, list[bool]]:
        """The prediction, and which clouds were learned from: those that would do harm are not."""
        good = ~self._harmful(found, seen)
        if not good.all():
            # As if these had not come; the others are answered again, without them in their batch.
            self.adapter.load_state(before)
            if good.any():
                found = _merge(found, Prediction.by(self.adapter, points[good]), good)
        return found, good.tolist()

    def _harmful(self, found: Prediction, seen: Seen | None) -> Tensor:
        """Which clouds have next to nothing left after the purge, or lie beyond all that the source has."""
        harmful = (found.whole - found.purge < LEFT * found.whole) & (found.purge > 0)
        harmful |= ~found.logits.isfinite().all(dim=1)
        if self.reference and seen:
            harmful |= self.reference.far(seen.distance).to(harmful.device)
        return harmful

    def _take_in(self, answer: Answer, source_entropy: float | None, learned: bool) -> Answer:
        """The answer with what only the stream knows; the alarm takes the cloud in."""
        self.seen += 1
        alarm = None
        if self.watch and source_entropy is not None:
            stages = answer.stages + ("statistics",) * getattr(self.adapter, "pooled", False)
            rings = self.watch.push(source_entropy, shift=answer.shift, stages=stages)
            alarm = self.watch.read()
            if rings:
                self._ring(alarm)
        return answer._replace(alarm=alarm, learned=learned)

    def _ring(self, alarm: Alarm) -> None:
        log.warning("%s", alarm.line())
        if self.on_alarm:
            self.on_alarm(alarm)


def stream_norm(method: str, norm: Norm | None, memory: int | float | None) -> dict[str, Any]:
    """The option `norm` of a method in a stream, if it takes one."""
    known = find_method(method).options
    if norm is None and known.get("norm") in BY_BATCH:
        norm = "pool"
    if memory is not None:
        if norm is None:
            norm = known.get("norm")
        if norm not in ("pool", None) and not isinstance(norm, dict):
            raise ValueError(f"memory is that of norm='pool'; {method} has norm={norm!r}")
        norm = {**(norm if isinstance(norm, dict) else {}), "memory": memory}
    return {} if norm is None else {"norm": norm}


def _reference(given: SourceReference | StrPath | None, model: Any) -> SourceReference | None:
    if given is None:
        return SourceReference.of_model(model)
    found = SourceReference.load(given) if isinstance(given, (str, Path)) else given
    found.check(model)
    return found


def _can_forget(adapter: Any) -> bool:
    return hasattr(adapter, "state") and not getattr(adapter, "writes", False)


def _merge(first: Prediction, second: Prediction, chosen: Tensor) -> Prediction:
    """The first prediction with the rows of the second where those were chosen."""
    merged: dict[str, Any] = {}
    for name, old in first._asdict().items():
        new = getattr(second, name)
        if isinstance(old, Tensor) and isinstance(new, Tensor):
            merged[name] = old.clone()
            merged[name][chosen] = new
    return first._replace(**merged)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: Stream.save writes such a file")
    check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})[FORMAT])
            return facts, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} holds no state of a stream: {' '.join(str(error).split())}") from error
