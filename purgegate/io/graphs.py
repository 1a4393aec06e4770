"""Files of ONNX graphs that say what they are."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from purgegate.io.files import check_file
from purgegate.typing import StrPath

Metadata = dict[str, Any]


def import_extra(module: str) -> ModuleType:
    """A package of the extra `onnx`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        advice = "pip install openvino" if package == "openvino" else "pip install 'purgegate[onnx]'"
        raise ValueError(f"this needs {package}, which is missing: `{advice}` ({error})") from error


def read_graph(path: StrPath) -> tuple[Any, Metadata]:
    """The model of an `.onnx` file that `purgegate export` wrote, and what it says of itself."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} is missing: make it with `purgegate export`")
    check_file(Path(path))
    onnx: Any = import_extra("onnx")
    try:
        model = onnx.load_model_from_string(Path(path).read_bytes())
        onnx.checker.check_model(model)
        metadata = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    except json.JSONDecodeError:
        metadata = {}
    except Exception as error:  # the parser and the checker have errors of their own
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a whole ONNX file: it is cut short or damaged ({reason})") from error
    if "purgegate" not in metadata:
        raise ValueError(f"{path} is an ONNX graph, but none of ours: give one that `purgegate export` wrote")
    return model, metadata
