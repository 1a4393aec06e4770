import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import purgegate as pg
from purgegate.fingerprints import state_fingerprint
from purgegate.io.checkpoints import read_checkpoint, to_ours
from tests.models import clouds, small_model

SIZES = {"groups": 16, "group_size": 8, "heads": 4}


def released(model) -> dict[str, torch.Tensor]:
    """The state dict as the published code would save it: convolutions have a third axis."""
    return {
        key: value[..., None] if key.startswith("encoder.") and value.ndim == 2 else value
        for key, value in model.state_dict().items()
    }


def mate(model) -> dict[str, torch.Tensor]:
    """The layout of `*_src_only.pth`: prefixed encoder, class head, and a decoder that a classifier lacks."""
    encoder = {
        k if k.startswith("class_head.") else f"MAE_encoder.{k}": v for k, v in released(model).items()
    }
    decoder = [
        "mask_token",
        "MAE_decoder.blocks.0.norm1.weight",
        "decoder_pos_embed.0.weight",
        "increase_dim.0.bias",
    ]
    return {**encoder, **{key: torch.zeros(3) for key in decoder}}


LAYOUTS = {
    "plain": released,
    "DataParallel": lambda model: {f"module.{key}": value for key, value in released(model).items()},
    "fine-tuned": lambda model: {
        key.replace("class_head.", "cls_head_finetune."): value for key, value in released(model).items()
    },
    "MATE": mate,
    "MATE in DataParallel": lambda model: {f"module.{key}": value for key, value in mate(model).items()},
    "DataParallel within": lambda model: {
        key.replace("MAE_encoder.", "MAE_encoder.module."): value for key, value in mate(model).items()
    },
    "DataParallel twice": lambda model: {
        f"module.module.{key}": value for key, value in released(model).items()
    },
    "ScanObjectNN": lambda model: {
        key.replace("class_head.8.", "class_head.8.custom_last_layer_name."): value
        for key, value in mate(model).items()
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrapper", [None, "base_model", "model"])
def test_every_released_layout_gives_the_same_classifier(tmp_path, layout: str, wrapper: str | None):
    model, points = small_model(), clouds(3)
    state = LAYOUTS[layout](model)
    content = state if wrapper is None else {wrapper: state, "epoch": 299, "metrics": {"acc": np.float32(93)}}
    torch.save(content, tmp_path / "released.pth")
    loaded = pg.load_backbone(tmp_path / "released.pth", classes=5, **SIZES)
    with torch.no_grad():
        assert torch.equal(loaded(points), model(points))


@pytest.mark.parametrize("name", ["PointTransformer", "Point_MAE", "Point_MAE_rotnet"])
def test_full_size_released_layouts_fit(shared, tmp_path, name: str):
    layout = json.loads((shared / "golden" / "checkpoint_layouts" / f"{name}.json").read_text())["state_dict"]
    entries = layout if isinstance(layout, list) else [{"key": key, **value} for key, value in layout.items()]
    state = {
        entry["key"]: torch.zeros(entry["shape"], dtype=getattr(torch, entry["dtype"].removeprefix("torch.")))
        for entry in entries
    }
    torch.save(
        {"base_model": {f"module.{key}": value for key, value in state.items()}}, tmp_path / "full.pth"
    )
    model = pg.load_backbone(tmp_path / "full.pth", classes=40)
    assert sum(parameter.numel() for parameter in model.parameters()) >= 22_099_752


def test_our_own_files_need_nothing_else(tmp_path):
    model, points = small_model(), clouds(3)
    pg.save_backbone(model, tmp_path / "ours.safetensors", class_names=("a", "b", "c", "d", "e"))
    loaded = pg.load_backbone(tmp_path / "ours.safetensors")
    assert loaded.config == model.config
    assert loaded.class_names == ("a", "b", "c", "d", "e")
    assert not loaded.training
    with torch.no_grad():
        assert torch.equal(loaded(points), model(points))


def test_half_precision_files_load_as_single_precision(tmp_path):
    model = small_model()
    pg.save_backbone(model, tmp_path / "half.safetensors", dtype=torch.float16)
    loaded = pg.load_backbone(tmp_path / "half.safetensors")
    assert all(parameter.dtype == torch.float32 for parameter in loaded.parameters())
    assert torch.allclose(loaded.cls_token, model.cls_token, rtol=1e-3, atol=1e-4)


def test_the_start_weights_load_by_their_own_metadata(shared):
    model = pg.load_backbone(shared / "weights" / "start_modelnet40.safetensors")
    assert (model.classes, model.groups, model.width) == (40, 64, 192)


def test_a_fingerprint_is_of_the_weights_and_not_of_their_order():
    state = small_model().state_dict()
    assert state_fingerprint(state) == state_fingerprint(dict(reversed(state.items())))
    changed = {**state, "norm.bias": state["norm.bias"] + 1e-6}
    assert state_fingerprint(changed) != state_fingerprint(state)


def test_renaming_leaves_our_own_names_alone():
    state = small_model().state_dict()
    assert to_ours(state, origin="ours").keys() == state.keys()


def save(path, state: dict) -> None:
    save_file({key: value.contiguous() for key, value in state.items()}, path)


def test_missing_unexpected_and_misshapen_tensors_are_all_listed(tmp_path):
    state = released(small_model())
    del state["blocks.blocks.1.attn.qkv.weight"]
    state["surprise"] = torch.zeros(2)
    state["pos_embed.2.bias"] = torch.zeros(7)
    save(tmp_path / "bad.safetensors", state)
    with pytest.raises(ValueError, match="does not fit") as caught:
        pg.load_backbone(tmp_path / "bad.safetensors", **SIZES)
    message = str(caught.value)
    assert "missing: blocks.blocks.1.attn.qkv.weight" in message
    assert "unexpected: surprise" in message
    assert "pos_embed.2.bias is (7,), not (48,)" in message


def test_another_number_of_classes_is_an_error_and_never_a_random_head(tmp_path):
    save(tmp_path / "five.safetensors", released(small_model()))
    with pytest.raises(ValueError, match="has classes 5, but 40 was asked for"):
        pg.load_backbone(tmp_path / "five.safetensors", classes=40, **SIZES)


def test_a_file_without_a_head_says_so(tmp_path):
    state = {
        key: value for key, value in released(small_model()).items() if not key.startswith("class_head.8")
    }
    save(tmp_path / "headless.safetensors", state)
    with pytest.raises(ValueError, match=r"lacks 'class_head\.8\.weight'"):
        pg.load_backbone(tmp_path / "headless.safetensors", **SIZES)


def test_truncated_files_are_refused_in_one_line(tmp_path):
    model = small_model()
    pg.save_backbone(model, tmp_path / "whole.safetensors")
    torch.save(model.state_dict(), tmp_path / "whole.pth")
    for name in ("whole.safetensors", "whole.pth"):
        content = (tmp_path / name).read_bytes()
        for share in (0, 10, len(content) // 2, len(content) - 9):
            cut = tmp_path / name.replace("whole", "cut")
            cut.write_bytes(content[:share])
            with pytest.raises(ValueError, match="is not a whole") as caught:
                pg.load_backbone(cut)
            assert "\n" not in str(caught.value)


def test_damaged_pickles_of_the_old_format_are_refused_in_one_line(tmp_path):
    torch.save(small_model().state_dict(), tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    content = (tmp_path / "old.pth").read_bytes()
    for share in (*range(3, 90, 3), *range(90, len(content), len(content) // 40)):
        (tmp_path / "cut.pth").write_bytes(content[:share])
        with pytest.raises(ValueError, match="is not a whole checkpoint") as caught:
            pg.load_backbone(tmp_path / "cut.pth")
        assert "\n" not in str(caught.value)


def test_numbers_of_an_older_numpy_are_read(tmp_path):
    torch.save({"model": small_model().state_dict(), "epoch": np.int64(3)}, tmp_path / "now.pth")
    with zipfile.ZipFile(tmp_path / "now.pth") as now, zipfile.ZipFile(tmp_path / "then.pth", "w") as then:
        for name in now.namelist():
            then.writestr(name, now.read(name).replace(b"numpy._core.", b"numpy.core."))
    assert len(read_checkpoint(tmp_path / "then.pth").state) == len(small_model().state_dict())


@pytest.mark.parametrize("config", ["12", '{"trans_dim": 96}', "trained by me"])
def test_what_others_write_beside_their_tensors_is_no_hindrance(tmp_path, config: str):
    model, points = small_model(), clouds(2)
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    metadata = {"format": "pt", "config": config, "class_names": "5"}
    save_file(state, tmp_path / "foreign.safetensors", metadata=metadata)
    loaded = pg.load_backbone(tmp_path / "foreign.safetensors", classes=5, **SIZES)
    with torch.no_grad():
        assert torch.equal(loaded(points), model(points))
    assert loaded.class_names == ()


def test_two_tensors_for_one_part_must_be_equal(tmp_path):
    state = mate(small_model())
    torch.save({**state, "norm.weight": state["MAE_encoder.norm.weight"]}, tmp_path / "equal.pth")
    assert pg.load_backbone(tmp_path / "equal.pth", **SIZES).classes == 5
    for key, rival in (
        ("norm.weight", "MAE_encoder.norm.weight"),
        ("class_head_rotnet.0.bias", "class_head.0.bias"),
    ):
        torch.save({**state, key: state[rival] + 1}, tmp_path / "torn.pth")
        with pytest.raises(ValueError, match=f"two tensors that differ for .*, one of them {key}"):
            pg.load_backbone(tmp_path / "torn.pth", **SIZES)


def test_a_model_of_smart_pc_is_refused_for_its_patches(tmp_path):
    state = mate(small_model()) | {"increase_dim_2.0.weight": torch.zeros(1, 48, 1)}
    torch.save({"base_model": state}, tmp_path / "smart_pc.pth")
    with pytest.raises(ValueError, match="SMART-PC, whose patches are in absolute coordinates"):
        pg.load_backbone(tmp_path / "smart_pc.pth", **SIZES)


def test_sizes_that_a_backbone_lacks_are_listed_with_those_it_has():
    with pytest.raises(ValueError, match=r"point_mamba has the sizes classes, width.* got heads"):
        pg.load_backbone("point_mamba_tiny.modelnet40", heads=6)


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("code from a checkpoint was run",))

    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"base_model": Evil()}, protocol=2))
    torch.save({"base_model": Evil()}, tmp_path / "evil2.pth")
    for name in ("evil.pth", "evil2.pth"):
        with pytest.raises(
            ValueError, match=r"is not a whole checkpoint of plain tensors: .*_pytest\.outcomes"
        ):
            read_checkpoint(tmp_path / name)


def test_a_checkpoint_without_tensors_is_refused(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "epoch.pth")
    with pytest.raises(ValueError, match="holds no state dict"):
        pg.load_backbone(tmp_path / "epoch.pth")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.pth"):
        pg.load_backbone(tmp_path / "nothing.pth")


def test_class_names_go_with_a_copy_and_other_endings_are_refused(tmp_path):
    model = pg.load_backbone("point_mae_tiny.shapes")
    pg.save_backbone(model, tmp_path / "copy.safetensors")
    assert pg.load_backbone(tmp_path / "copy.safetensors").class_names == model.class_names
    with pytest.raises(ValueError, match=r"written as \.safetensors; got 'copy.pth'"):
        pg.save_backbone(model, tmp_path / "copy.pth")


def test_a_new_folder_is_made_and_what_cannot_be_written_is_an_error_of_the_system(tmp_path):
    pg.save_backbone(small_model(), tmp_path / "new" / "w.safetensors")
    assert pg.load_backbone(tmp_path / "new" / "w.safetensors").classes == 5
    (tmp_path / "taken.safetensors").mkdir()
    with pytest.raises(OSError, match=r"taken\.safetensors cannot be written"):
        pg.save_backbone(small_model(), tmp_path / "taken.safetensors")


def test_what_was_not_read_off_the_file_is_told_with_its_name():
    assert (
        pg.load_backbone("point_mae_tiny.shapes", groups=4).weights_name == "point_mae_tiny.shapes groups=4"
    )
