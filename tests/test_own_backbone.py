"""A backbone of one's own is one entry of BACKBONES: no other file is touched."""

import numpy as np
import pytest
import torch
from torch import nn

import purgegate as pg
from purgegate.backbones import BACKBONES, name_of
from purgegate.backbones.base import PatchClassifier
from purgegate.io.checkpoints import read_checkpoint
from purgegate.tokens import PatchEmbed
from tests.models import clouds
from tests.train.sets import boxes


class Bag(PatchClassifier):
    """Tokens without attention: their maximum, then a linear layer."""

    def __init__(self, *, classes: int, width: int = 24, groups: int = 8, group_size: int = 6) -> None:
        super().__init__()
        self.config = {"classes": classes, "width": width, "groups": groups, "group_size": group_size}
        self.classes, self.points, self.groups, self.group_size = classes, 64, groups, group_size
        self.encoder = PatchEmbed(width, widths=(8, 12, 16))
        self.pos_embed = nn.Sequential(nn.Linear(3, width))
        self.class_head = nn.Sequential(nn.Linear(width, classes))

    def encode(self, tokens):
        return tokens.placed().amax(dim=1)


@pytest.fixture
def bag(monkeypatch):
    monkeypatch.setitem(BACKBONES, "bag", Bag)


def test_it_is_made_saved_and_loaded_by_name(bag, tmp_path):
    model = pg.create_backbone("bag", classes=3, width=16)
    pg.save_backbone(model, tmp_path / "bag.safetensors", class_names=("a", "b", "c"))
    again = pg.load_backbone(tmp_path / "bag.safetensors")
    assert type(again) is Bag
    assert again.config == model.config
    assert torch.equal(again(clouds(2)), model(clouds(2)))


@pytest.fixture
def trained(bag, purgegate, tmp_path):
    """Weights of a short run over boxes, which are named from their folder."""
    data = boxes(12)
    parts = {"points": data.points, "label": data.label, "classes": data.classes}
    np.savez(tmp_path / "boxes.npz", split=np.arange(12) // 9, **parts)
    own = ("--backbone", "bag", "--size", "width=16", "--batch", 4, "--pool", 80, "--epochs", 1)
    kept = ("--out", tmp_path / "run", "--keep-epochs")
    run = purgegate("train", "supervised", "boxes.npz", "--root", tmp_path, *own, *kept)
    assert run.code == 0, run.err
    return tmp_path / "run" / "weights.safetensors"


def test_it_is_trained_and_evaluated(trained, purgegate, tmp_path):
    for name in (trained, trained.with_name("epoch_1.safetensors")):
        model = pg.load_backbone(name)
        assert (type(model), model.config["width"]) == (Bag, 16)
    run = purgegate("train", "evaluate", trained, "boxes.npz", "--root", tmp_path)
    assert "of 3 right" in run.out, run.err


def test_it_goes_through_a_bench_to_a_table(trained, purgegate, tmp_path):
    (tmp_path / "recipe.toml").write_text(
        f"""title = "own"
        dataset = "boxes"
        methods = ["source", "source_bn", "tent", {{ name = "pg_sp", options = {{ purge = [0, 2] }} }}]
        weights = ["{trained}"]
        corruptions = ["uniform"]
        points = 64
        batches = [3]"""
    )
    bad, results = tmp_path / "bad", tmp_path / "rows.jsonl"
    runs = [
        purgegate("corrupt", tmp_path / "boxes.npz", bad, "--corruption", "uniform", "--points", 64),
        purgegate("bench", tmp_path / "recipe.toml", "--data", bad, "--out", results),
        purgegate("table", results),
    ]
    assert [run.code for run in runs] == [0, 0, 0], [run.err for run in runs]
    assert "Bag" in runs[2].out


def test_a_class_that_is_not_registered_is_told_how(tmp_path):
    with pytest.raises(ValueError, match=r"Bag is not: enter it, as in purgegate.BACKBONES\['mine'\] = Bag"):
        name_of(Bag(classes=3))


def test_a_class_that_is_not_registered_is_saved_as_a_model_of_one_s_own(tmp_path):
    own = Bag(classes=3)
    pg.save_backbone(own, tmp_path / "bag.safetensors")
    with pytest.raises(ValueError, match=r"holds the weights of .*:Bag, .* load_backbone\(path, model=Bag\)"):
        pg.load_backbone(tmp_path / "bag.safetensors")
    again = pg.load_backbone(tmp_path / "bag.safetensors", model=Bag(classes=3))
    assert torch.equal(again(clouds(2)), own.eval()(clouds(2)))


def test_a_registered_class_needs_its_sizes_to_be_saved(bag, tmp_path):
    model = pg.create_backbone("bag", classes=3)
    del model.config
    with pytest.raises(ValueError, match="Bag needs a dict `config`, the sizes it was made with"):
        pg.save_backbone(model, tmp_path / "bag.safetensors")


def test_a_file_says_its_backbone_even_where_it_is_not_known(bag, tmp_path):
    pg.save_backbone(Bag(classes=3), tmp_path / "bag.safetensors")
    assert read_checkpoint(tmp_path / "bag.safetensors").metadata["backbone"] == "bag"
    del BACKBONES["bag"]
    with pytest.raises(ValueError, match="'bag' must be in BACKBONES to be loaded: import the module"):
        pg.load_backbone(tmp_path / "bag.safetensors")
