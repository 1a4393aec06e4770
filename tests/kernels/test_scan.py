import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from purgegate.kernels.scan import selective_scan, selective_scan_reference


def inputs(
    batch: int = 3,
    length: int = 17,
    channels: int = 70,
    states: int = 16,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Arguments of a scan; channels are no multiple of the compiled block unless asked."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    found = {
        "u": draw(batch, length, channels),
        "delta": F.softplus(2 * draw(batch, length, channels) - 2),
        "A": -torch.exp(draw(channels, states)) * torch.arange(1, states + 1),
        "B": draw(batch, length, states),
        "C": draw(batch, length, states),
        "D": draw(channels),
    }
    return {name: value.to(dtype) for name, value in found.items()}


def exact(arguments: dict[str, Tensor]) -> Tensor:
    return selective_scan_reference(**{name: value.double() for name, value in arguments.items()})


def gradients(scan, arguments: dict[str, Tensor]) -> tuple[Tensor, ...]:
    leaves = {name: value.clone().requires_grad_() for name, value in arguments.items()}
    weights = torch.randn(leaves["u"].shape, generator=torch.Generator().manual_seed(9)).to(leaves["u"])
    return torch.autograd.grad((scan(**leaves) * weights).sum(), list(leaves.values()))


@pytest.mark.parametrize(
    "sizes",
    [{}, {"channels": 64}, {"channels": 200, "states": 3}, {"batch": 1, "length": 1}, {"length": 300}],
)
def test_the_compiled_scan_equals_the_reference(sizes: dict[str, int]):
    arguments = inputs(**sizes)
    assert torch.allclose(selective_scan(**arguments).double(), exact(arguments), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("sizes", [{}, {"channels": 128, "length": 64}, {"batch": 1, "length": 1}])
def test_gradients_equal_those_of_the_reference(sizes: dict[str, int]):
    arguments = inputs(**sizes)
    wanted = gradients(selective_scan_reference, {name: x.double() for name, x in arguments.items()})
    for name, mine, true in zip(arguments, gradients(selective_scan, arguments), wanted, strict=True):
        assert mine.shape == arguments[name].shape
        assert torch.allclose(mine.double(), true, atol=1e-5 * true.abs().max().item(), rtol=1e-4), name


def test_the_reference_passes_gradcheck():
    arguments = inputs(2, 4, 3, 2, dtype=torch.float64)
    names = list(arguments)
    leaves = [value.requires_grad_() for value in arguments.values()]
    assert torch.autograd.gradcheck(
        lambda *values: selective_scan_reference(**dict(zip(names, values, strict=True))), leaves
    )


def test_one_place_is_a_product():
    x = inputs(length=1)
    wanted = x["delta"] * x["u"] * (x["B"] * x["C"]).sum(dim=-1, keepdim=True) + x["D"] * x["u"]
    assert torch.allclose(selective_scan(**x), wanted, atol=1e-5)


def test_no_decay_is_a_running_sum():
    x = inputs(states=1) | {"A": torch.zeros(70, 1)}
    wanted = x["C"] * (x["B"] * x["delta"] * x["u"]).cumsum(dim=1) + x["D"] * x["u"]
    assert torch.allclose(selective_scan(**x), wanted, atol=1e-4)


def test_the_past_does_not_see_the_future():
    x = inputs()
    changed = {**x, "u": torch.cat([x["u"][:, :9], -x["u"][:, 9:]], dim=1)}
    before, after = selective_scan(**x), selective_scan(**changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert not torch.equal(before[:, 9:], after[:, 9:])


@pytest.mark.parametrize("step", [0.0, 1e-30, 1e-4, 1.0, 60.0, 90.0, 1e4, 1e30])
def test_decay_of_any_strength(step: float):
    """One impulse and what is left of it a place later: exp(-step), to seven digits or to nothing."""
    x = inputs(1, 2, 1, 1)
    x |= {
        "A": torch.tensor([[-1.0]]),
        "B": torch.ones(1, 2, 1),
        "C": torch.ones(1, 2, 1),
        "D": torch.zeros(1),
    }
    x |= {"u": torch.tensor([[[1.0], [0.0]]]), "delta": torch.tensor([[[1.0], [step]]])}
    found = selective_scan(**x)[0, 1, 0].item()
    assert math.isclose(found, math.exp(-step), rel_tol=max(3e-7, 1e-7 * step), abs_tol=2e-38)


def test_nan_is_not_hidden():
    for name in ("u", "delta", "A", "B", "C", "D"):
        x = inputs(1)
        x[name].view(-1)[0] = torch.nan
        assert selective_scan(**x).isnan().any(), name


def test_each_cloud_by_itself_on_any_number_of_threads():
    x = inputs(5)
    whole, part = selective_scan(**x), {name: x[name][1:2] for name in ("u", "delta", "B", "C")}
    assert torch.equal(whole[1:2], selective_scan(**{**x, **part}))
    found, threads = gradients(selective_scan, x), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(selective_scan(**x), whole)
        assert all(map(torch.equal, gradients(selective_scan, x), found))
    finally:
        torch.set_num_threads(threads)


def test_half_precision_is_scanned_in_single():
    x = {name: value.bfloat16() for name, value in inputs().items()}
    found = selective_scan(**x)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, selective_scan(**{name: value.float() for name, value in x.items()}).bfloat16())


def test_double_precision_stays_double():
    x = inputs(dtype=torch.float64)
    assert torch.equal(selective_scan(**x), selective_scan_reference(**x))
