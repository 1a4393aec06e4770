"""Products of 8-bit numbers in a graph: weights rounded once, activations as they come."""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from purgegate.backbones.onnx.builder import Graph
from purgegate.kernels.products import NARROW

LARGEST = 127


def quantise(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with every wide product of fixed weights in int8, under the same names.

    Each column of the weights has a scale of its own, each activation one by its range in the batch; ONNX
    Runtime makes one kernel of the operators (dynamic quantisation).
    """
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    g = Graph()
    for node in model.graph.node:
        weight = weights.get(node.input[1]) if node.op_type == "MatMul" else None
        # Coordinates have more digits than eight bits.
        if weight is not None and weight.ndim == 2 and len(weight) > NARROW:
            _multiply(g, node, weights.pop(node.input[1]))
        else:
            g.nodes.append(node)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _replace(made.graph.node, g.nodes)
    kept = {**weights, **g.weights}
    _replace(made.graph.initializer, (numpy_helper.from_array(value, name) for name, value in kept.items()))
    onnx.checker.check_model(made, full_check=True)
    return made


def _multiply(g: Graph, node: onnx.NodeProto, weight: np.ndarray) -> None:
    x, name = node.input
    scale = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny * LARGEST) / LARGEST
    rounded = g.weight(f"{name}.rounded", np.rint(weight / scale).astype(np.int8))
    zero = g.weight(f"{name}.zero", np.zeros((), np.int8))
    kinds = (f"{name}.input", f"{name}.input_scale", f"{name}.input_zero")
    whole, unit, middle = g.DynamicQuantizeLinear(x, outputs=kinds)
    product = g.MatMulInteger(whole, rounded, middle, zero, outputs=(f"{name}.product",))
    summed = g.Cast(product, to=TensorProto.FLOAT, outputs=(f"{name}.sum",))
    units = g.Mul(unit, g.weight(f"{name}.scale", scale.astype(np.float32)), outputs=(f"{name}.units",))
    g.Mul(summed, units, outputs=(node.output[0],))


def _replace(field: object, values: Iterable[object]) -> None:
    """Other values in a repeated field of a file."""
    del field[:]  # type: ignore[attr-defined]
    field.extend(values)  # type: ignore[attr-defined]
