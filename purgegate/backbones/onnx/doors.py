"""Doors into a graph: parts of one file, cut out at values that have a name, each for a runtime of its own.

The gate tokenises once, chooses, and encodes many times; and where BatchNorm takes its statistics is for the
program to say. The whole graph does all at once, by a share; its parts leave both to the caller.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import onnx

from purgegate.backbones.onnx.builder import IR, Shape, describe
from purgegate.backbones.onnx.parts import NORMS
from purgegate.backbones.onnx.point_mae import FIRST

Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]
Compile = Callable[[bytes], Run]

FIRST_NORM, SECOND_NORM = ((f"{norm}.scale", f"{norm}.shift") for norm in NORMS)
FIRST_MOMENTS, SECOND_MOMENTS = ((f"{norm}.batch_mean", f"{norm}.batch_var") for norm in NORMS)
TOKENS = "features", "positions", "centers"


class Door(NamedTuple):
    """What goes in and what comes out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


DOORS = {
    "embed": Door(("patches", "centers", *FIRST_NORM, *SECOND_NORM), ("features", "positions")),
    "encode": Door(TOKENS, ("feature",)),
    "attend": Door(TOKENS, (FIRST,)),
    # The embedding in steps, where BatchNorm has to see what lies between them.
    "lift": Door(("patches",), FIRST_MOMENTS),
    "mix": Door(("patches", "centers", *FIRST_NORM), ("own", "shared", *SECOND_MOMENTS, "positions")),
    "project": Door(("own", "shared", *SECOND_NORM), ("features",)),
}


class Doors:
    """The doors of one file, each opened when it is first used."""

    def __init__(self, model: onnx.ModelProto, compile_part: Compile) -> None:
        self.model, self.compile_part = model, compile_part
        self.opened: dict[str, tuple[set[str], Run]] = {}

    def open(self, name: str) -> tuple[set[str], Run]:
        """The inputs that a door takes, and what runs it."""
        if name not in self.opened:
            part = cut_out(self.model, *DOORS[name])
            wanted = {value.name for value in part.graph.input}
            self.opened[name] = wanted, self.compile_part(part.SerializeToString())
        return self.opened[name]

    def __call__(self, name: str, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """What comes out of a door; of the inputs it takes what it needs."""
        wanted, run = self.open(name)
        return run({key: value for key, value in inputs.items() if key in wanted})


def cut_out(model: onnx.ModelProto, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> onnx.ModelProto:
    """The part of a graph between these values."""
    nodes, needed = [], {*outputs}
    for node in reversed([*_opened(model.graph.node)]):
        if needed & {*node.output} - {*inputs}:
            nodes.append(node)
            needed |= {*_used(node)}
    graph = onnx.helper.make_graph(
        nodes[::-1],
        "part",
        [value for value in _inputs(model) if value.name in needed & {*inputs}],
        describe(dict.fromkeys(outputs)),
        [weight for weight in model.graph.initializer if weight.name in needed],
    )
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=IR)


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """All values at which the graph is cut, with their shapes."""
    whole = [*model.graph.input, *model.graph.output]
    widths = {weight.name: weight.dims[0] for weight in model.graph.initializer if weight.dims}
    first, second = (widths[f"{norm}.weight"] for norm in NORMS)
    between: dict[str, Shape] = {name: (first,) for name in FIRST_NORM}
    between |= {name: (second,) for name in SECOND_NORM}
    between |= {"own": ("B", "G", "K", second), "shared": ("B", "G", 1, second)}
    return [*whole, *describe(between)]


def _opened(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    """The nodes, and for each choice those of its first branch, so that their values can be asked for."""
    for node in nodes:
        if node.op_type == "If":
            branch = next(each for each in node.attribute if each.name == "then_branch")
            yield from branch.g.node
        else:
            yield node


def _used(node: onnx.NodeProto) -> Iterable[str]:
    """Names of all that a node takes, graphs inside of it included."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _used(inner)
