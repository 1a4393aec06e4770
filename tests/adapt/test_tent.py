import numpy as np
import pytest
import torch
from torch import nn

from purgegate.adapt.source import Source
from purgegate.adapt.tent import Tent
from purgegate.gate.purge import entropy
from tests.adapt.golden import follow
from tests.models import WithoutBatchNorm, clouds, small_model, state_of


def test_golden_tent(baselines, golden_model, golden_batches):
    golden = np.load(baselines / "tent.npz")
    follow(Tent(golden_model, lr=5e-3, weight_decay=0.5), golden_batches, golden)


def test_the_first_answer_is_that_of_source_bn_for_it_comes_before_the_step():
    model, points = small_model(), clouds(6)
    tent = Tent(model)
    assert torch.allclose(tent(points), Source(model, norm="batch")(points), atol=1e-4)
    assert not torch.allclose(tent(points), Source(model, norm="batch")(points), atol=1e-3)


def test_entropy_falls_on_a_batch_seen_again():
    tent, points = Tent(small_model()), clouds(16)
    before = entropy(tent(points)).mean()
    for _ in range(5):
        after = entropy(tent(points)).mean()
    assert after < before


@pytest.mark.parametrize(
    ("options", "kinds"), [({}, nn.BatchNorm1d), ({"layer_norm": True}, (nn.BatchNorm1d, nn.LayerNorm))]
)
def test_scales_and_shifts_alone_change(options: dict, kinds):
    tent = Tent(small_model(), **options)
    before = state_of(tent.model)
    tent(clouds(4))
    layers = [name for name, layer in tent.model.named_modules() if isinstance(layer, kinds)]
    wanted = {f"{name}.{part}" for name in layers for part in ("weight", "bias")}
    changed = {key for key, value in tent.model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == wanted


def test_two_steps_a_batch_are_two_calls():
    points = clouds(4)
    once, twice = Tent(small_model()), Tent(small_model(), steps=2)
    once(points)
    assert torch.equal(once(points), twice(points))


def test_dropout_as_released_is_drawn_from_the_seed():
    points, model = clouds(4), small_model()
    first, again, other = (Tent(model, dropout=True, seed=seed)(points) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, Tent(model)(points))


def test_drawing_dropout_leaves_the_global_randomness_alone():
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    Tent(small_model(), dropout=True)(clouds(4))
    assert torch.equal(torch.rand(2), wanted)


def test_a_model_without_batch_norm_is_refused():
    with pytest.raises(ValueError, match="tent needs a torch module with BatchNorm layers"):
        Tent(WithoutBatchNorm(3, 4))


def test_no_steps_are_refused():
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        Tent(small_model(), steps=0)
