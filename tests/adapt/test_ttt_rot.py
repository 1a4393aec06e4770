import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from purgegate.adapt.source import Source
from purgegate.adapt.ttt_rot import TTTRot
from purgegate.backbones.auxiliary import make_auxiliary
from purgegate.points.sampling import resample
from purgegate.points.transforms import turn_by, turn_quarters
from purgegate.train.rotation import rotation_logits
from purgegate.train.view import View
from tests.adapt.golden import TOLERANCE, follow
from tests.models import clouds, joint_model, small_model, state_of, without_rates


@pytest.fixture
def rotation_model(golden_model, baselines):
    extra = load_file(baselines / "rotnet_extra.safetensors")
    head = make_auxiliary("rotation", golden_model)
    head.load_state_dict({key.removeprefix("class_head_rotnet.8."): value for key, value in extra.items()})
    golden_model.auxiliary["rotation"] = head
    return golden_model


@pytest.fixture
def golden(baselines):
    return np.load(baselines / "rotnet.npz")


def single_clouds(golden) -> list[torch.Tensor]:
    return [resample(torch.from_numpy(points), 1024) for points in golden["clouds"]]


def test_golden_turns_are_in_radians(golden):
    for points, wanted in zip(single_clouds(golden), golden["rotated_points"], strict=True):
        found = turn_by(points.expand(4, -1, -1), -90.0 * torch.arange(4), axis=1)
        assert np.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("prefix", "options"),
    [
        ("official_", {"lr": 1e-7, "online": False}),
        ("lr1e-3_", {"lr": 1e-3, "online": False}),
        ("lr1e-3_online_", {"lr": 1e-3}),
    ],
)
def test_golden_ttt_rot(golden, rotation_model, prefix: str, options: dict):
    losses, labels = [], iter(torch.from_numpy(golden[f"{prefix}labels"]))

    class Drawn(TTTRot):
        def draw(self):
            return next(labels)

        def loss(self, point):
            losses.append(super().loss(point))
            return losses[-1]

    adapter = Drawn(rotation_model, copies=12, steps=1, radians=True, **options)
    follow(adapter, single_clouds(golden), golden, prefix=prefix, atol=1e-5)
    assert np.allclose([loss.item() for loss in losses], golden[f"{prefix}loss"], **TOLERANCE)


def test_golden_no_steps(golden, rotation_model):
    follow(TTTRot(rotation_model, steps=0), single_clouds(golden), golden, prefix="steps0_")


def test_the_loss_is_that_of_all_copies():
    adapter, point = TTTRot(joint_model(), copies=10), clouds(1)
    labels = torch.tensor([0, 3, 3, 1, 0, 0, 3, 1, 1, 1])
    adapter.draw = lambda: labels
    view = View.of(adapter.model, point)
    parts = (turn_quarters(x.expand(10, *x.shape[1:]), labels, axis=2) for x in (view.centers, view.patches))
    wanted = F.cross_entropy(rotation_logits(View(adapter.model, *parts)), labels)
    assert adapter.loss(point).item() == pytest.approx(wanted.item(), rel=1e-5)


def test_the_loss_falls_and_the_class_layer_stays():
    adapter, point = TTTRot(joint_model(), lr=1e-4, steps=10), clouds(1)
    adapter.draw = lambda: torch.arange(48) % 4
    before, layer = adapter.loss(point).item(), adapter.model.class_head[-1].weight.clone()
    adapter(point)
    assert adapter.loss(point).item() < before
    assert torch.equal(adapter.model.class_head[-1].weight, layer)


def test_in_the_standard_setting_no_cloud_knows_of_another():
    points = clouds(3)
    adapter = TTTRot(joint_model(), online=False, steps=2, lr=1e-3)
    there, back = adapter(points), adapter(points.flip(0)).flip(0)
    assert torch.equal(there, back)
    online = TTTRot(joint_model(), lr=1e-3)
    assert not torch.allclose(online(points), online(points.flip(0)).flip(0))


def test_with_every_second_cloud_the_others_only_use_what_was_learned():
    adapter = TTTRot(joint_model(), every=2, lr=1e-3)
    adapter(clouds(1))
    kept = state_of(adapter.model)
    adapter(clouds(1, seed=1))
    assert all(torch.equal(value, kept[key]) for key, value in adapter.model.state_dict().items())
    adapter(clouds(1, seed=2))
    assert not torch.equal(adapter.model.cls_token, kept["cls_token"])


def test_a_rotated_model_given_in_training_mode_answers_as_one_in_evaluation_mode():
    points, model = clouds(2), joint_model()
    wanted = [TTTRot(model, online=online, steps=1)(points) for online in (True, False)]
    model.train()
    assert torch.equal(TTTRot(model, online=True, steps=1)(points), wanted[0])
    assert torch.equal(TTTRot(model, online=False, steps=1)(points), wanted[1])
    assert model.training


def test_dropout_as_released_is_drawn_from_the_seed():
    points, model = clouds(2), joint_model()
    first, again = (TTTRot(model, dropout=True, lr=1e-4)(points) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, TTTRot(model, lr=1e-4)(points), atol=1e-3)


def test_with_dropout_every_copy_is_another_and_running_statistics_stay():
    adapter, seen = TTTRot(joint_model(), dropout=True, copies=10), []
    adapter.model.class_head.register_forward_hook(lambda *_: seen.append("answer"))
    adapter.model.class_head[3].register_forward_hook(lambda _, given, out: seen.append(len(out)))
    before = state_of(adapter.model)
    adapter(clouds(1))
    assert seen == [10, 1, "answer"]
    after = adapter.model.state_dict()
    assert all(torch.equal(after[key], before[key]) for key in before if "running_" in key)


def test_dropout_of_rate_0_changes_nothing():
    model, points = without_rates(joint_model()), clouds(2)
    assert torch.allclose(TTTRot(model, dropout=True)(points), TTTRot(model)(points), atol=1e-4)


def test_no_learning_rate_is_the_source_model():
    model, points = joint_model(), clouds(2)
    assert torch.allclose(TTTRot(model, lr=0.0)(points), Source(model)(points), atol=1e-5)


def test_what_ttt_rot_cannot_work_with_is_refused():
    with pytest.raises(
        ValueError, match="ttt_rot needs a model with a rotation head: train one with `purgegate train joint`"
    ):
        TTTRot(small_model())
    with pytest.raises(ValueError, match="copies must be at least 1; got 0"):
        TTTRot(joint_model(), copies=0)
    with pytest.raises(ValueError, match="every must be 1 where each cloud starts anew"):
        TTTRot(joint_model(), every=2, online=False)
