import numpy as np
import pytest
import torch
from torch import nn

import purgegate as pg
from benchmarks.reference import plain_copy, reset_batch_norm
from purgegate.backbones.base import encode_each
from purgegate.norms import statistics_from
from purgegate.points.patches import cut_patches
from purgegate.points.sampling import farthest_points
from tests.models import clouds, small_mamba, small_model


@pytest.fixture(scope="module")
def golden(shared):
    return np.load(shared / "golden" / "pointmae_forward" / "forward.npz")


@pytest.fixture(scope="module")
def model(shared):
    path = shared / "golden" / "pointmae_forward" / "weights.safetensors"
    return pg.load_backbone(path, classes=10, groups=64, group_size=32, heads=6)


def close(found: torch.Tensor, wanted: np.ndarray) -> bool:
    return np.allclose(found.detach().numpy(), wanted, atol=1e-4, rtol=1e-4)


def test_golden_patches(golden):
    points = torch.from_numpy(golden["points"])
    assert np.array_equal(farthest_points(points, 64).numpy(), golden["fps_idx"])
    centers, patches = cut_patches(points, groups=64, group_size=32)
    assert np.array_equal(centers.numpy(), golden["center"])
    assert np.allclose(patches.numpy(), golden["neighborhood"], atol=1e-7)


@torch.no_grad()
def test_golden_forward_stage_by_stage(golden, model):
    tokens = model.tokenize(torch.from_numpy(golden["points"]))
    assert close(tokens.features, golden["tokens"])
    assert close(tokens.positions, golden["pos"])
    x, positions = model._with_class_token(tokens)
    assert close(x + positions, golden["block0_in"])
    for number, block in enumerate(model.blocks.blocks):
        x = block(x + positions)
        assert close(x, golden[f"block{number}_out"]), f"block {number}"
    assert close(model.norm(x), golden["norm_out"])
    feature = model.encode(tokens)
    assert close(feature, golden["head_in"])
    assert close(model.head(feature), golden["logits"])


@torch.no_grad()
def test_golden_forward_under_batch_statistics(golden, model):
    with statistics_from(model, "batch"):
        tokens = model.tokenize(torch.from_numpy(golden["points"]))
        assert close(tokens.features, golden["bnreset_tokens"])
        feature = model.encode(tokens)
        assert close(feature, golden["bnreset_head_in"])
        assert close(model.head(feature), golden["bnreset_logits"])


@pytest.mark.parametrize("batch_statistics", [False, True])
def test_forward_equals_the_plain_reference(batch_statistics: bool):
    model, points = small_model(), clouds(6)
    plain = plain_copy(model)
    if batch_statistics:
        reset_batch_norm(plain)
    with torch.no_grad(), statistics_from(model, "batch" if batch_statistics else "source"):
        assert torch.allclose(model(points), plain(points), atol=1e-4)


@torch.no_grad()
def test_a_permuted_cloud_with_the_same_start_gives_the_same_logits():
    model, points = small_model(), clouds(3)
    order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(255)])
    assert torch.allclose(model(points), model(points[:, order]), atol=1e-5)


@torch.no_grad()
def test_the_order_of_tokens_does_not_matter():
    model = small_model()
    tokens = model.tokenize(clouds(2))
    order = torch.randperm(16).expand(2, -1)
    assert torch.allclose(model.encode(tokens), model.encode(tokens.keep(order)), atol=1e-5)


def some_sets(model, batch: int) -> list:
    tokens = model.tokenize(clouds(batch))
    return [tokens.keep(torch.arange(count).expand(batch, -1)) for count in (16, 15, 3, 1)]


@pytest.mark.parametrize("batch", [1, 3])
def test_sets_of_tokens_encoded_together_are_as_one_after_another(batch: int, monkeypatch):
    model = small_model()
    with torch.no_grad():
        many = some_sets(model, batch)
        together = model.encode_many(many)
        monkeypatch.setattr(type(model), "encode", None)  # none was encoded alone
        again = model.encode_many(many)
        monkeypatch.undo()
        for found, same, tokens in zip(together, again, many, strict=True):
            torch.testing.assert_close(found, model.encode(tokens), rtol=1e-5, atol=1e-5)
            assert torch.equal(found, same)


def test_large_sets_and_those_with_gradients_are_encoded_one_after_another(monkeypatch):
    model = small_model()
    monkeypatch.setattr(type(model.blocks), "packed", None)
    with torch.no_grad():
        large = some_sets(model, 20)
        assert all(map(torch.equal, model.encode_many(large), map(model.encode, large)))
    few = some_sets(model, 1)
    sum(feature.sum() for feature in model.encode_many(few)).backward()
    assert model.cls_token.grad.abs().sum() > 0


@torch.no_grad()
def test_a_model_without_that_door_encodes_one_after_another():
    model = small_mamba()
    many = some_sets(model, 2)
    found = list(encode_each(model, many))
    assert all(map(torch.equal, found, map(model.encode, many)))
    assert len(found) == len(many)


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 40, 10_000])
def test_blocks_give_the_same_however_many_clouds_go_through_at_once(rows: int, monkeypatch):
    model, points = small_model(), clouds(5)
    whole = model(points)
    monkeypatch.setattr("purgegate.backbones.attention.ROWS", rows)
    torch.testing.assert_close(model(points), whole, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_cloud_s_logits_do_not_depend_on_its_batch():
    model, points = small_model(), clouds(5)
    assert torch.allclose(model(points)[2:3], model(points[2:3]), atol=1e-5)


def test_the_published_size_has_the_published_number_of_parameters():
    model = pg.create_backbone("point_mae", classes=40)
    assert sum(parameter.numel() for parameter in model.parameters()) == 22_099_752


def test_gradients_reach_every_parameter():
    model = small_model().train()
    model(clouds(4)).logsumexp(dim=1).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_new_models_are_in_evaluation_mode_and_of_any_size():
    model = pg.create_backbone(
        "point_mae", classes=3, width=24, depth=1, heads=2, groups=4, group_size=4, encoder_widths=(8, 12, 20)
    )
    assert not model.training
    assert model(clouds(2, 30)).shape == (2, 3)


@torch.no_grad()
@pytest.mark.parametrize("count", [1, 3, 17])
def test_a_cloud_smaller_than_its_patches_still_has_an_answer(count: int):
    assert torch.isfinite(small_model()(clouds(2, count))).all()


@torch.no_grad()
def test_a_million_points_have_an_answer():
    assert torch.isfinite(small_model()(clouds(1, 1_000_000))).all()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 50, "heads": 4}, "width must be a multiple of heads"),
        ({"groups": 0}, "groups must be at least 1; got 0"),
        ({"classes": 0}, "classes must be at least 1"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        pg.create_backbone("point_mae", **{"classes": 3, **sizes})


def test_an_unknown_backbone_lists_the_choices():
    with pytest.raises(ValueError, match="one of point_mae"):
        pg.create_backbone("pointnet", classes=3)


def test_drop_path_drops_whole_clouds_in_training_only():
    from purgegate.backbones.attention import DropPath

    drop, x = DropPath(0.5), torch.ones(64, 3, 2)
    dropped = drop(x).mean(dim=(1, 2))
    assert set(dropped.tolist()) == {0.0, 2.0}
    assert torch.equal(drop.eval()(x), x)
    assert isinstance(drop, nn.Module)
