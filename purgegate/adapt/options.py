"""Options of methods: of which kinds they are, and as rows of results report them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch

from purgegate.fingerprints import array_fingerprint

NAMES_OF_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table, in { }",
    list: "a list, in [ ]",
    NoneType: "none",
}


def check_kinds(make: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse an option of another kind than the method declares, as a recipe may give it."""
    try:
        declared = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    except (NameError, TypeError):  # a person's own may declare what cannot be looked up
        return
    for name, value in options.items():
        kinds = _plain_kinds(declared.get(name))
        if kinds and not any(_is_a(value, kind) for kind in kinds):
            wanted = " or ".join(NAMES_OF_KINDS[kind] for kind in kinds)
            raise ValueError(f"{name} must be {wanted}; got {value!r}")


def _plain_kinds(declared: Any) -> list[type]:
    """The plain kinds that an option may have; none where it may be something else as well."""
    if get_origin(declared) in (Union, UnionType):
        parts = [_plain_kinds(each) for each in get_args(declared)]
        return [kind for part in parts for kind in part] if all(parts) else []
    if get_origin(declared) in (Sequence, list, tuple):
        return [list]
    if get_origin(declared) in (Mapping, dict):
        return [dict]
    return [declared] if declared in NAMES_OF_KINDS else []


def _is_a(value: Any, kind: type) -> bool:
    if kind is list:
        return not isinstance(value, (str, bytes, Mapping)) and hasattr(value, "__iter__")
    if kind is dict:
        return isinstance(value, Mapping)
    if kind in (int, float):
        number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return number and not isnan(float(value) if kind is float else 0)
    return isinstance(value, (bool, np.bool_) if kind is bool else kind)


def describe_option(value: Any) -> Any:
    """A plain value that equal options have in common: of arrays a digest, of objects what they say."""
    if hasattr(value, "described"):
        return value.described()
    if isinstance(value, tuple) and value and getattr(value[0], "shape", ()):
        return array_fingerprint(*map(_as_array, value[:2]))[:16]  # clouds or features, and labels
    if hasattr(value, "tolist"):  # a number of NumPy or torch, or a few of them
        return value.tolist()
    if isinstance(value, (tuple, list, range)):
        return [describe_option(each) for each in value]
    if isinstance(value, dict):
        return {str(name): describe_option(each) for name, each in value.items()}
    plain = (str, int, float, bool, type(None))
    return value if isinstance(value, plain) else type(value).__name__


def _as_array(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
