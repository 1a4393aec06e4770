"""Names for exactly these numbers: of arrays, of weights."""

import hashlib

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor


def array_fingerprint(*arrays: Shaped[np.ndarray, "..."]) -> str:
    """Digest of arrays: their bytes, shapes and types."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def state_fingerprint(state: dict[str, Tensor]) -> str:
    """A name for exactly these weights, as float32 and whatever their order."""
    digest = hashlib.sha256()
    for key in sorted(state):
        if not key.endswith("num_batches_tracked"):
            value = state[key].detach().to("cpu", torch.float32).contiguous()
            digest.update(f"{key}{tuple(value.shape)}".encode())
            digest.update(value.numpy().data)
    return digest.hexdigest()[:16]


def model_fingerprint(model: object) -> str | None:
    """Fingerprint of a model's weights: as it says itself, or of its state dict, or None without one."""
    if isinstance(known := getattr(model, "fingerprint", None), str):
        return known
    return state_fingerprint(model.state_dict()) if hasattr(model, "state_dict") else None
