"""Options of methods as rows of results report them."""

from typing import Any

import torch

from purgegate.fingerprints import array_fingerprint


def describe_option(value: Any) -> Any:
    """A plain value that equal options have in common: of arrays a digest, of objects what they say."""
    if hasattr(value, "described"):
        return value.described()
    if isinstance(value, tuple) and value and getattr(value[0], "shape", ()):
        arrays = (torch.as_tensor(each).detach().cpu().numpy() for each in value[:2])
        return array_fingerprint(*arrays)[:16]  # clouds or features, and labels
    if hasattr(value, "tolist"):  # a number of NumPy or torch, or a few of them
        return value.tolist()
    if isinstance(value, (tuple, list, range)):
        return [describe_option(each) for each in value]
    if isinstance(value, dict):
        return {str(name): describe_option(each) for name, each in value.items()}
    plain = (str, int, float, bool, type(None))
    return value if isinstance(value, plain) else type(value).__name__
