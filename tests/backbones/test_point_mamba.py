import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import purgegate as pg
from purgegate.backbones.mamba import Mixer, causal_convolution
from purgegate.io.checkpoints import read_checkpoint
from purgegate.norms import statistics_from
from purgegate.points.curves import curve_orders, grid_cells
from tests.models import clouds, small_mamba

SIZES = {"classes": 5, "width": 40, "depth": 3, "groups": 16, "group_size": 8, "encoder_widths": (16, 24, 32)}


@pytest.fixture(scope="module")
def golden(shared):
    return np.load(shared / "golden" / "pointmamba" / "forward.npz")


@pytest.fixture(scope="module")
def model(shared):
    path = shared / "golden" / "pointmamba" / "weights.safetensors"
    return pg.load_backbone(path, classes=10, groups=64, group_size=32)


def close(found: torch.Tensor, wanted: np.ndarray) -> bool:
    return np.allclose(found[: len(wanted)].detach().numpy(), wanted, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_golden_forward_stage_by_stage(golden, model):
    tokens = model.tokenize(torch.from_numpy(golden["points"]))
    assert np.array_equal(tokens.centers.numpy(), golden["center"])
    assert close(tokens.features, golden["tokens"])
    assert close(tokens.positions, golden["pos"])
    orders = curve_orders(tokens.centers)
    assert np.array_equal(orders[0].numpy(), golden["hilbert_order"])
    assert np.array_equal(orders[1].numpy(), golden["hilbert_trans_order"])
    x, positions = model.serialise(tokens)
    assert close(x, golden["seq"])
    assert close(positions, golden["seq_pos"])
    x = x + positions
    first = model.blocks.layers[0]
    assert close(first.norm(x), golden["mixer0_in"])
    assert close(first.mixer(first.norm(x)), golden["mixer0_out"])
    for number, block in enumerate(model.blocks.layers):
        x = block(x)
        assert close(x, golden[f"block{number}_out"]), f"block {number}"
    assert close(model.blocks.norm_f(x), golden["norm_out"])
    feature = model.encode(tokens)
    assert close(feature, golden["head_in"])
    assert close(model.head(feature), golden["logits"])


@torch.no_grad()
def test_golden_forward_under_batch_statistics(golden, model):
    with statistics_from(model, "batch"):
        tokens = model.tokenize(torch.from_numpy(golden["points"]))
        assert close(tokens.features, golden["bnreset_tokens"])
        assert close(model.head(model.encode(tokens)), golden["bnreset_logits"])


@torch.no_grad()
def test_golden_logits_with_gradients_in_double_precision_and_the_release_s_bits(shared, golden):
    path = shared / "golden" / "pointmamba" / "weights.safetensors"
    points = torch.from_numpy(golden["points"])
    released = pg.load_backbone(path, bits="auto")
    with torch.enable_grad():
        assert close(released(points), golden["logits"])
    assert close(released.double()(points.double()).float(), golden["logits"])


@pytest.mark.parametrize("name", ["scanobjectnn_finetune", "modelnet_finetune"])
def test_full_size_released_layouts_fit(shared, tmp_path, name: str):
    layouts = json.loads((shared / "golden" / "checkpoint_layouts" / "PointMambaScan.json").read_text())
    state = {entry["key"]: torch.zeros(entry["shape"]) for entry in layouts[name]["state_dict"]}
    file = {"base_model": {f"module.{key}": value for key, value in state.items()}}
    torch.save(file, tmp_path / "full.pth")
    model = pg.load_backbone(tmp_path / "full.pth", groups=128)
    assert sum(parameter.numel() for parameter in model.parameters()) == layouts[name]["n_parameters"]
    assert model.groups == 128


def test_the_published_size_has_the_published_number_of_parameters():
    model = pg.create_backbone("point_mamba", classes=40)
    assert sum(parameter.numel() for parameter in model.parameters()) == 12_297_768


def test_the_tiny_one_fits_into_a_small_file():
    model = pg.create_backbone("point_mamba_tiny", classes=40)
    assert 2 * sum(value.numel() for value in model.state_dict().values()) < 12e6


def test_our_own_files_need_nothing_else(tmp_path):
    model, points = small_mamba(bits=6), clouds(3)
    pg.save_backbone(model, tmp_path / "ours.safetensors", class_names=("a", "b", "c", "d", "e"))
    assert read_checkpoint(tmp_path / "ours.safetensors").metadata["backbone"] == "point_mamba"
    loaded = pg.load_backbone(tmp_path / "ours.safetensors")
    assert loaded.config == model.config
    with torch.no_grad():
        assert torch.equal(loaded(points), model(points))


def test_a_file_without_a_head_is_told_apart_from_a_classifier(tmp_path):
    state = {key: value for key, value in small_mamba().state_dict().items() if "class_head" not in key}
    torch.save(state, tmp_path / "pretrained.pth")
    with pytest.raises(ValueError, match=r"no PointMamba classifier: it lacks 'class_head\.8\.weight'"):
        pg.load_backbone(tmp_path / "pretrained.pth")


@torch.no_grad()
def test_purging_nothing_is_the_source_model():
    model, points = small_mamba(), clouds(4)
    statistics = pg.SourceStatistics.collect(model, [clouds(8, seed=1)])
    gate = pg.PurgeGate(model, pg.SourceDistance(statistics), purge=(0,), norm="source")
    assert torch.equal(gate(points), model(points))


@torch.no_grad()
def test_the_gate_purges_before_the_curves_are_followed():
    model, points = small_mamba(), clouds(4)
    statistics = pg.SourceStatistics.collect(model, [clouds(8, seed=1)])
    found = pg.PurgeGate(model, pg.SourceDistance(statistics), purge=(0, 4, 8), norm="source").predict(points)
    tokens = model.tokenize(points)
    for column, size in enumerate((0, 4, 8)):
        kept = found.scores.argsort(dim=1)[:, : 16 - size]
        x, _ = model.serialise(tokens.keep(kept))
        assert x.shape == (4, 2 * (16 - size), 40)
        logits = model.head(model.encode(tokens.keep(kept)))
        assert torch.allclose(found.candidates[:, column], logits, atol=1e-5)


def test_a_score_by_the_class_token_is_refused():
    with pytest.raises(ValueError, match="PG-SF needs a class token"):
        pg.PurgeGate(small_mamba(), pg.ClassDistance(), purge=(0, 2))


@torch.no_grad()
def test_the_order_of_tokens_does_not_matter():
    model = small_mamba()
    tokens = model.tokenize(clouds(2))
    cells = grid_cells(tokens.centers)
    assert all(len(cloud.unique(dim=0)) == 16 for cloud in cells), "two centres in one cell"
    order = torch.randperm(16).expand(2, -1)
    assert torch.equal(model.encode(tokens), model.encode(tokens.keep(order)))


@torch.no_grad()
def test_a_permuted_cloud_with_the_same_start_gives_the_same_logits():
    model, points = small_mamba(), clouds(3)
    order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(255)])
    assert torch.allclose(model(points), model(points[:, order]), atol=1e-5)


