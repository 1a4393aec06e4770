"""A graph of ONNX operators, written as it is read: `g.MatMul(x, weight)`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from torch import Tensor

OPSET = 20  # the first that has GELU
IR = 9  # its file format; newer ones are refused by older runtimes

Value = str | Tensor | np.ndarray | float | int | list[int]  # a value of the graph by name, or a constant
Shape = Sequence[int | str | None]  # a name stands for any size


class Graph:
    """Nodes in the order in which they are called; constants become weights of the file."""

    def __init__(self, parent: "Graph | None" = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        # Names and weights are those of the whole file, so that the nodes of a branch can move out of it.
        self.names: dict[str, int] = parent.names if parent else {}
        self.weights: dict[str, np.ndarray] = parent.weights if parent else {}

    def __getattr__(self, operator: str) -> Any:
        """A function that adds a node of this operator and returns the name of its output, or their names."""
        if not operator[0].isupper():
            raise AttributeError(f"operators begin with a capital; got {operator!r}")

        def add(*inputs: Value, outputs: int | tuple[str, ...] = 1, **attributes: Any) -> Any:
            used = [self.name_of(value) for value in inputs]
            if isinstance(outputs, int):
                outputs = tuple(self.new_name(operator) for _ in range(outputs))
            self.nodes.append(helper.make_node(operator, used, outputs, name=outputs[0], **attributes))
            return outputs[0] if len(outputs) == 1 else outputs

        return add

    def name_of(self, value: Value) -> str:
        """The name of a value; a constant gets one."""
        if isinstance(value, str):
            return value
        if isinstance(value, int | list):
            return self.weight(self.new_name("number"), np.asarray(value, dtype=np.int64))
        if isinstance(value, float):
            return self.weight(self.new_name("number"), np.asarray(value, dtype=np.float32))
        return self.weight(self.new_name("weight"), value)

    def weight(self, name: str, value: Tensor | np.ndarray) -> str:
        """A constant under a name of its own."""
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        self.weights[name] = np.asarray(array, order="C")
        return name

    def new_name(self, kind: str) -> str:
        """A name that nothing else in the file has."""
        self.names[kind] = self.names.get(kind, 0) + 1
        return f"{kind}_{self.names[kind]}"

    def branch(self, *outputs: str, inputs: Iterable[str] = ()) -> onnx.GraphProto:
        """The nodes so far as a graph inside of another, which sees all values round it."""
        return self._graph(dict.fromkeys(inputs), dict.fromkeys(outputs))

    def model(
        self, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape], metadata: dict[str, str]
    ) -> onnx.ModelProto:
        """The file."""
        graph = self._graph(inputs, outputs)
        graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in self.weights.items())
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="purgegate"
        )
        helper.set_model_props(model, metadata)
        return model

    def _graph(
        self, inputs: Mapping[str, Shape | None], outputs: Mapping[str, Shape | None]
    ) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, self.new_name("graph"), describe(inputs), describe(outputs))


def describe(values: Mapping[str, Shape | None]) -> list[onnx.ValueInfoProto]:
    """Inputs or outputs of a graph, all of them single-precision numbers."""
    kind = onnx.TensorProto.FLOAT
    return [helper.make_tensor_value_info(name, kind, shape) for name, shape in values.items()]
