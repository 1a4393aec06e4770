import itertools

import numpy as np
import pytest
import torch

from purgegate.points.curves import curve_orders, grid_cells, hilbert_codes
from tests.models import clouds


def plain_code(point: tuple[int, int, int], bits: int) -> int:
    """Skilling's transform of one point, bit by bit, as he wrote it."""
    axes, bit = list(point), 1 << (bits - 1)
    while bit > 1:
        for i in range(3):
            if axes[i] & bit:
                axes[0] ^= bit - 1
            else:
                swap = (axes[0] ^ axes[i]) & (bit - 1)
                axes[0] ^= swap
                axes[i] ^= swap
        bit >>= 1
    axes[1] ^= axes[0]
    axes[2] ^= axes[1]
    turn, bit = 0, 1 << (bits - 1)
    while bit > 1:
        if axes[2] & bit:
            turn ^= bit - 1
        bit >>= 1
    axes = [axis ^ turn for axis in axes]
    digits = "".join(f"{axis >> place & 1}" for place in reversed(range(bits)) for axis in axes)
    return int(digits, 2)


def all_cells(bits: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product(range(2**bits), repeat=3)))


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_the_curve_visits_every_cell_once_and_steps_to_a_neighbour(bits: int):
    cells = all_cells(bits)
    codes = hilbert_codes(cells, bits=bits)
    assert sorted(codes.tolist()) == list(range(8**bits))
    path = cells[codes.argsort()]
    assert ((path[1:] - path[:-1]).abs().sum(dim=1) == 1).all()


@pytest.mark.parametrize("bits", [1, 3, 7, 19])
def test_codes_equal_the_plain_transform(bits: int):
    cells = torch.from_numpy(np.random.default_rng(bits).integers(0, 2**bits, (50, 3)))
    plain = [plain_code(tuple(cell), bits) for cell in cells.tolist()]
    assert hilbert_codes(cells, bits=bits).tolist() == plain


@pytest.mark.parametrize(
    ("cell", "bits", "code"),
    [
        ((1, 2, 3), 3, 48),
        ((5, 0, 7), 3, 430),
        ((99, 3, 64), 7, 1830272),
        ((10, 20, 30), 6, 24834),
        ((10, 20, 30), 7, 18720),
    ],
)
def test_codes_of_the_release(cell: tuple[int, int, int], bits: int, code: int):
    assert hilbert_codes(torch.tensor([cell]), bits=bits).tolist() == [code]


def test_golden_codes(shared):
    golden = np.load(shared / "golden" / "pointmamba" / "hilbert_codes.npz")
    for bits in (1, 2, 3, 5, 7, 10, 16):
        cells = torch.from_numpy(golden[f"coord_{bits}"])
        assert np.array_equal(hilbert_codes(cells, bits=bits), golden[f"hilbert_{bits}"])
        assert np.array_equal(hilbert_codes(cells[:, [1, 0, 2]], bits=bits), golden[f"hilbert_trans_{bits}"])


@pytest.mark.parametrize("bits", [7, "auto"])
def test_golden_orders(shared, bits):
    golden = np.load(shared / "golden" / "pointmamba" / "forward.npz")
    centers = torch.from_numpy(golden["center"])
    assert np.array_equal(grid_cells(centers), golden["grid_coord"])
    plain, transposed = curve_orders(centers, bits=bits)
    assert np.array_equal(plain, golden["hilbert_order"])
    assert np.array_equal(transposed, golden["hilbert_trans_order"])


def test_three_more_bits_change_no_code_and_one_more_does():
    cells = all_cells(3)
    codes = hilbert_codes(cells, bits=3)
    assert torch.equal(hilbert_codes(cells, bits=6), codes)
    assert not torch.equal(hilbert_codes(cells, bits=4), codes)


def test_the_transposed_order_is_the_order_of_swapped_axes():
    centers = clouds(3, 64)
    plain, transposed = curve_orders(centers)
    swapped = curve_orders(centers[..., [1, 0, 2]])
    assert torch.equal(swapped[0], transposed)
    assert torch.equal(swapped[1], plain)
    assert not torch.equal(plain, transposed)


def test_a_shift_by_whole_cells_keeps_the_orders():
    centers = torch.randint(0, 100, (2, 30, 3), generator=torch.Generator().manual_seed(0)) * 0.25 + 0.1
    moved = centers + torch.tensor([5.0, -3.25, 0.5])
    for before, after in zip(curve_orders(centers, cell=0.25), curve_orders(moved, cell=0.25), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("width", [0.3, 3.0, 20.0, 1e6, 1e30])
def test_an_order_does_not_depend_on_batch_mates(width: float):
    centers = clouds(1, 40)
    together = torch.cat([centers, width * clouds(1, 40, seed=1)])
    for alone, among in zip(curve_orders(centers), curve_orders(together), strict=True):
        assert torch.equal(alone[0], among[0])


def test_bits_of_the_batch_let_it_depend_on_them():
    centers = 0.5 * clouds(1, 40)
    together = torch.cat([centers, clouds(1, 40, seed=1)])
    alone, among = curve_orders(centers, bits="auto")[0], curve_orders(together, bits="auto")[0]
    assert not torch.equal(alone[0], among[0])
    assert torch.equal(among[0], curve_orders(centers, bits=7)[0][0])
    assert torch.equal(alone[0], curve_orders(centers, bits=6)[0][0])


def test_centres_in_one_cell_keep_their_order():
    centers = torch.full((2, 100, 3), 0.011)
    for order in curve_orders(centers):
        assert torch.equal(order, torch.arange(100).expand(2, -1))


@pytest.mark.parametrize("bits", [0, 20])
def test_impossible_bits_are_refused(bits: int):
    with pytest.raises(ValueError, match=rf"bits must lie in \[1, 19\], or be 'auto'; got {bits}"):
        curve_orders(clouds(1, 4), bits=bits)


def test_a_cell_without_size_is_refused():
    with pytest.raises(ValueError, match="must be positive; got 0"):
        curve_orders(clouds(1, 4), cell=0.0)
