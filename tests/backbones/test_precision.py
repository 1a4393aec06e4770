"""In bfloat16 a model answers as in float32, and what is not a product of a layer stays float32."""

import copy

import pytest
import torch

import purgegate as pg
from purgegate.kernels.linear import set_precision
from purgegate.norms import statistics_from
from tests.kernels.test_products import has_bfloat16
from tests.models import clouds, small_mamba, small_model

pytestmark = has_bfloat16


@torch.no_grad()
@pytest.mark.parametrize("make", [small_model, small_mamba])
@pytest.mark.parametrize("norm", ["source", "batch"])
def test_logits_in_bfloat16_are_near_those_in_float32(make, norm: str):
    model, points = make(), clouds(8)
    lower = copy.deepcopy(model)
    set_precision(lower, "bfloat16")
    with statistics_from(model, norm), statistics_from(lower, norm):
        wanted, tokens = model(points), lower.tokenize(points)
        feature = lower.encode(tokens)
        found = lower.head(feature)
    assert {tokens.features.dtype, tokens.positions.dtype, feature.dtype, found.dtype} == {torch.float32}
    assert not torch.equal(found, wanted)
    assert (found - wanted).abs().max() < 0.05 * wanted.abs().max()


@torch.no_grad()
def test_sets_of_tokens_are_encoded_together_in_bfloat16_too():
    model = small_model()
    set_precision(model, "bfloat16")
    tokens = model.tokenize(clouds(2))
    many = [tokens.keep(torch.arange(count).expand(2, -1)) for count in (16, 12, 5)]
    for found, wanted in zip(model.encode_many(many), map(model.encode, many), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.02)


@torch.no_grad()
def test_a_loaded_model_reports_its_precision_and_answers_alike():
    name = "point_mae_tiny.shapes"
    plain, lower = pg.load_backbone(name), pg.load_backbone(name, precision="bfloat16")
    assert (plain.precision, lower.precision) == ("float32", "bfloat16")
    data = pg.load_dataset("shapes", split="test")
    points = torch.from_numpy(data.points[:64])
    assert (plain(points).argmax(dim=1) == lower(points).argmax(dim=1)).float().mean() > 0.95


def test_gradients_of_a_model_in_bfloat16_are_those_of_float32():
    model, points = small_model(), clouds(4)
    lower = copy.deepcopy(model)
    set_precision(lower, "bfloat16")
    for each in (model, lower):
        each(points).logsumexp(dim=1).sum().backward()
    for one, other in zip(model.parameters(), lower.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_an_unknown_precision_is_refused_on_loading():
    with pytest.raises(ValueError, match="precision must be one of float32, bfloat16; got 'int8'"):
        pg.load_backbone("point_mae_tiny.shapes", precision="int8")
