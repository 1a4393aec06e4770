import pytest
import torch

from purgegate.adapt.mate import Mate
from purgegate.adapt.source import Source
from purgegate.train.chamfer import chamfer_squared
from purgegate.train.masked import random_mask
from purgegate.train.view import View
from tests.models import clouds, joint_model, small_model, state_of, without_rates


def test_the_copies_share_one_embedding_and_only_visible_tokens_enter_the_encoder():
    adapter, embedded, encoded = Mate(joint_model(), copies=6), [], []
    adapter.model.encoder.register_forward_hook(lambda _, given, out: embedded.append(out.shape))
    adapter.model.blocks.register_forward_hook(lambda _, given, out: encoded.append(out.shape))
    adapter.loss(clouds(1))
    assert embedded == [(1, 16, 48)]
    assert encoded == [(6, 1 + 2, 48)]  # the class token, and what is left of 16 after hiding int(0.9 · 16)


def test_the_loss_is_that_of_copies_embedded_one_by_one():
    adapter, point = Mate(joint_model(), copies=3), clouds(1)
    found = adapter.loss(point)
    visible, hidden = random_mask(3, 16, generator=torch.Generator().manual_seed(0))
    losses = []
    for seen, unseen in zip(visible, hidden, strict=True):
        view = View.of(adapter.model, point)
        some = view.tokens.keep(seen[None])
        _, context = adapter.model.contextualise(some)
        decoder = adapter.model.auxiliary["masked"]
        rebuilt = decoder(context, some.centers, view.centers[:, unseen])
        losses.append(chamfer_squared(rebuilt[0], view.patches[0, unseen]))
    assert found.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)


def test_the_loss_falls_and_the_head_stays():
    adapter, point = Mate(joint_model(), lr=1e-3, steps=15, copies=8), clouds(1)
    generator_state = adapter.generator.get_state()
    before, source = adapter.loss(point).item(), state_of(adapter.model)
    adapter(point)
    adapter.generator.set_state(generator_state)
    assert adapter.loss(point).item() < before
    changed = {
        key for key, value in adapter.model.state_dict().items() if not torch.equal(value, source[key])
    }
    assert not any(key.startswith(("class_head", "auxiliary.rotation")) for key in changed)
    assert not any("running_" in key for key in changed)
    assert {"cls_token", "auxiliary.masked.mask_token", "encoder.first_conv.0.weight"} <= changed


def test_in_the_standard_setting_no_cloud_knows_of_another():
    points = clouds(3)
    adapter = Mate(joint_model(), online=False, steps=2, lr=1e-3, copies=2)
    assert torch.equal(adapter(points), adapter(points.flip(0)).flip(0))


def test_twenty_steps_are_the_standard_and_one_the_online_setting():
    assert Mate(joint_model()).steps == 1
    assert Mate(joint_model(), online=False).steps == 20


@pytest.mark.parametrize("online", [True, False])
def test_drop_path_as_released_is_drawn_from_the_seed(online: bool):
    points, model = clouds(2), joint_model()
    options = {"online": online, "steps": 2, "lr": 1e-3, "copies": 8}
    first, again = (Mate(model, dropout=True, **options)(points) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, Mate(model, **options)(points), atol=1e-3)


def test_drop_path_of_rate_0_changes_nothing():
    model, points = without_rates(joint_model()), clouds(2)
    options = {"steps": 2, "lr": 1e-3, "copies": 4}
    assert torch.equal(Mate(model, dropout=True, **options)(points), Mate(model, **options)(points))


def test_no_learning_rate_is_the_source_model_on_all_tokens():
    model, points = joint_model(), clouds(2)
    assert torch.allclose(Mate(model, lr=0.0, copies=2)(points), Source(model)(points), atol=1e-5)


def test_a_model_without_a_decoder_is_refused():
    with pytest.raises(
        ValueError, match="mate needs a model with a decoder: train one with `purgegate train joint`"
    ):
        Mate(small_model())
