"""Programs that run ONNX graphs on a CPU: bytes of a graph in, a function of arrays out."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from purgegate.backbones.onnx.doors import Compile, Run
from purgegate.io.graphs import import_extra


def compile_onnxruntime(content: bytes, *, precision: str = "float32") -> Run:
    """By ONNX Runtime; int8 is in the file, and its CPU has no bfloat16."""
    if precision != "float32":
        raise ValueError(
            f"ONNX Runtime computes in float32 or as the file says; got precision {precision!r}: use "
            "runtime='openvino', or a file of `purgegate export --precision int8`"
        )
    runtime: Any = import_extra("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # Threads that wait for work by spinning would take the cores from the next door, and from torch.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors, which are raised too
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        return session.run(None, inputs)

    return run


def compile_openvino(content: bytes, *, precision: str = "float32") -> Run:
    """By OpenVINO, in float32 or bfloat16, whatever it would choose itself."""
    kinds = {"float32": "f32", "bfloat16": "bf16"}
    if precision not in kinds:
        raise ValueError(f"precision must be one of {', '.join(kinds)}; got {precision!r}")
    core: Any = import_extra("openvino").Core()
    settings = {
        "INFERENCE_PRECISION_HINT": kinds[precision],
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    compiled = core.compile_model(core.read_model(content), "CPU", settings)
    own = threading.local()  # a request holds the results of its last run: one per thread

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        found = own.request.infer(inputs, share_inputs=True, share_outputs=False)
        return [found[output] for output in compiled.outputs]

    return run


RUNTIMES: dict[str, Callable[..., Run]] = {
    "onnxruntime": compile_onnxruntime,
    "openvino": compile_openvino,
}


def compiler(runtime: str, *, precision: str = "float32") -> Compile:
    """The way in which a runtime of this name makes a function of a graph."""
    if runtime not in RUNTIMES:
        raise ValueError(f"runtime must be one of {', '.join(RUNTIMES)}; got {runtime!r}")
    return partial(RUNTIMES[runtime], precision=precision)
