import pytest
import torch
from torch import nn

from purgegate.adapt.smart_pc import SmartPC
from purgegate.adapt.source import Source
from purgegate.adapt.views import random_angles
from purgegate.points.transforms import turn_by
from purgegate.train.skeleton import skeleton_loss
from tests.models import clouds, joint_model, small_model, state_of

FEW = {"copies": 4}


def changed_by(adapter: SmartPC, points: torch.Tensor) -> set[str]:
    before = state_of(adapter.model)
    adapter(points)
    return {key for key, value in adapter.model.state_dict().items() if not torch.equal(value, before[key])}


def moving(key: str) -> bool:
    return "running_" in key or "tracked" in key


def test_online_weights_and_statistics_of_the_embedding_change():
    changed = changed_by(SmartPC(joint_model(), **FEW), clouds(1))
    assert {key.split(".")[0] for key in changed if moving(key)} == {"encoder"}
    assert "auxiliary.skeleton.center.weight" in changed
    assert not any(key.startswith("class_head") for key in changed)


def test_without_backpropagation_statistics_alone_change():
    changed = changed_by(SmartPC(joint_model(), backprop=False, **FEW), clouds(1))
    assert changed == {
        f"encoder.{part}.1.{name}"
        for part in ("first_conv", "second_conv")
        for name in ("running_mean", "running_var", "num_batches_tracked")
    }


def test_in_the_standard_setting_statistics_stay_and_no_cloud_knows_of_another():
    adapter, points = SmartPC(joint_model(), online=False, steps=2, lr=1e-3, **FEW), clouds(3)
    assert not any(moving(key) for key in changed_by(adapter, points))
    assert torch.equal(adapter(points), adapter(points.flip(0)).flip(0))


@pytest.mark.parametrize(
    ("learn", "kinds"), [("batch_norm", (nn.BatchNorm1d,)), ("norm", (nn.BatchNorm1d, nn.LayerNorm))]
)
def test_steps_may_be_limited_to_normalisations(learn: str, kinds):
    adapter = SmartPC(joint_model(), learn=learn, online=False, steps=1, **FEW)
    layers = {name for name, layer in adapter.model.named_modules() if isinstance(layer, kinds)}
    changed = changed_by(adapter, clouds(1))
    names = {key.rsplit(".", 1)[0] for key in changed}
    assert names <= layers
    assert {type(adapter.model.get_submodule(name)) for name in names} == set(kinds)


def test_the_loss_is_that_of_turned_clouds():
    adapter, point = SmartPC(joint_model(), copies=1), clouds(1)
    angles = random_angles(1, generator=torch.Generator().manual_seed(0))
    wanted = skeleton_loss(adapter.model, turn_by(point, angles, axis=2), adapter.generator)
    assert adapter.loss(point).item() == pytest.approx(wanted.item(), rel=1e-4)


def test_the_loss_falls():
    adapter, point = SmartPC(joint_model(), lr=1e-3, steps=15, online=True, **FEW), clouds(1)
    before = adapter.loss(point).item()
    adapter(point)
    assert adapter.loss(point).item() < before


def test_neither_steps_nor_momentum_is_the_source_model():
    model, points = joint_model(), clouds(2)
    adapter = SmartPC(model, lr=0.0, momentum=0.0, **FEW)
    assert torch.allclose(adapter(points), Source(model)(points), atol=1e-5)


def test_what_smart_pc_cannot_work_with_is_refused():
    with pytest.raises(ValueError, match="smart_pc needs a model with a skeleton decoder: train one with"):
        SmartPC(small_model())
    with pytest.raises(ValueError, match="learn must be one of all, batch_norm, norm; got 'head'"):
        SmartPC(joint_model(), learn="head")
