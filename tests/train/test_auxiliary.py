"""Auxiliary modules from files: our own, and the released layouts of MATE and TTT-Rot."""

import json

import pytest
import torch

import purgegate as pg
from purgegate.backbones.auxiliary import make_auxiliary
from purgegate.io.checkpoints import to_ours
from tests.models import clouds
from tests.train.sets import box_model

SIZES = {"groups": 16, "group_size": 8, "heads": 4}


def released_mate(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state of a model under MATE's names and shapes."""
    state = {}
    for key, value in model.state_dict().items():
        if key.startswith("auxiliary.masked."):
            key = key.removeprefix("auxiliary.masked.")
            state[f"module.{key}"] = value[..., None] if key == "increase_dim.0.weight" else value
        elif key.startswith("class_head."):
            state[f"module.{key}"] = value
        elif not key.startswith("auxiliary."):
            state[f"module.MAE_encoder.{key}"] = value
    return state


def released_rotation(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state of a model under TTT-Rot's names: hidden layers twice, a decoder without its last layer."""
    state = {key: value for key, value in released_mate(model).items() if "increase_dim" not in key}
    for key in [key for key in state if key.startswith("module.class_head.")]:
        state[key.replace("class_head", "class_head_rotnet")] = state[key]
    for name in ("weight", "bias"):
        state[f"module.class_head_rotnet.8.{name}"] = getattr(model.auxiliary["rotation"], name).detach()
    return state


def assert_equal_parts(left: torch.nn.Module, right: torch.nn.Module) -> None:
    other = right.state_dict()
    assert left.state_dict().keys() == other.keys()
    assert all(torch.equal(value, other[key]) for key, value in left.state_dict().items())


def test_a_released_mate_file_brings_its_decoder(tmp_path):
    model = box_model(depth=4)
    torch.save({"base_model": released_mate(model)}, tmp_path / "mate.pth")
    loaded = pg.load_backbone(tmp_path / "mate.pth", **SIZES)
    assert list(loaded.auxiliary) == ["masked"]
    assert_equal_parts(loaded.auxiliary["masked"], model.auxiliary["masked"])


def test_a_released_rotation_file_brings_its_last_layer_alone(tmp_path):
    model = box_model()
    torch.save({"base_model": released_rotation(model)}, tmp_path / "rotation.pth")
    loaded = pg.load_backbone(tmp_path / "rotation.pth", **SIZES)
    assert list(loaded.auxiliary) == ["rotation"]
    assert_equal_parts(loaded.auxiliary["rotation"], model.auxiliary["rotation"])


@pytest.mark.parametrize("layout", ["Point_MAE", "Point_MAE_rotnet"])
def test_published_layouts_fit_the_full_size(shared, layout):
    entries = json.loads((shared / "golden" / "checkpoint_layouts" / f"{layout}.json").read_text())[
        "state_dict"
    ]
    shapes = {entry["key"]: entry["shape"] for entry in entries}
    ours = to_ours({key: torch.zeros(shape) for key, shape in shapes.items()}, origin=layout)
    model = pg.create_backbone("point_mae", classes=40)
    name = "masked" if layout == "Point_MAE" else "rotation"
    model.auxiliary[name] = make_auxiliary(name, model)
    wanted = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    assert {key: tuple(value.shape) for key, value in ours.items()} == wanted


def test_our_own_file_brings_all_modules_at_their_depth(tmp_path):
    model = box_model(depth=2)
    pg.save_backbone(model, tmp_path / "model.safetensors")
    loaded = pg.load_backbone(tmp_path / "model.safetensors")
    assert_equal_parts(loaded, model)


def test_a_plain_classifier_has_no_modules_and_an_unknown_one_is_refused(tmp_path):
    model = box_model()
    with pytest.raises(ValueError, match="must be one of masked, rotation, skeleton; got 'jigsaw'"):
        make_auxiliary("jigsaw", model)
    model.auxiliary.clear()
    pg.save_backbone(model, tmp_path / "model.safetensors")
    assert len(pg.load_backbone(tmp_path / "model.safetensors").auxiliary) == 0


def test_a_backbone_without_heads_learns_to_tell_turns_and_refuses_decoders(tmp_path):
    sizes = {"width": 24, "depth": 1, "groups": 16, "group_size": 8}
    model = pg.create_backbone("point_mamba", classes=5, **sizes)
    for name in ("masked", "skeleton"):
        with pytest.raises(
            ValueError, match=f"{name} needs a backbone of attention blocks.*PointMamba has none"
        ):
            make_auxiliary(name, model)
    with pytest.raises(ValueError, match="must be one of masked, rotation, skeleton; got 'jigsaw'"):
        make_auxiliary("jigsaw", model)
    model.auxiliary["rotation"] = make_auxiliary("rotation", model)
    pg.save_backbone(model, tmp_path / "mamba.safetensors")
    loaded = pg.load_backbone(tmp_path / "mamba.safetensors")
    assert_equal_parts(loaded, model)
    adapter = pg.create_adapter("ttt_rot", loaded, copies=4, lr=1e-3)
    first = adapter(clouds(2, 64))
    assert not torch.equal(adapter(clouds(2, 64)), first)
