"""Point-MAE's blocks in ONNX operators."""

from typing import Any

from purgegate.backbones.onnx.builder import Graph
from purgegate.backbones.onnx.parts import END, layer_norm, linear

FIRST = "first_attention"  # queries, keys and values of the first block, which one score looks at


def encode_point_mae(g: Graph, model: Any) -> None:
    """From `features` and `positions` (B, G, D) to `feature` (B, F): any number of tokens, a class token."""
    x = _with_class_token(g, "features", model.cls_token)
    positions = _with_class_token(g, "positions", model.cls_pos)
    for place, block in enumerate(model.blocks.blocks):
        x = g.Add(x, positions)
        names = (FIRST,) if place == 0 else 1
        x = g.Add(x, _attend(g, layer_norm(g, x, block.norm1), block.attn, names))
        hidden = g.Gelu(linear(g, layer_norm(g, x, block.norm2), block.mlp.fc1))
        x = g.Add(x, linear(g, hidden, block.mlp.fc2))
    x = layer_norm(g, x, model.norm)
    own = g.Gather(x, 0, axis=1)
    others = g.ReduceMax(g.Slice(x, [1], [END], [1]), [1], keepdims=0)
    g.Concat(own, others, axis=-1, outputs=("feature",))


def _with_class_token(g: Graph, x: str, token: Any) -> str:
    shape = g.Concat(g.Shape(x, start=0, end=1), [*token.shape[1:]], axis=0)
    return g.Concat(g.Expand(token, shape), x, axis=1)


def _attend(g: Graph, x: str, attention: Any, names: Any) -> str:
    heads, width = attention.heads, attention.proj.in_features
    qkv = g.MatMul(x, attention.qkv.weight.T, outputs=names)
    parts = [g.Reshape(part, [0, 0, heads, -1]) for part in g.Split(qkv, axis=-1, num_outputs=3, outputs=3)]
    query, value = (g.Transpose(parts[place], perm=[0, 2, 1, 3]) for place in (0, 2))
    key = g.Transpose(parts[1], perm=[0, 2, 3, 1])
    weights = g.Softmax(g.Mul(g.MatMul(query, key), (width / heads) ** -0.5), axis=-1)
    mixed = g.Transpose(g.MatMul(weights, value), perm=[0, 2, 1, 3])
    return linear(g, g.Reshape(mixed, [0, 0, -1]), attention.proj)
