"""Classifiers from files: released checkpoints and our own."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from purgegate.backbones import BACKBONES, class_of, create_backbone, name_of, sizes_known
from purgegate.backbones.auxiliary import attach_auxiliary
from purgegate.backbones.onnx import load_graph
from purgegate.io.checkpoints import load_strictly, read_checkpoint, save_checkpoint
from purgegate.kernels.linear import set_precision
from purgegate.typing import StrPath


def load_backbone(
    path: StrPath,
    *,
    classes: int | None = None,
    precision: str = "float32",
    runtime: str = "onnxruntime",
    **sizes: Any,
) -> nn.Module:
    """A trained classifier, in evaluation mode, from a released checkpoint or from `save_backbone`.

    Widths and depth are read off the tensors. What a state dict cannot tell (`groups`, `group_size`, `heads`)
    is given, or stands in our own files' metadata, or is the published value (64, 32, 6).

    `precision` is that of the products without gradients, "float32" or "bfloat16"; weights, statistics,
    scores and what lies between the layers are float32 in either.

    An `.onnx` file of `purgegate export` is run by its `runtime`, "onnxruntime" or "openvino".
    """
    if Path(path).suffix == ".onnx":
        model, metadata = load_graph(path, runtime=runtime, precision=precision)
        _check_asked({"classes": classes, **sizes}, {**dict.fromkeys(sizes), **metadata["config"]}, path)
        return _named(model, metadata, path, "" if runtime == "onnxruntime" else f" runtime={runtime}")
    state, metadata = read_checkpoint(path)
    family = family_of(state, metadata)
    kind: Any = class_of(family)
    try:
        found = kind.sizes_of(state) if hasattr(kind, "sizes_of") else {}
    except (KeyError, IndexError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else "it lacks blocks, or has odd shapes"
        raise ValueError(f"{path} is no {kind.__name__} classifier: {reason}") from error
    _check_asked({"classes": classes, **sizes}, found, path)
    model = create_backbone(family, **{**_told_sizes(metadata, family), **found, **sizes})
    attach_auxiliary(model, state)
    load_strictly(model, state, origin=path)
    set_precision(model, precision)
    # What was not read off the file.
    told = "".join(f" {name}={size}" for name, size in sorted(sizes.items()))
    return _named(model, metadata, path, told)


def _named(model: nn.Module, metadata: dict[str, Any], path: StrPath, told: str = "") -> nn.Module:
    """The model with the names of its classes, and that by which rows of results call its weights."""
    model.class_names = _told_names(metadata, model, origin=path)  # type: ignore[assignment]
    model.weights_name = Path(path).name + told  # type: ignore[assignment]
    return model


def _check_asked(asked: dict[str, Any], found: dict[str, Any], path: StrPath) -> None:
    """Refuse a size that the file has otherwise."""
    for name, size in asked.items():
        if size is not None and name in found and size != found[name]:
            raise ValueError(
                f"{path} has {name} {found[name]}, but {size} was asked for: leave it out or load another"
            )


def _told_names(metadata: dict[str, Any], model: nn.Module, *, origin: StrPath) -> tuple[str, ...]:
    """The names of the classes, if the file tells them, one for each."""
    names = metadata.get("class_names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ()
    classes = getattr(model, "classes", len(names))
    if names and len(names) != classes:
        raise ValueError(f"{origin} is damaged: it names {len(names)} classes, and its head has {classes}")
    return tuple(names)


def _told_sizes(metadata: dict[str, Any], family: str) -> dict[str, Any]:
    """The sizes that our own files tell; others may mean something else by that name."""
    config = metadata.get("config")
    return config if isinstance(config, dict) and config.keys() <= sizes_known(family).keys() else {}


def save_backbone(
    model: nn.Module, path: StrPath, *, class_names: tuple[str, ...] = (), dtype: torch.dtype = torch.float32
) -> None:
    """Write a `.safetensors` file that `load_backbone` needs nothing else for.

    Without `class_names` those that the model was loaded with are kept; source statistics have files of
    their own.
    """
    if Path(path).suffix != ".safetensors":
        raise ValueError(f"weights are written as .safetensors; got {Path(path).name!r}: give that ending")
    metadata = {
        "backbone": name_of(model),
        "config": model.config,
        "class_names": class_names or getattr(model, "class_names", ()),
    }
    save_checkpoint(model, path, metadata=metadata, dtype=dtype)


def default_device() -> str:
    """Where commands put a model: on a GPU, if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def family_of(state: dict[str, Tensor], metadata: dict[str, Any]) -> str:
    """Name of the backbone in a file: as it says itself, or by its tensors, or else the paper's first."""
    named = metadata.get("backbone")
    if isinstance(named, str) and named in BACKBONES:
        return named
    found = next((name for name in BACKBONES if _recognises(class_of(name), state)), None)
    if found is None and isinstance(named, str):
        raise ValueError(f"a {named!r} must be in BACKBONES to be loaded: import the module that enters it")
    return found or next(iter(BACKBONES))


def _recognises(kind: Any, state: dict[str, Tensor]) -> bool:
    return hasattr(kind, "recognises") and kind.recognises(state)
