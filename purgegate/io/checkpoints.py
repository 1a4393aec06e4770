"""A state dict of any origin to ours, strictly; and ours to a file that says what it is."""

import codecs
import json
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from purgegate.fingerprints import state_fingerprint
from purgegate.io.bundled import bundled_names, weights_path
from purgegate.io.files import check_file, write_whole
from purgegate.io.formats.contents import check_archive
from purgegate.io.graphs import read_graph
from purgegate.typing import StrPath

State = dict[str, Tensor]

# Wrappers and other names of the same parts, each undone wherever it stands: our models keep published names.
RENAMES = (
    (r"(?<![^.])module\.", ""),  # DataParallel
    (r"^(MAE_encoder|base_model)\.", ""),  # MATE; Point-MAE's and PointMamba's pre-training
    (r"^cls_head_finetune\.", "class_head."),  # Point-MAE's and PointMamba's fine-tuning
    (r"^class_head\.8\.custom_last_layer_name\.", "class_head.8."),  # the file for ScanObjectNN
    (r"^(MAE_decoder\.|decoder_pos_embed\.|mask_token$|increase_dim\.)", r"auxiliary.masked.\1"),  # MATE
    (r"^class_head_rotnet\.8\.", "auxiliary.rotation."),  # TTT-Rot
    (r"^class_head_rotnet\.", "class_head."),  # its two heads share their hidden layers
)

