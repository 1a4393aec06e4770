import contextlib
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from purgegate.norms import evaluating, statistics_from
from purgegate.twins import evaluation_twin, held_modules
from tests.models import clouds, small_model, state_of


def test_batch_statistics_are_those_of_a_layer_without_running_ones():
    layer, twin = nn.BatchNorm1d(4), nn.BatchNorm1d(4, track_running_stats=False)
    x = torch.randn(9, 4)
    layer.eval()
    twin.eval()
    with statistics_from(layer, "batch"):
        assert torch.allclose(layer(x), twin(x), atol=1e-6)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.BatchNorm2d(3), nn.BatchNorm1d(3, affine=False)])
def test_blend_lies_between_source_and_batch(layer: nn.Module):
    layer.eval()
    x = 5 + torch.randn(16, 3, *([4, 4] if isinstance(layer, nn.BatchNorm2d) else []))
    means = {}
    for norm in ("source", "blend", "batch"):
        with statistics_from(layer, norm, clouds=16):
            means[norm] = layer(x).mean().item()
    assert means["batch"] == pytest.approx(0, abs=1e-5)
    assert 0 < means["blend"] < means["source"]


def test_a_blend_trusts_a_batch_more_the_more_clouds_it_has_and_a_single_one_not_at_all():
    layer, x, outputs = nn.BatchNorm1d(2).eval(), torch.full((64, 2), 3.0), []
    for count in (1, 2, 8, 32, 512):
        with statistics_from(layer, "blend", clouds=count):
            outputs.append(layer(x).mean().item())
    assert outputs == sorted(outputs, reverse=True)
    assert outputs[0] == pytest.approx(3, rel=1e-4)
    assert outputs[-1] == pytest.approx(0, abs=0.1)
    with pytest.raises(ValueError, match="give clouds="):
        statistics_from(layer, "blend").__enter__()


def test_the_layers_are_left_as_they_were():
    model = small_model()
    before = state_of(model)
    points = clouds(4)
    source = model(points)
    with contextlib.suppress(KeyError), statistics_from(model, "batch"):
        assert not torch.allclose(model(points), source)
        raise KeyError("on purpose")
    assert torch.equal(model(points), source)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_a_model_that_is_no_module_is_reached_through_those_it_holds():
    class Wrapper:
        def __init__(self) -> None:
            self.inner, self.note = nn.BatchNorm1d(3), "not a module"
            self.answer = self.inner.__call__

    wrapper, x = Wrapper(), torch.randn(8, 3, generator=torch.Generator().manual_seed(0)) + 5
    answering = evaluation_twin(wrapper)
    with statistics_from(answering, "batch"):
        assert not answering.inner.training
        assert answering.inner(x).mean().abs() < 1e-5
        assert answering.answer(x).mean().abs() < 1e-5
    assert wrapper.inner.training
    assert wrapper.inner.running_mean.abs().max() == 0


@pytest.mark.parametrize("hold", [lambda x: [x], lambda x: {"net": (x,)}, lambda x: SimpleNamespace(deep=x)])
def test_modules_are_found_however_deep_a_model_holds_them(hold):
    layer = nn.BatchNorm1d(3)
    wrapper = SimpleNamespace(parts=hold(layer))
    wrapper.itself = wrapper
    twin = evaluation_twin(wrapper)
    (inner,) = held_modules(twin)
    with statistics_from(twin, "batch"):
        assert not inner.training
        assert inner is not layer
        assert inner(torch.arange(12.0).view(4, 3)).mean().abs() < 1e-5
    assert twin.itself is twin
    assert layer.training


def test_an_unknown_norm_lists_the_choices():
    with pytest.raises(ValueError, match="norm must be one of batch, source, blend, pool; got 'bach'"):
        statistics_from(small_model(), "bach").__enter__()


def test_evaluating_restores_each_module_s_own_mode():
    model = small_model().train()
    model.class_head.eval()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert model.training
    assert not model.class_head.training
