"""Objects by their import path, `package.module:Name`: a person's own methods and models."""

import importlib
import sys
from pathlib import Path
from typing import Any


def is_path(name: str) -> bool:
    """Whether a name is written like an import path."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")])


def path_of(value: Any) -> str:
    """The import path of a class or function."""
    return f"{value.__module__}:{value.__qualname__}"


def import_object(path: str) -> Any:
    """What an import path stands for; modules in the current folder are found too."""
    if not is_path(path):
        raise ValueError(f"an import path is written package.module:Name; got {path!r}")
    module, _, attribute = path.partition(":")
    value = _import(module, path)
    for name in attribute.split("."):
        if not hasattr(value, name):
            known = ", ".join(each for each in dir(value) if not each.startswith("_"))
            raise ValueError(f"{path} is missing: {module} has no {name}; it has {known}")
        value = getattr(value, name)
    return value


def _import(module: str, path: str) -> Any:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{path} cannot be imported: {error}; give a module that `python -c 'import {module}'` finds, or "
            "work in its folder"
        ) from error
    finally:
        sys.path.remove(here)
