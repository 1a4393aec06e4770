"""The losses on cases whose values are known, and where their gradients go."""

import math

import pytest
import torch

from purgegate.points.transforms import turn_about, turn_by, turn_quarters
from purgegate.train.chamfer import chamfer, chamfer_squared, nearest
from purgegate.train.data import Batch
from purgegate.train.joint import OBJECTIVES, joint
from purgegate.train.masked import masked_loss, random_mask
from purgegate.train.rotation import rotation_logits, rotation_loss
from purgegate.train.skeleton import skeleton_loss, sphere_fit, sphere_points
from purgegate.train.supervised import supervised
from purgegate.train.view import View
from tests.models import clouds, small_model
from tests.train.sets import box_model

LOSSES = {"masked": masked_loss, "rotation": rotation_loss, "skeleton": skeleton_loss}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("distance", [chamfer, chamfer_squared])
def test_equal_clouds_in_another_order_have_no_distance(distance):
    points = clouds(3, 20)
    assert distance(points, points.flip(1)) == 0


def test_chamfer_agrees_with_all_pairs():
    a, b = clouds(4, 11, seed=1), clouds(4, 17, seed=2)
    pairs = torch.cdist(a, b)
    forth, back = pairs.amin(dim=2), pairs.amin(dim=1)
    torch.testing.assert_close(chamfer(a, b), forth.mean() + back.mean())
    torch.testing.assert_close(chamfer_squared(a, b), forth.square().mean() + back.square().mean())


def test_chamfer_has_the_gradient_of_all_pairs():
    a, b = clouds(2, 9, seed=1).requires_grad_(), clouds(2, 7, seed=2).requires_grad_()
    pairs = (a[:, :, None] - b[:, None]).square().sum(dim=-1)
    plain = torch.autograd.grad(pairs.amin(dim=2).mean() + pairs.amin(dim=1).mean(), (a, b))
    ours = torch.autograd.grad(chamfer_squared(a, b), (a, b))
    for left, right in zip(plain, ours, strict=True):
        torch.testing.assert_close(left, right)


def test_the_nearest_point_is_taken_from_the_other_cloud():
    a, b = torch.tensor([[[0.0, 0, 0]]]), torch.tensor([[[3.0, 0, 0], [0, 1, 0]]])
    assert nearest(a, b).tolist() == [[[0, 1, 0]]]
    assert chamfer(a, b) == 1 + (3 + 1) / 2
    assert chamfer_squared(a, b) == 1 + (9 + 1) / 2


def test_a_mask_parts_the_patches_as_published():
    for groups, hidden in ((64, 57), (128, 115)):
        visible, masked = random_mask(5, groups, generator=seeded())
        assert masked.shape == (5, hidden)
        both = torch.cat([visible, masked], dim=1).sort(dim=1).values
        assert torch.equal(both, torch.arange(groups).expand(5, -1))
    assert not torch.equal(visible[0], visible[1])


def test_a_mask_must_hide_some_and_show_some():
    with pytest.raises(ValueError, match="hides 0 of 1 patches"):
        random_mask(1, 1, generator=seeded())


def test_a_decoder_that_knows_the_hidden_patches_has_no_masked_loss():
    model = box_model()
    view = View.of(model, clouds(2, 64))
    _, hidden = random_mask(2, model.groups, generator=seeded())
    truth = view.patches.gather(1, hidden[..., None, None].expand(-1, -1, *view.patches.shape[2:]))
    model.auxiliary["masked"].forward = lambda *_: truth
    assert masked_loss(model, clouds(2, 64), seeded()) == 0


def test_hidden_patches_do_not_reach_the_decoder():
    model = box_model()
    view = View.of(model, clouds(1, 64))
    _, hidden = random_mask(1, model.groups, generator=seeded())
    changed = view.patches.clone()
    changed[0, hidden[0]] += 1
    seen = []
    model.auxiliary["masked"].register_forward_hook(lambda *call: seen.append(call[2]))
    for patches in (view.patches, changed):
        masked_loss_of(View(model, view.centers, patches))
    torch.testing.assert_close(*seen)


def masked_loss_of(view: View) -> torch.Tensor:
    return OBJECTIVES["masked"](view, seeded())