@torch.no_grad()
def test_a_cloud_s_logits_do_not_depend_on_its_batch():
    model, points = small_mamba(), clouds(5) * torch.tensor([0.1, 1, 0.5, 3, 50])[:, None, None]
    assert torch.allclose(model(points)[2:3], model(points[2:3]), atol=1e-5)


@torch.no_grad()
def test_the_sequence_matters():
    """Unlike attention, the same tokens elsewhere on the curve are another cloud."""
    model = small_mamba()
    tokens = model.tokenize(clouds(2))
    mirrored = tokens._replace(centers=-tokens.centers)
    assert not torch.allclose(model.encode(tokens), model.encode(mirrored), atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("count", [1, 3, 17])
def test_a_cloud_smaller_than_its_patches_still_has_an_answer(count: int):
    assert torch.isfinite(small_mamba()(clouds(2, count))).all()


def test_gradients_reach_every_parameter():
    model = small_mamba().train()
    model(clouds(4)).logsumexp(dim=1).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_a_few_steps_learn_a_few_clouds():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, points, label = small_mamba(drop_path=0.1).train(), clouds(10), torch.arange(10) % 5
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        losses = []
        for _ in range(25):
            loss = F.cross_entropy(model(points), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


def test_the_convolution_equals_torch_s():
    x, layer = torch.randn(2, 9, 6), nn.Conv1d(6, 6, 4, groups=6, padding=3)
    wanted = layer(x.transpose(1, 2))[..., :9].transpose(1, 2)
    assert torch.allclose(causal_convolution(x, layer.weight, layer.bias), wanted, atol=1e-6)


def test_mixers_begin_as_mamba_s_do():
    mixer = Mixer(64, depth=4)
    assert torch.allclose(mixer.A_log.exp(), torch.arange(1.0, 17).expand(128, -1))
    assert torch.equal(mixer.D, torch.ones(128))
    steps = F.softplus(mixer.dt_proj.bias)
    assert ((steps > 0.0009) & (steps < 0.11)).all()
    assert mixer.dt_proj.weight.abs().max() <= 4**-0.5
    assert 0.4 < mixer.out_proj.weight.abs().max() * 128**0.5 <= 0.5


def test_drop_path_grows_with_depth():
    model = small_mamba(drop_path=0.2)
    assert [round(block.drop_path.rate, 6) for block in model.blocks.layers] == [0, 0.1, 0.2]


@pytest.mark.parametrize("name", ["classes", "width", "depth", "groups", "group_size", "points"])
def test_impossible_sizes_are_refused(name: str):
    with pytest.raises(ValueError, match=f"{name} must be at least 1; got 0"):
        pg.create_backbone("point_mamba", **{**SIZES, name: 0})
