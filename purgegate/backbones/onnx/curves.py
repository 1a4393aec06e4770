"""The order along a Hilbert curve in ONNX operators: a machine that reads a cell's place bit by bit.

Whole numbers stay below 2^31 and are not sorted by an operator, for not every runtime has longer ones, or
keeps the order of equal ones.
"""

import numpy as np
import torch
from onnx import TensorProto

from purgegate.backbones.onnx.builder import Graph
from purgegate.points.curves import CELL, MOST_BITS, TURN, hilbert_codes, widen

DIGITS = 10  # of three bits each in one number
OCTANT = (4, 2, 1)  # weights of the axes' bits in the number of an eighth of a cube


def along_curves(g: Graph, centers: str, *, bits: int) -> str:
    """A matrix of ones and zeros (2, B, G, G) that puts tokens in Hilbert order, and in that of y and x."""
    # As many bits as the widest cloud needs: more, three at a time, change no other cloud's order.
    octants = _octants(g, centers, bits=widen(bits, MOST_BITS))
    count = g.Squeeze(g.Shape(centers, start=1, end=2))
    places = g.Range(0, count, 1)
    column = g.Unsqueeze(places, [1])
    before = g.Less(places, column)  # of equal ones the first comes first
    for code in reversed(_codes(g, octants, bits=widen(bits, MOST_BITS))):
        own, other = g.Unsqueeze(code, [-1]), g.Unsqueeze(code, [-2])
        before = g.Or(g.Less(other, own), g.And(g.Equal(other, own), before))
    rank = g.ReduceSum(g.Cast(before, to=TensorProto.INT64), [-1], keepdims=0)
    return g.Cast(g.Equal(g.Unsqueeze(rank, [-2]), column), to=TensorProto.FLOAT)


def _octants(g: Graph, centers: str, *, bits: int) -> str:
    """Which eighth of the cube a centre lies in, of that which eighth, and so on: (2, B, G, bits)."""
    cells = g.Floor(g.Div(centers, CELL))
    cells = g.Clip(g.Sub(cells, g.ReduceMin(cells, [1], keepdims=1)), 0.0, 2.0**MOST_BITS - 1)
    both = [g.Unsqueeze(x, [0]) for x in (cells, g.Gather(cells, [1, 0, 2], axis=-1))]
    steps = 0.5 ** torch.arange(bits - 1, -1, -1.0)
    halved = g.Floor(g.Mul(g.Unsqueeze(g.Concat(*both, axis=0), [-1]), steps))
    bit = g.Sub(halved, g.Mul(g.Floor(g.Mul(halved, 0.5)), 2.0))
    octants = g.ReduceSum(g.Mul(bit, torch.tensor(OCTANT).float()[:, None]), [-2], keepdims=0)
    return g.Cast(octants, to=TensorProto.INT64)


def _codes(g: Graph, octants: str, *, bits: int) -> list[str]:
    """Place along the curve, as numbers of so many digits each, the leading first."""
    digit_of, next_of = hilbert_machine(bits)
    digits, following = g.weight("hilbert.digits", digit_of), g.weight("hilbert.states", next_of)
    found: list[str] = []
    state = 0
    for place in range(bits):
        entry = g.Add(g.Gather(octants, place, axis=-1), state)
        digit, state = g.Gather(digits, entry), g.Gather(following, entry)
        if place % DIGITS == 0:
            found.append(digit)
        else:
            found[-1] = g.Add(g.Mul(found[-1], 8), digit)
    return found


def hilbert_machine(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The digit of an octant in a state, and the state that follows; states are numbered in eights.

    A state is a way in which the curve runs through the eight octants; it is found by following the curve,
    of which three bits less are the same.
    """
    bits = min(bits, 2 * TURN + bits % TURN)
    states: dict[tuple[int, ...], tuple[int, ...]] = {_digits_after((), bits): ()}
    following = []
    for way in (queue := [*states]):
        for octant in range(8):
            prefix = (*states[way], octant)
            then = _digits_after(prefix, bits)
            if then not in states:
                states[then] = prefix
                queue.append(then)
            following.append(8 * list(states).index(then))
    return np.array([*states], dtype=np.int64).ravel(), np.array(following, dtype=np.int64)


def _digits_after(prefix: tuple[int, ...], bits: int) -> tuple[int, ...]:
    """The next digit of each octant behind these."""
    level = bits - len(prefix) - 1  # the bit that tells the next octant
    octants = torch.tensor([[*prefix, octant] for octant in range(8)])
    values = 1 << torch.arange(bits - 1, level - 1, -1)
    cells = torch.stack([(octants.bitwise_and(axis) > 0).long() @ values for axis in OCTANT], dim=-1)
    return tuple(((hilbert_codes(cells, bits=bits) >> 3 * level) & 7).tolist())
