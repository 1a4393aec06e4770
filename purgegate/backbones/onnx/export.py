"""A classifier of torch to one ONNX file, checked against it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from purgegate.backbones import name_of
from purgegate.backbones.onnx import PRECISIONS
from purgegate.backbones.onnx.builder import Graph
from purgegate.backbones.onnx.parts import classify, embed_centers, embed_patches
from purgegate.backbones.onnx.point_mae import encode_point_mae
from purgegate.backbones.onnx.point_mamba import encode_point_mamba
from purgegate.backbones.onnx.quantise import quantise
from purgegate.backbones.onnx.runtimes import compile_onnxruntime
from purgegate.backbones.point_mae import PointMAE
from purgegate.backbones.point_mamba import PointMamba
from purgegate.fingerprints import model_fingerprint
from purgegate.io.files import write_whole
from purgegate.norms import BLEND_EVEN, blend_share, statistics_from
from purgegate.twins import evaluation_twin
from purgegate.typing import StrPath
from purgegate.version import __version__

ENCODERS: dict[type[nn.Module], Callable[[Graph, Any], None]] = {
    PointMAE: encode_point_mae,
    PointMamba: encode_point_mamba,
}
INPUTS = {"patches": ("B", "G", "K", 3), "centers": ("B", "G", 3), "share": ()}

# What the graph may differ by, relative to the largest logit: rounding, in another order of sums.
TOLERANCE = 1e-4
CHECKED = 3, 40  # clouds and patches, other than any size in the model


def write_graph(model: nn.Module, path: StrPath, *, precision: str, metadata: dict[str, Any]) -> float:
    """Write the file, whole or not at all; see `export_backbone`."""
    if Path(path).suffix != ".onnx":
        raise ValueError(f"graphs are written as .onnx; got {Path(path).name!r}: give that ending")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    if type(model) not in ENCODERS:
        names = ", ".join(kind.__name__ for kind in ENCODERS)
        raise ValueError(f"a model to export must be one of {names}; got {type(model).__name__}")
    twin: Any = evaluation_twin(model)
    told = {**metadata, **describe_model(twin), "precision": precision}
    content = make_graph(twin, {key: json.dumps(value) for key, value in told.items()})
    # The graph in float32 is checked in either case: what rounding does to it is for measurement to say.
    difference = compare(twin, content.SerializeToString())
    if not difference <= TOLERANCE:
        raise ValueError(
            f"the graph must give the model's logits within {TOLERANCE}; it differs by {difference:.1e}: "
            "please report this model"
        )
    if precision == "int8":
        content = quantise(content)
        difference = compare(twin, content.SerializeToString())
    write_whole(Path(path), content.SerializeToString())
    return difference


def describe_model(model: Any) -> dict[str, Any]:
    """What the file says of its model, so that nothing else is needed to run it."""
    return {
        "purgegate": __version__,
        "backbone": name_of(model),
        "config": model.config,
        **{key: getattr(model, key) for key in ("classes", "points", "groups", "group_size", "width")},
        "class_names": [*getattr(model, "class_names", ())],
        "fingerprint": model_fingerprint(model),
    }


def make_graph(model: Any, metadata: dict[str, str]) -> onnx.ModelProto:
    """Patches, centres and the share of the batch's statistics to logits, feature and tokens."""
    g = Graph()
    embed_patches(g, "patches", model.encoder)
    embed_centers(g, "centers", model.pos_embed)
    ENCODERS[type(model)](g, model)
    classify(g, "feature", model.class_head)
    tokens = ("B", "G", model.width)
    feature = model.class_head[0].in_features
    outputs = {
        "logits": ("B", model.classes),
        "feature": ("B", feature),
        "features": tokens,
        "positions": tokens,
    }
    made = g.model(INPUTS, outputs, metadata)
    onnx.checker.check_model(made, full_check=True)
    return made


@torch.no_grad()
def compare(model: Any, content: bytes) -> float:
    """The largest difference of the graph's logits from the model's, relative to the largest logit."""
    run = compile_onnxruntime(content)
    draw = torch.Generator().manual_seed(0)
    clouds, patches = CHECKED
    centers = torch.rand(clouds, patches, 3, generator=draw) * 2 - 1
    around = (torch.rand(clouds, patches, model.group_size, 3, generator=draw) - 0.5) / 5
    found = []
    for norm, share in (("source", 0.0), ("batch", 1.0), ("blend", blend_share(BLEND_EVEN))):
        with statistics_from(model, norm, clouds=BLEND_EVEN):
            wanted = model.head(model.encode(model.embed(centers, around)))
        inputs = {"patches": around.numpy(), "centers": centers.numpy(), "share": np.array(share, np.float32)}
        logits = run(inputs)[0]
        found.append(_difference(torch.from_numpy(logits), wanted))
    return max(found)


def _difference(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1))
