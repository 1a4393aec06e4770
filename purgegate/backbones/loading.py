"""Classifiers from files: released checkpoints and our own."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from purgegate.backbones import BACKBONES, class_of, create_backbone, has_class, name_of, sizes_known
from purgegate.backbones.auxiliary import attach_auxiliary
from purgegate.backbones.onnx import load_graph
from purgegate.imports import path_of
from purgegate.io.checkpoints import (
    OWN_MODEL,
    check_finite,
    load_strictly,
    read_checkpoint,
    read_tensors,
    save_checkpoint,
)
from purgegate.kernels.linear import set_precision
from purgegate.typing import StrPath


def load_backbone(
    path: StrPath,
    *,
    classes: int | None = None,
    precision: str = "float32",
    runtime: str = "onnxruntime",
    model: Any = None,
    **sizes: Any,
) -> nn.Module:
    """A trained classifier, in evaluation mode, from a released checkpoint or from `save_backbone`.

    Widths and depth are read off the tensors. What a state dict cannot tell (`groups`, `group_size`, `heads`)
    is given, or stands in our own files' metadata, or is the published value (64, 32, 6).

    `precision` is that of the products without gradients, "float32" or "bfloat16"; weights, statistics,
    scores and what lies between the layers are float32 in either.

    An `.onnx` file of `purgegate export` is run by its `runtime`, "onnxruntime" or "openvino".

    A model of one's own is given as `model`, itself or what makes it, and filled: no file names code to run.
    """
    if model is not None:
        if classes is not None or sizes or precision != "float32":
            raise ValueError(
                "classes, sizes and precision are those of the model that is given: leave them out"
            )
        return _fill(model, path)
    if Path(path).suffix == ".onnx":
        graph, metadata = load_graph(path, runtime=runtime, precision=precision)
        _check_asked({"classes": classes, **sizes}, {**dict.fromkeys(sizes), **metadata["config"]}, path)
        return _named(graph, metadata, path, "" if runtime == "onnxruntime" else f" runtime={runtime}")
    state, metadata = read_checkpoint(path)
    if isinstance(own := metadata.get(OWN_MODEL), str):
        raise ValueError(
            f"{path} holds the weights of {own}, a model of one's own, and not its code: give that too, by "
            f"load_backbone(path, model={own.rpartition(':')[2]}), or in a command or recipe as {own}@{path}"
        )
    family = family_of(state, metadata)
    kind: Any = class_of(family)
    try:
        found = kind.sizes_of(state) if hasattr(kind, "sizes_of") else {}
    except (KeyError, IndexError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else "it lacks blocks, or has odd shapes"
        raise ValueError(f"{path} is no {kind.__name__} classifier: {reason}") from error
    _check_asked({"classes": classes, **sizes}, found, path)
    made = create_backbone(family, **{**_told_sizes(metadata, family), **found, **sizes})
    attach_auxiliary(made, state)
    load_strictly(made, state, origin=path)
    set_precision(made, precision)
    # What was not read off the file.
    told = "".join(f" {name}={size}" for name, size in sorted(sizes.items()))
    return _named(made, metadata, path, told)


def _fill(model: Any, path: StrPath) -> nn.Module:
    """A model of a person's own with the weights of a file, in evaluation mode."""
    made = model if isinstance(model, nn.Module) or not callable(model) else model()
    if not isinstance(made, nn.Module):
        raise ValueError(f"model must be a torch module, or what makes one; got {type(made).__name__}")
    state, metadata = read_tensors(Path(path))
    load_strictly(made, state, origin=path)
    for key, value in made.named_parameters():  # a buffer may be a mask
        check_finite(key, value, origin=path)
    return _named(made.eval(), metadata, path)


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
    model: Any, path: StrPath, *, class_names: tuple[str, ...] = (), dtype: torch.dtype | None = None
) -> None:
    """Write a `.safetensors` file that `load_backbone` needs nothing else for.

    Without `class_names` those that the model was loaded with are kept; source statistics have files of
    their own. Of a model whose class is not in BACKBONES the file has the weights alone, and `load_backbone`
    needs its `model` too.
    """
    if Path(path).suffix != ".safetensors":
        raise ValueError(f"weights are written as .safetensors; got {Path(path).name!r}: give that ending")
    if not isinstance(model, nn.Module):
        raise ValueError(f"only a torch module has weights to be saved; got {type(model).__name__}")
    names = {"class_names": class_names or getattr(model, "class_names", ())}
    save_checkpoint(model, path, metadata=_describe_class(model) | names, dtype=dtype)


def _describe_class(model: nn.Module) -> dict[str, Any]:
    """What a file says of its model's class: name and sizes, or the import path that a person must give."""
    if not has_class(model):
        return {OWN_MODEL: path_of(type(model))}
    config = getattr(model, "config", None)
    if not isinstance(config, dict):
        raise ValueError(f"{type(model).__name__} needs a dict `config`, the sizes it was made with")
    return {"backbone": name_of(model), "config": config}


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
