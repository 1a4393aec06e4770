"""What the viewer shows of a cloud: points, token scores, answers at every purge size, and repairs."""

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from purgegate.adapt.base import Prediction
from purgegate.adapt.purge_gate import SIZES, ClassDistance, PurgeGate, Score, SourceDistance
from purgegate.backbones.base import HasClassToken
from purgegate.evaluate import device_of
from purgegate.figures.attention import attention_logits
from purgegate.gate.statistics import SourceStatistics
from purgegate.norms import statistics_from
from purgegate.points.neighbours import nearest_neighbours
from purgegate.points.repair.parts import complete
from purgegate.points.repair.strays import replace_strays
from purgegate.points.repair.tilt import straighten
from purgegate.points.sampling import spread_sample, take
from purgegate.prepare import prepare
from purgegate.tokens import Tokens
from purgegate.twins import evaluation_twin
from purgegate.typing import Cloud

LARGE = 4  # times as many points as the model sees make a file large
BACKDROP = 8192  # points of a large file that are drawn behind those that the model sees

SAME = 1e-4  # a distance within which points are the same but for rounding

Scene = dict[str, Any]  # as JSON has it


class Layer(NamedTuple):
    """What a stage of the repair did: points that it made, or which of the cloud's points it marked."""

    name: str
    points: Float[Tensor, "M 3"] | None = None
    flags: Bool[Tensor, " N"] | None = None


@torch.no_grad()
def make_scene(
    model: Any, cloud: Cloud, methods: Mapping[str, Any], *, statistics: SourceStatistics | None = None
) -> Scene:
    """A cloud as the model sees it, and the answer of each method to it alone, with nothing remembered."""
    points = prepare(cloud, model).to(device_of(model))
    twin = evaluation_twin(model)
    with statistics_from(twin, "source", clouds=1):
        tokens = twin.tokenize(points)
        colours = {name: score(twin, tokens)[0] for name, score in _scores(twin, statistics).items()}
    patch = nearest_neighbours(tokens.centers, points, 1)[0, :, 0]
    backdrop, note = _backdrop(cloud, points.shape[1])
    return {
        "points": pack(points[0]),
        "patch": pack(patch.to(torch.uint16)),
        "colours": {name: pack(values) for name, values in colours.items()},
        "backdrop": None if backdrop is None else pack(backdrop),
        "note": note,
        "answers": {name: make_answer(method, points) for name, method in methods.items()},
    }


def make_answer(method: Any, points: Float[Tensor, "1 N 3"]) -> Scene:
    """What a method says of a cloud, at every purge size where it has those."""
    method.reset()
    found = method.predict(points) if hasattr(method, "predict") else Prediction.of(method(points))
    sweeps = isinstance(method, PurgeGate) and len(method.purge) > 1
    logits = found.candidates if sweeps else found.logits[:, None]
    uncertainty = found.entropy if sweeps else Prediction.of(found.logits).entropy
    sizes = list(method.purge) if sweeps else [0]
    shift = float(found.shift[0])
    return {
        "sweeps": sweeps,
        "sizes": sizes,
        "probabilities": pack(logits[0].softmax(dim=-1)),
        "entropy": pack(uncertainty[0]),
        "chosen": _usual_choice(sizes, uncertainty[0]),
        "rank": pack(found.scores[0].argsort(stable=True).argsort().to(torch.uint16)) if sweeps else None,
        "purged": int(found.purge[0]),
        "unit": "tokens" if found.strays is None else "points",
        "shift": None if np.isnan(shift) else shift,
        "stages": list(found.stages),
        "layers": [_packed_layer(layer) for layer in layers_of(found, points)],
    }


def layers_of(found: Prediction, points: Float[Tensor, "1 N 3"]) -> list[Layer]:
    """What was done to a cloud before it was answered, one layer a stage."""
    layers, cleaned = [], points
    if found.strays is not None and found.strays.any():
        layers.append(Layer("strays", flags=found.strays[0]))
        cleaned = replace_strays(points, found.strays)
    return layers + [Layer(*REPAIRS[stage](cleaned)) for stage in found.stages if stage in REPAIRS]


def _straightened(points: Float[Tensor, "1 N 3"]) -> tuple[str, Float[Tensor, "M 3"]]:
    return "straightened", straighten(points)[0][0]


def _completed(points: Float[Tensor, "1 N 3"]) -> tuple[str, Float[Tensor, "M 3"]]:
    """The points that were added, without those that were there."""
    made = complete(points)[0]
    nearest = take(points, nearest_neighbours(points, made, 1)[..., 0])
    return "completed", made[0][(made - nearest)[0].norm(dim=1) > SAME]


# What a stage gives, by the name by which a method tells that it acted.
REPAIRS: dict[str, Callable[..., tuple[str, Tensor]]] = {"tilt": _straightened, "parts": _completed}


def pack(array: Shaped[Tensor, "..."] | Shaped[np.ndarray, "..."]) -> Scene:
    """An array as text that a page unpacks without loss: its type, and its bytes in base64."""
    values = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
    values = np.ascontiguousarray(values.astype(np.float32) if values.dtype.kind == "f" else values)
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"type": values.dtype.name, "data": base64.b64encode(little.tobytes()).decode()}


def unpack(packed: Scene) -> Shaped[np.ndarray, " n"]:
    """The flat array of what was packed."""
    return np.frombuffer(base64.b64decode(packed["data"]), np.dtype(packed["type"]).newbyteorder("<"))


def _usual_choice(sizes: list[int], uncertainty: Float[Tensor, " S"]) -> int:
    """Where the gate's own choice stands, which is made among a few sizes, not among all."""
    usual = [place for place, size in enumerate(sizes) if size in SIZES]
    return usual[int(uncertainty[usual].argmin())]


def _packed_layer(layer: Layer) -> Scene:
    flags = None if layer.flags is None else pack(layer.flags.to(torch.uint8))
    return {
        "name": layer.name,
        "points": None if layer.points is None else pack(layer.points),
        "flags": flags,
    }


def _scores(model: Any, statistics: SourceStatistics | None) -> dict[str, Score]:
    """What points can be coloured by, as far as the model and what is known of its source allow."""
    found: dict[str, Score] = {}
    if statistics is not None:
        found["PG-SP score"] = SourceDistance(statistics)
    if isinstance(model, HasClassToken):
        found["PG-SF score"] = ClassDistance()
        if heads := getattr(model, "config", {}).get("heads"):
            found["attention"] = partial(_attention, heads=heads)
    return found


def _attention(model: Any, tokens: Tokens, *, heads: int) -> Float[Tensor, "B G"]:
    return attention_logits(model, tokens, heads=heads).softmax(dim=-1).mean(dim=1)


def _backdrop(cloud: Cloud, seen: int) -> tuple[Float[np.ndarray, "M 3"] | None, str]:
    """A larger cloud in the frame of the points that the model sees, and how much of it is drawn."""
    if len(cloud) < LARGE * seen:
        return None, ""
    frame = spread_sample(cloud, seen)
    centre = frame.mean(axis=0)
    reach = np.linalg.norm(frame - centre, axis=1).max() or 1
    drawn = spread_sample(cloud, BACKDROP)
    note = f"The model sees {seen:,} of {len(cloud):,} points; {len(drawn):,} are drawn."
    return ((drawn - centre) / reach).astype(np.float32), note
