"""Linear layers by oneDNN are the plain ones."""

import pytest
import torch
import torch.nn.functional as F

from purgegate.kernels import linear as kernel
from purgegate.kernels.linear import Linear, linear

SHAPES = [(7, 5), (2, 65, 192), (3, 4, 5, 3), (11,), (1, 1), (0, 8)]


def rows_and_weight(shape: tuple[int, ...], width: int = 6, dtype: torch.dtype = torch.float32):
    made = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=made, dtype=dtype)
    return x, torch.randn(width, shape[-1], generator=made, dtype=dtype), torch.randn(width, generator=made)


def exact(x, weight, bias=None):
    return F.linear(x.double(), weight.double(), None if bias is None else bias.double())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("biased", [True, False])
def test_a_product_is_the_plain_one(shape: tuple[int, ...], biased: bool):
    x, weight, bias = rows_and_weight(shape)
    found = linear(x, weight, bias if biased else None)
    torch.testing.assert_close(
        found.double(), exact(x, weight, bias if biased else None), rtol=1e-5, atol=1e-5
    )
    assert found.dtype == torch.float32
    assert found.shape == (*shape[:-1], 6)


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
@pytest.mark.parametrize("to_weight", [True, False])
def test_gradients_are_the_plain_ones(shape: tuple[int, ...], to_weight: bool):
    x, weight, bias = rows_and_weight(shape)
    slope = torch.randn(*shape[:-1], 6, generator=torch.Generator().manual_seed(1))
    grads = []
    for multiply in (linear, F.linear):
        own = [
            x.clone().requires_grad_(),
            weight.clone().requires_grad_(to_weight),
            bias.clone().requires_grad_(),
        ]
        wanted = [each for each in own if each.requires_grad]
        grads.append(torch.autograd.grad((multiply(*own) * slope).sum(), wanted))
    for found, plain in zip(*grads, strict=True):
        torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("alone", range(3), ids=["rows", "weight", "bias"])
def test_each_may_have_the_only_gradient(alone: int):
    given = rows_and_weight((4, 5))
    given[alone].requires_grad_()
    (found,), (plain,) = (
        torch.autograd.grad(multiply(*given).sum(), given[alone]) for multiply in (linear, F.linear)
    )
    torch.testing.assert_close(found, plain)


def test_views_are_multiplied_as_their_copies():
    x, weight, _ = rows_and_weight((64, 32), width=48)
    wide = torch.cat([weight, weight], dim=1)
    copied = linear(x, weight)
    for view in (wide.chunk(2, dim=1)[1], weight.T.contiguous().T):
        torch.testing.assert_close(linear(x, view), copied)
    torch.testing.assert_close(linear(x.T.contiguous().T, weight), copied)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_stay_what_they_are(dtype: torch.dtype):
    x, weight, _ = rows_and_weight((7, 5), dtype=dtype)
    assert torch.equal(linear(x, weight), F.linear(x, weight))


def test_a_lower_precision_for_a_while_is_taken():
    x, weight, _ = rows_and_weight((7, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16


def test_a_layer_is_the_plain_layer():
    layer = Linear(5, 3)
    x = torch.randn(2, 5)
    torch.testing.assert_close(layer(x), torch.nn.Linear.forward(layer, x))
    assert isinstance(layer, torch.nn.Linear)


def test_without_onednn_the_plain_product_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel, "ONEDNN", False)
    x, weight, bias = rows_and_weight((7, 5))
    assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))


@pytest.mark.skipif(not kernel.ONEDNN, reason="this processor or torch has no oneDNN with AVX-512")
def test_a_slice_is_copied_before_it_is_multiplied(monkeypatch: pytest.MonkeyPatch):
    # oneDNN multiplies any layout, but one that is neither by rows nor by columns a thousand times slower.
    seen = []
    monkeypatch.setattr(
        torch.ops.mkldnn,
        "_linear_pointwise",
        lambda x, weight, *rest: seen.append(weight) or x @ weight.T,
    )
    x, weight, _ = rows_and_weight((4, 6))
    linear(x[:, :3], weight[:, 3:])
    linear(x, weight)
    assert seen[0].is_contiguous()
    assert seen[1] is weight
