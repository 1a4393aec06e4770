"""Twins of models: modules of their own round the same weights, so that one model serves many streams."""

from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")
Memo = dict[int, tuple[Any, Any]]  # by id: what was met, kept alive, and its twin

# What holds no modules of a model, however much else it refers to.
LEAVES = (
    torch.jit.ScriptModule,
    type,
    ModuleType,
    FunctionType,
    Tensor,
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
)


def evaluation_twin(model: T) -> T:
    """A twin of a model whose modules are all in evaluation mode; the given model keeps its own modes."""
    memo: Memo = {}
    made = _twin(model, memo)
    for _, each in memo.values():
        if isinstance(each, nn.Module):
            each.training = False
    return made


def twin(model: T) -> T:
    """The same model in new modules: weights and buffers are shared, modes, hooks and attributes are not.

    A model that is no module itself is followed through what it holds, methods included.
    """
    return _twin(model, {})


def held_modules(model: object) -> list[nn.Module]:
    """All modules of a model; of one that is none itself, those that it holds or whose methods it holds."""
    if isinstance(model, nn.Module):
        return list(model.modules())
    memo: Memo = {}
    _twin(model, memo)
    return [each for each, _ in memo.values() if isinstance(each, nn.Module)]


def _twin(value: Any, memo: Memo) -> Any:
    """The twin of whatever a model may hold; what leads to no module stays itself."""
    if isinstance(value, LEAVES):
        return value
    if id(value) in memo:
        return memo[id(value)][1]
    memo[id(value)] = value, value  # a container that holds itself stays itself
    made = _make(value, memo)
    memo[id(value)] = value, made
    return made


def _make(value: Any, memo: Memo) -> Any:
    if isinstance(value, nn.Module):
        return _module(value, memo)
    if isinstance(value, MethodType):
        owner = _twin(value.__self__, memo)
        return value if owner is value.__self__ else MethodType(value.__func__, owner)
    if isinstance(value, dict):
        changed = {key: new for key, old in value.items() if (new := _twin(old, memo)) is not old}
        return _updated(value, changed) if changed else value
    if isinstance(value, (list, tuple)):
        made = [_twin(each, memo) for each in value]
        same = all(new is old for new, old in zip(made, value, strict=True))
        return value if same else type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return _object(value, memo) if hasattr(value, "__dict__") else value


def _module(module: nn.Module, memo: Memo) -> nn.Module:
    made = object.__new__(type(module))
    memo[id(module)] = module, made
    for name, value in vars(module).items():
        found = _twin(value, memo)
        # Hooks and buffers of the twin are its own even where none of them changes.
        made.__dict__[name] = value.copy() if found is value and isinstance(value, dict) else found
    return made


def _object(value: Any, memo: Memo) -> Any:
    try:
        kind: Any = type(value)
        made = kind.__new__(kind)
    except TypeError:  # made with arguments, such as a partial function
        return value
    memo[id(value)] = value, made
    attributes = {name: _twin(each, memo) for name, each in vars(value).items()}
    if all(attributes[name] is each or attributes[name] is made for name, each in vars(value).items()):
        return value
    made.__dict__.update(attributes)
    return made


def _updated(value: dict, changed: dict) -> dict:
    made = value.copy()
    made.update(changed)
    return made
