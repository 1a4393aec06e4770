"""Products without gradients: laid out once, fused, in either precision, and never of weights that were."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F

from purgegate.kernels import products
from purgegate.kernels.linear import Linear, set_precision
from purgegate.kernels.products import NARROW, Product, check_bfloat16
from purgegate.twins import twin

has_bfloat16 = pytest.mark.skipif(
    not (products.ONEDNN and torch.cpu._is_avx512_bf16_supported()), reason="this processor has no bfloat16"
)
SHAPES = [(7, 24), (2, 65, 24), (24,), (1, 24), (0, 24)]


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("onednn", [False, products.ONEDNN])
def test_a_layer_without_gradients_is_the_plain_one(
    shape, gelu: bool, added: bool, onednn: bool, monkeypatch
):
    monkeypatch.setattr(products, "ONEDNN", onednn)
    layer, x = Linear(24, 6), drawn(*shape)
    onto = drawn(*shape[:-1], 6, seed=1) if added else None
    exact = F.linear(x.double(), layer.weight.double(), layer.bias.double())
    exact = F.gelu(exact) if gelu else exact
    exact = exact if onto is None else exact + onto.double()
    with torch.no_grad():
        found = layer(x, gelu=gelu, onto=onto)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer(x, gelu=gelu, onto=onto).detach(), found, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_what_is_added_to_may_lie_anyhow_and_stays_as_it_was():
    layer, x, onto = Linear(24, 6), drawn(3, 5, 24), drawn(6, 5, 3).permute(2, 1, 0)
    kept = onto.clone()
    torch.testing.assert_close(layer(x, onto=onto), layer(x) + kept)
    torch.testing.assert_close(
        layer(x.flip(0)[:, ::2], onto=onto[:, ::2]), layer(x.flip(0)[:, ::2]) + kept[:, ::2]
    )
    assert torch.equal(onto, kept)


def test_parts_of_a_layer_add_up_to_it():
    layer, x = Linear(24, 6), drawn(5, 24)
    with torch.no_grad():
        first, second = layer.products(parts=2)
        torch.testing.assert_close(first(x[:, :12]) + second(x[:, 12:]), layer(x))


def write_in_place(layer: Linear) -> None:
    layer.weight.mul_(2)


def write_bias(layer: Linear) -> None:
    layer.bias.add_(1)


def step(layer: Linear) -> None:
    with torch.enable_grad():
        layer(drawn(3, 24)).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=1.0).step()


def load(layer: Linear) -> None:
    layer.load_state_dict({"weight": drawn(6, 24), "bias": drawn(6)})


def replace(layer: Linear) -> None:
    layer.weight = torch.nn.Parameter(drawn(6, 24))


def to_half_and_back(layer: Linear) -> None:
    layer.half().float()


@torch.no_grad()
@pytest.mark.parametrize("write", [write_in_place, write_bias, step, load, replace, to_half_and_back])
def test_written_weights_are_laid_out_anew(write):
    layer, x = Linear(24, 6), drawn(4, 24)
    before = layer(x)
    assert torch.equal(layer(x), before)
    write(layer)
    assert not torch.equal(layer(x), before)
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


@torch.no_grad()
def test_weights_are_laid_out_once_for_a_layer_and_its_twins_and_anew_for_its_copies():
    layer = Linear(24, 6)
    (product,) = layer.products()
    assert layer.products()[0] is product
    assert twin(layer).products()[0] is product
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert copied.products()[0] is not product
        torch.testing.assert_close(copied(drawn(2, 24)), layer(drawn(2, 24)))


@has_bfloat16
@torch.no_grad()
def test_bfloat16_takes_products_of_rounded_numbers_and_sums_in_float32():
    weight, bias, x = drawn(6, 240), drawn(6), drawn(40, 240, seed=1)
    exact = F.linear(*(each.bfloat16().double() for each in (x, weight, bias)))
    found = Product(weight, bias, precision="bfloat16")(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-5)


@has_bfloat16
@torch.no_grad()
def test_coordinates_keep_their_digits_in_bfloat16():
    weight, x = drawn(6, NARROW), drawn(40, NARROW, seed=1)
    assert torch.equal(Product(weight, precision="bfloat16")(x), Product(weight)(x))


@has_bfloat16
def test_gradients_know_no_lower_precision():
    layer, x = Linear(24, 6), drawn(4, 24)
    plain = layer(x)
    set_precision(layer, "bfloat16")
    assert torch.equal(layer(x), plain)
    with torch.no_grad():
        assert not torch.equal(layer(x), plain)


def test_bfloat16_is_refused_where_it_would_be_emulated(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    with pytest.raises(ValueError, match="needs a processor with AVX-512 and its bf16 instructions"):
        check_bfloat16(torch.device("cpu"))


def test_an_unknown_precision_lists_the_choices():
    with pytest.raises(ValueError, match="one of float32, bfloat16; got 'half'"):
        set_precision(Linear(3, 3), "half")
