"""The order of points along a space-filling curve, so that a sequence model meets neighbours together."""

from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

CELL = 0.02  # side of the published grid's cells
BITS = 7  # the published curve for clouds in a unit sphere: 128 cells of 0.02 an axis
MOST_BITS = 19  # cells beyond these share the last one; three axes of them and of two bits more fill an int64

# One bit more turns the curve: its axes change places cyclically, and after three they stand as before. The
# release takes the bits that the widest cloud of a batch needs, so there a cloud's order can change with its
# batch-mates. Here the bits are fixed; wider clouds get three more at a time, which changes no other order.
TURN = 3


def curve_orders(
    centers: Float[Tensor, "B G 3"], *, cell: float = CELL, bits: int | Literal["auto"] = BITS
) -> tuple[Int64[Tensor, "B G"], Int64[Tensor, "B G"]]:
    """Indices that put the centres in Hilbert order, and in the order of the curve with x and y swapped.

    Centres in one cell keep the order they came in. `bits="auto"` is the release's way, by the whole batch.
    """
    cells = grid_cells(centers, cell=cell)
    both = torch.stack([cells, cells[..., [1, 0, 2]]])
    needed = max(int(cells.max()).bit_length(), 1)
    codes = hilbert_codes(both, bits=needed if bits == "auto" else widen(bits, needed))
    plain, transposed = codes.argsort(dim=-1, stable=True)
    return plain, transposed


def grid_cells(centers: Float[Tensor, "B G 3"], *, cell: float = CELL) -> Int64[Tensor, "B G 3"]:
    """Whole coordinates on a grid that starts at zero in each cloud."""
    if not cell > 0:
        raise ValueError(f"the side of a cell must be positive; got {cell}")
    cells = torch.floor(centers.detach() / cell)
    return (cells - cells.amin(dim=1, keepdim=True)).clamp(max=2**MOST_BITS - 1).long()


def hilbert_codes(cells: Int64[Tensor, "*any 3"], *, bits: int) -> Int64[Tensor, "*any"]:
    """Place of each cell, with coordinates in [0, 2^bits), along the Hilbert curve (Skilling, 2004)."""
    x, y, z = _fold(cells, bits)
    y = y ^ x
    z = z ^ y
    turned = torch.zeros_like(z)
    for bit in range(1, bits):
        turned = turned ^ torch.where(z >> bit & 1 == 1, (1 << bit) - 1, 0)
    codes = torch.zeros_like(z)
    for bit in reversed(range(bits)):
        for axis in (x, y, z):
            codes = codes << 1 | (axis ^ turned) >> bit & 1
    return codes


def widen(bits: int, needed: int) -> int:
    """The bits asked for, and three more at a time until there are as many as needed."""
    if not 1 <= bits <= MOST_BITS:
        raise ValueError(f"bits must lie in [1, {MOST_BITS}], or be 'auto'; got {bits}")
    return max(bits, bits - (bits - needed) // TURN * TURN)


def _fold(cells: Int64[Tensor, "*any 3"], bits: int) -> list[Int64[Tensor, "*any"]]:
    """From the coarsest bit on, mirror and swap what lies below it, as the curve runs there."""
    axes = list(cells.unbind(-1))
    for bit in reversed(range(1, bits)):
        below = (1 << bit) - 1
        for i, axis in enumerate(axes):
            mirrored = axis >> bit & 1 == 1
            swapped = torch.where(mirrored, 0, (axes[0] ^ axis) & below)
            axes[i] = axis ^ swapped
            axes[0] = axes[0] ^ torch.where(mirrored, below, swapped)
    return axes
