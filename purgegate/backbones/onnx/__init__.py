"""Our classifiers as ONNX graphs: written by `purgegate export`, run by other runtimes than torch.

The graph is written operator by operator, not traced: it holds for every batch and every number of tokens,
and needs no version of an exporter.
"""

from torch import nn

from purgegate.io.graphs import Metadata, import_extra
from purgegate.typing import StrPath

PRECISIONS = ("float32", "int8")  # of an exported file


def export_backbone(
    model: nn.Module, path: StrPath, *, precision: str = "float32", metadata: Metadata | None = None
) -> float:
    """Write a classifier as one `.onnx` file, and return the largest difference of its logits.

    `metadata` is what the file of the weights says of itself, such as their source statistics. int8 rounds
    weights and activations (ONNX Runtime's dynamic quantisation); the embedding's first layer and the head
    stay float32.
    """
    import_extra("onnx")
    from purgegate.backbones.onnx.export import write_graph

    return write_graph(model, path, precision=precision, metadata=metadata or {})


def load_graph(
    path: StrPath, *, runtime: str = "onnxruntime", precision: str = "float32"
) -> tuple[nn.Module, Metadata]:
    """The classifier of an `.onnx` file, with the doors of any other, and what the file says of itself."""
    import_extra("onnx")
    from purgegate.backbones.onnx.backbone import read_backbone

    return read_backbone(path, runtime=runtime, precision=precision)