def test_copies_are_masked_apart_and_embedded_once():
    model = box_model()
    calls = []
    model.encoder.register_forward_hook(lambda *call: calls.append(call[2].shape))
    one = clouds(1, 64)
    both = masked_loss(model, one, seeded(), copies=48)
    assert calls == [(1, model.groups, model.width)]
    torch.testing.assert_close(
        both, masked_loss(model, one.expand(48, -1, -1), seeded()), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_four_quarter_turns_are_none(axis):
    x = clouds(4, 10)
    turned = x
    for _ in range(4):
        turned = turn_quarters(turned, torch.ones(4, dtype=torch.long), axis=axis)
    torch.testing.assert_close(turned, x)
    torch.testing.assert_close(
        turn_quarters(x, torch.tensor([0, 1, 2, 3]), axis=axis)[..., axis], x[..., axis]
    )


def test_a_quarter_turn_about_z_takes_x_to_y():
    x = torch.tensor([[[1.0, 0, 5]]])
    assert turn_quarters(x, torch.tensor([1]), axis=2).tolist() == [[[0, 1, 5]]]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_quarters_are_exact_and_angles_come_close(axis):
    x, quarters = clouds(4, 8), torch.arange(4)
    exact = turn_quarters(x, quarters, axis=axis)
    assert torch.equal(exact[2].abs(), x[2].abs())
    assert torch.equal(exact[1].abs().sort(dim=1).values, x[1].abs().sort(dim=1).values)
    torch.testing.assert_close(turn_by(x, quarters * math.pi / 2, axis=axis), exact)
    matrices = torch.stack([torch.from_numpy(turn_about(axis, n * math.pi / 2)).float() for n in range(4)])
    torch.testing.assert_close(x @ matrices.mT, exact)


def test_turning_patches_is_turning_clouds():
    model, label = box_model(), torch.tensor([1, 3])
    view = View.of(model, clouds(2, 64))
    parts = (turn_quarters(x, label, axis=2) for x in (view.centers, view.patches))
    turned = View(model, *parts)
    again = View.of(model, turn_quarters(clouds(2, 64), label, axis=2))
    torch.testing.assert_close(turned.patches, again.patches)
    torch.testing.assert_close(rotation_logits(turned), rotation_logits(again))


def test_a_head_that_knows_nothing_has_the_entropy_of_four_turns():
    model = box_model()
    for parameter in model.auxiliary["rotation"].parameters():
        torch.nn.init.zeros_(parameter)
    assert rotation_loss(model, clouds(6, 64), seeded()).item() == pytest.approx(math.log(4))


def test_sphere_points_lie_on_their_spheres():
    centers, radii = clouds(2, 5), torch.rand(2, 5)
    points = sphere_points(centers, radii).unflatten(1, (5, 8))
    torch.testing.assert_close(
        (points - centers[:, :, None]).norm(dim=-1), radii[..., None].expand(-1, -1, 8)
    )
    torch.testing.assert_close(points.mean(dim=2), centers)


def test_a_sphere_through_all_points_fits():
    centers, radii = torch.tensor([[[1.0, 2, 3]]]), torch.tensor([[0.5]])
    points = sphere_points(centers, radii)
    assert sphere_fit(centers, radii, points).item() == pytest.approx(0, abs=1e-6)
    assert sphere_fit(centers, radii + 0.25, points).item() == pytest.approx(0.5, abs=1e-6)


def test_the_skeleton_loss_adds_its_three_parts():
    model = box_model()
    centers, radii = torch.zeros(1, model.groups, 3), torch.full((1, model.groups), 0.5)
    model.auxiliary["skeleton"].forward = lambda *_: (centers, radii)
    points = clouds(1, 64)
    view = View.of(model, points)
    target = (view.patches + view.centers[:, :, None]).flatten(1, 2)
    expected = chamfer(sphere_points(centers, radii), target) + 0.3 * sphere_fit(centers, radii, target) - 0.2
    torch.testing.assert_close(skeleton_loss(model, points, seeded()), expected)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_reaches_its_module_and_the_encoder_and_lowers_itself(name):
    model = box_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    values = []
    for _ in range(8):
        loss = LOSSES[name](model, clouds(6, 64), seeded())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    assert values[-1] < values[0]
    for part in (model.auxiliary[name], model.encoder, model.blocks):
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in part.parameters())
    for other in LOSSES.keys() - {name}:
        assert all(p.grad is None for p in model.auxiliary[other].parameters())


@pytest.mark.parametrize("name", LOSSES)
def test_a_plain_classifier_is_told_what_it_lacks(name):
    with pytest.raises(ValueError, match=f"{name!r} needs a model trained with it"):
        LOSSES[name](small_model(), clouds(2, 64), seeded())


def test_the_joint_objective_is_the_supervised_one_and_more():
    model = box_model()
    batch = Batch(clouds(8, 64), clouds(8, 64), torch.arange(8) % 3)
    alone, together = (
        supervised(0.1)(model, batch, seeded()),
        joint(LOSSES, smoothing=0.1)(model, batch, seeded()),
    )
    assert list(together.losses) == ["class", *LOSSES]
    torch.testing.assert_close(alone.losses["class"], together.losses["class"])
    torch.testing.assert_close(alone.logits, together.logits)


def test_turned_clouds_leave_running_statistics_alone():
    batch = Batch(clouds(8, 64), clouds(8, 64), torch.arange(8) % 3)
    states = []
    for names in ((), ("rotation",)):
        model = box_model().train()
        for layer in model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        model.blocks.eval()
        joint(names, smoothing=0.1)(model, batch, seeded())
        states.append({key: value for key, value in model.state_dict().items() if "running" in key})
    for key, value in states[0].items():
        torch.testing.assert_close(value, states[1][key])
