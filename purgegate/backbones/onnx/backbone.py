"""A classifier whose tokens and features another runtime computes, with the same doors as ours."""

from typing import Any, NoReturn

import numpy as np
import onnx
import torch
from jaxtyping import Float
from torch import Tensor, nn

from purgegate.backbones.base import PatchClassifier, check_sizes
from purgegate.backbones.onnx.doors import Doors
from purgegate.backbones.onnx.parts import NORMS
from purgegate.backbones.onnx.runtimes import compiler
from purgegate.heads import classifier
from purgegate.io.checkpoints import load_strictly
from purgegate.io.graphs import Metadata, read_graph
from purgegate.norms import Moments, needs_batch, scale_and_shift
from purgegate.tokens import Tokens
from purgegate.typing import StrPath

SIZES = ("classes", "points", "groups", "group_size", "width")


class GraphBackbone(PatchClassifier):
    """Patches to tokens and tokens to a feature by a graph; BatchNorms and the head are layers of torch.

    So every rule for BatchNorm's statistics and every method that looks into the head finds here what it
    finds in our other classifiers. The head is less than a hundredth of the work.
    """

    def __init__(self, state: dict[str, Tensor], metadata: Metadata, doors: Doors) -> None:
        super().__init__()
        self.config: dict[str, Any] = metadata["config"]
        self.classes, self.points, self.groups, self.group_size, self.width = (
            metadata[size] for size in SIZES
        )
        self.fingerprint: str = metadata["fingerprint"]  # of the weights that were exported
        self.doors = doors
        self.norms = nn.ModuleList(nn.BatchNorm1d(len(state[f"{norm}.weight"])) for norm in NORMS)
        self.class_head = classifier(state["class_head.0.weight"].shape[1], self.classes)

    def embed(self, centers: Float[Tensor, "B G 3"], patches: Float[Tensor, "B G K 3"]) -> Tokens:
        """Patches to tokens; in steps where BatchNorm has to see what lies between them."""
        layers: Any = self.norms
        first, second = layers
        count = patches.shape[:3].numel()
        known = {"patches": patches, "centers": centers}
        moments = self._run("lift", known) if needs_batch(first) else _running(first)
        known |= _affine(NORMS[0], first, moments, count)
        if needs_batch(second):
            own, shared, mean, var, positions = self._run("mix", known)
            late = _affine(NORMS[1], second, (mean, var), count)
            (features,) = self._run("project", {"own": own, "shared": shared, **late})
        else:
            features, positions = self._run(
                "embed", known | _affine(NORMS[1], second, _running(second), count)
            )
        return Tokens(features, positions, centers)

    def encode(self, tokens: Tokens) -> Float[Tensor, "B F"]:
        """Any number of tokens to one feature per cloud."""
        return self._run("encode", tokens._asdict())[0]

    def _run(self, door: str, inputs: dict[str, Tensor]) -> Any:
        arrays = {name: value.detach().cpu().contiguous().numpy() for name, value in inputs.items()}
        device = next(iter(inputs.values())).device
        return tuple(torch.from_numpy(found).to(device) for found in self.doors(door, arrays))

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise ValueError(
            "a method that changes weights cannot change those of an ONNX graph: load the weights that were "
            "exported, or use a method that learns nothing, such as pg_auto or pg_sp"
        )


class PointMAEGraph(GraphBackbone):
    """A graph of Point-MAE's, which has a class token."""

    def class_attention(self, tokens: Tokens) -> tuple[Float[Tensor, " D"], Float[Tensor, "B G D"]]:
        """The class token's query and the tokens' keys in the first block, all heads together."""
        query, key, _ = self._run("attend", tokens._asdict())[0].chunk(3, dim=-1)
        return query[0, 0], key[:, 1:]


class PointMambaGraph(GraphBackbone):
    """A graph of PointMamba's."""


KINDS = {"point_mae": PointMAEGraph, "point_mamba": PointMambaGraph}


def read_backbone(path: StrPath, *, runtime: str, precision: str) -> tuple[GraphBackbone, Metadata]:
    """The classifier of a file that `purgegate export` wrote, and what the file says of itself."""
    compile_part = compiler(runtime, precision=precision)
    graph, metadata = read_graph(path)
    try:
        state = _torch_weights(graph)
        check_sizes(**{size: metadata[size] for size in SIZES})
        model = KINDS[metadata["backbone"]](state, metadata, Doors(graph, compile_part))
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged, or of another version of purgegate: {error!r}") from error
    load_strictly(model, state, origin=path)
    _open(model.doors, f"{path} cannot be run by {runtime}")
    # What rows of results report; of a file in int8 the runtime's own says little.
    model.precision = "int8" if metadata.get("precision") == "int8" else precision
    return model.eval().requires_grad_(False), metadata


def _open(doors: Doors, trouble: str) -> None:
    """Open the doors that every method uses, so that what a runtime refuses is known at once."""
    try:
        doors.open("embed")
        doors.open("encode")
    except ValueError:
        raise
    except Exception as error:  # runtimes have errors of their own
        raise ValueError(f"{trouble}: {' '.join(str(error).split())}") from error


def _torch_weights(graph: onnx.ModelProto) -> dict[str, Tensor]:
    """The weights of those layers that are torch's; all of the file must be finite."""
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in graph.graph.initializer}
    for name, value in weights.items():
        if value.dtype == np.float32 and not np.isfinite(value).all():
            raise ValueError(f"it has NaN or infinite numbers in {name}")
    ours = "norms.", "class_head."
    return {name: torch.tensor(value) for name, value in weights.items() if name.startswith(ours)}


def _running(layer: Any) -> Moments:
    return layer.running_mean, layer.running_var


def _affine(name: str, layer: Any, moments: Moments, count: int) -> dict[str, Tensor]:
    """What a BatchNorm amounts to under these moments of the batch, by the graph's names for it."""
    scale, shift = scale_and_shift(layer, *moments, count)
    return {f"{name}.scale": scale, f"{name}.shift": shift}