# What numbers of NumPy are pickled by: released files tell their accuracy so. None of it runs code of a file.
_rebuild = np.float32().__reduce__()[0]
NUMBERS: list[Any] = [
    *((_rebuild, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    *{type(np.dtype(kind)) for kind in np.typecodes["AllInteger"] + np.typecodes["Float"]},
    np.dtype,
    codecs.encode,
]

OWN_MODEL = "own_model"  # in the metadata of weights whose code is a person's own: its import path
MOST_PARTS = 64  # numbers of parts that a file of few tensors may have in their names


class Checkpoint(NamedTuple):
    """Tensors of a file under our names, and what the file says of itself."""

    state: State
    metadata: dict[str, Any]


def read_checkpoint(path: StrPath) -> Checkpoint:
    """Read bundled weights, a `.safetensors` or a `torch.save` file, without running code from it."""
    path = weights_path(path)
    state, metadata = read_tensors(path)
    if OWN_MODEL in metadata:  # whose names are not ours
        return Checkpoint(state, metadata)
    _check_tensors(state, origin=path)
    return Checkpoint(to_ours({key: _as_float(value) for key, value in state.items()}, origin=path), metadata)


def read_tensors(path: Path) -> Checkpoint:
    """Read a file as it is, under the names that it gives."""
    if not path.exists():
        names = ", ".join(bundled_names())
        raise FileNotFoundError(
            f"{path} is missing: give the path of a .safetensors or .pth file, or one of {names}"
        )
    check_file(path)
    if path.suffix == ".onnx":  # its weights are laid out for a runtime; what it says of itself is as ours
        return Checkpoint({}, read_graph(path)[1])
    return Checkpoint(*(_read_safetensors if path.suffix == ".safetensors" else _read_pickle)(path))


def to_ours(state: State, *, origin: StrPath) -> State:
    """Undo wrappers and renamings of a released layout; a decoder that is there in part is left out."""
    renamed: State = {}
    for key, value in state.items():
        if not torch.equal(renamed.setdefault(_rename(key), value), value):
            raise ValueError(f"{origin} has two tensors that differ for {_rename(key)}, one of them {key}")
    if any(key.startswith("increase_dim_2.") for key in renamed):
        raise ValueError(
            f"{origin} is a model of SMART-PC, whose patches are in absolute coordinates: here they are "
            "relative to their centres; train one with `purgegate train skeleton`"
        )
    # TTT-Rot's files have a decoder that lacks its last layer; PointMamba's has no attention.
    needed = {
        f"auxiliary.masked.{key}" for key in ("increase_dim.0.weight", "MAE_decoder.blocks.0.attn.qkv.weight")
    }
    left_out = () if needed <= renamed.keys() else ("auxiliary.masked.",)
    return {key: _reshape(key, value) for key, value in renamed.items() if not key.startswith(left_out)}


def load_strictly(model: nn.Module, state: State, *, origin: StrPath) -> None:
    """Fill the model; a missing, unexpected or mis-shaped tensor is an error that lists them all."""
    wanted = model.state_dict()
    counters = {key for key in wanted if key.endswith("num_batches_tracked")}
    shapes = [
        f"{key} is {tuple(state[key].shape)}, not {tuple(wanted[key].shape)}"
        for key in wanted
        if key in state and state[key].shape != wanted[key].shape
    ]
    problems = {
        "missing": sorted(wanted.keys() - state.keys() - counters),
        "unexpected": sorted(state.keys() - wanted.keys()),
        "of another shape": shapes,
    }
    if any(problems.values()):
        found = "; ".join(f"{what}: {', '.join(keys)}" for what, keys in problems.items() if keys)
        raise ValueError(f"{origin} does not fit {type(model).__name__}: {found}")
    try:
        model.load_state_dict({**wanted, **state})
    except RuntimeError as error:  # a person's own module may refuse what fits
        reason = " ".join(str(error).split())
        raise ValueError(f"{origin} does not fit {type(model).__name__}: {reason}") from error


def save_checkpoint(
    model: nn.Module, path: StrPath, *, metadata: dict[str, Any], dtype: torch.dtype | None = None
) -> None:
    """Write the weights with their metadata and fingerprint; the file appears whole or not at all."""
    state = {}
    for key, value in model.state_dict().items():
        if not isinstance(value, Tensor) or not _is_real(value):
            raise ValueError(f"weights must be plain real numbers to be saved; {key} is something else")
        value = value.to(dtype) if dtype and value.is_floating_point() else value
        state[key] = value.clone(memory_format=torch.contiguous_format)  # of tied weights, each has its own
    described = {key: json.dumps(value) for key, value in metadata.items()}
    described["fingerprint"] = json.dumps(state_fingerprint(state))
    write_tensors(state, path, metadata=described)


def write_tensors(state: State, path: StrPath, *, metadata: dict[str, str]) -> None:
    """Write a `.safetensors` file, which appears whole or not at all, and its folder."""
    write_whole(Path(path), save(state, metadata=metadata))


def _rename(key: str) -> str:
    for pattern, name in RENAMES:
        key = re.sub(pattern, name, key)
    return key


def _reshape(key: str, value: Tensor) -> Tensor:
    # A convolution of kernel size 1 over points is a linear layer.
    pointwise = key.startswith(("encoder.", "auxiliary.masked.increase_dim."))
    return value.squeeze(-1) if pointwise and value.ndim == 3 else value


def _read_safetensors(path: Path) -> tuple[State, dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            described = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from error
    metadata = {key: _parse(value) for key, value in described.items()}
    return state, metadata


def _parse(value: str) -> Any:
    """What our own files tell as JSON; those of others have plain text."""
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _read_pickle(path: Path) -> tuple[State, dict[str, Any]]:
    try:
        if zipfile.is_zipfile(path):
            check_archive(zipfile.ZipFile(path))
        with torch.serialization.safe_globals(NUMBERS):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle may lead to any
        asked = re.search(r"Unsupported global: GLOBAL (\S+)", str(error))
        reason = f"it asks for {asked[1]}" if asked else "it is damaged, or no file of torch.save"
        raise ValueError(
            f"{path} is not a whole checkpoint of plain tensors: {reason}; save the model's state dict alone"
        ) from error
    for wrapper in ("base_model", "model", "state_dict", "model_state_dict"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not all(map(_is_named_tensor, content.items())):
        raise ValueError(f"{path} holds no state dict: expected tensors by name, or a dict with `base_model`")
    return content, {}


def _is_named_tensor(item: tuple[Any, Any]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], Tensor)


def _check_tensors(state: State, *, origin: StrPath) -> None:
    """Refuse what no trained model has: other things than plain numbers, NaN, parts without end."""
    for key, value in state.items():
        if not _is_plain(value):
            raise ValueError(f"{origin} is damaged, or no classifier: {key} must hold plain real numbers")
        check_finite(key, value, origin=origin)
        if any(int(part) > max(MOST_PARTS, len(state)) for part in key.split(".") if part.isdecimal()):
            raise ValueError(f"{origin} is damaged: {key} belongs to more parts than it has tensors")


def check_finite(key: str, value: Tensor, *, origin: StrPath) -> None:
    """Refuse numbers that no training leaves."""
    if value.is_floating_point() and not torch.isfinite(value).all():
        raise ValueError(
            f"{origin} has NaN or infinite numbers in {key}: it is damaged, or its training went wrong"
        )


def _is_plain(value: Tensor) -> bool:
    """Whether a tensor is dense, real, and has a place in memory for each of its values."""
    return _is_real(value) and value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def _is_real(value: Tensor) -> bool:
    return not (value.layout != torch.strided or value.is_meta or value.is_quantized or value.is_complex())


def _as_float(value: Tensor) -> Tensor:
    return value.float() if value.is_floating_point() else value
