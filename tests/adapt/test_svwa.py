import pytest
import torch
from torch import nn

from purgegate.adapt.source import Source
from purgegate.adapt.svwa import Svwa
from purgegate.adapt.tent import Tent
from purgegate.points.sampling import random_view
from tests.models import WithoutBatchNorm, clouds, small_model, state_of


def test_one_view_without_a_step_is_the_control():
    model, points = small_model(), clouds(6)
    found, control = Svwa(model, views=1, lr=0.0)(points), Source(model, norm="batch")(points)
    assert torch.equal(found, control)


def test_the_weights_are_the_mean_of_those_that_tent_finds_for_each_view():
    points, generator = clouds(6), torch.Generator().manual_seed(3)
    svwa = Svwa(small_model(), points=100, seed=3)
    svwa(points)
    learned = []
    for _ in range(2):
        tent = Tent(small_model(), layer_norm=True)
        tent(random_view(points, 100, generator=generator))
        learned.append(tent.model.state_dict())
    assert any(not torch.equal(learned[0][key], learned[1][key]) for key in learned[0])
    for key, value in svwa.model.state_dict().items():
        assert torch.allclose(
            value.float(), (learned[0][key].float() + learned[1][key].float()) / 2, atol=1e-7
        )


def test_in_sequence_each_view_goes_on_from_the_one_before():
    points, generator = clouds(6), torch.Generator().manual_seed(0)
    svwa = Svwa(small_model(), points=100, sequential=True)
    svwa(points)
    tent, learned = Tent(small_model(), layer_norm=True), []
    for _ in range(2):
        tent(random_view(points, 100, generator=generator))
        learned.append(state_of(tent.model))
    for key, value in svwa.model.state_dict().items():
        assert torch.allclose(
            value.float(), (learned[0][key].float() + learned[1][key].float()) / 2, atol=1e-7
        )


def test_the_answer_is_that_of_the_whole_cloud_or_as_released_of_the_view_before_the_last():
    model, points = small_model(), clouds(6)
    view = random_view(points, 100, generator=torch.Generator().manual_seed(0))
    whole, released = (Svwa(model, points=100, lr=0.0, released=each)(points) for each in (False, True))
    control = Source(model, norm="batch")
    assert torch.equal(whole, control(points))
    assert torch.equal(released, control(view))


def test_scales_and_shifts_alone_change():
    svwa = Svwa(small_model())
    before = state_of(svwa.model)
    svwa(clouds(4))
    kinds = (nn.BatchNorm1d, nn.LayerNorm)
    layers = [name for name, layer in svwa.model.named_modules() if isinstance(layer, kinds)]
    changed = {key for key, value in svwa.model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == {f"{name}.{part}" for name in layers for part in ("weight", "bias")}


def test_what_it_cannot_take_is_refused():
    with pytest.raises(ValueError, match="svwa needs a torch module with BatchNorm or LayerNorm layers"):
        Svwa(WithoutBatchNorm(3, 4))
    with pytest.raises(ValueError, match="views must be at least 1; got 0"):
        Svwa(small_model(), views=0)
