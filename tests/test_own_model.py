"""A model of one's own: three methods, 20 tokens, no BatchNorm, no `class_head`, no base class of ours."""

import json
import re
import sys

import numpy as np
import pytest
import torch
from torch import nn

import purgegate as pg
from purgegate.adapt import METHODS
from tests.models import clouds


class Twenty(nn.Module):
    """Tokens are points, embedded one by one; a feature is their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix, self.last = nn.Linear(3, 16), nn.Linear(16, 24), nn.Linear(24, 5)

    def tokenize(self, points):
        centers = points[:, :20]
        return pg.Tokens(self.embed(centers), torch.zeros(len(points), 20, 16), centers)

    def encode(self, tokens):
        return self.mix(tokens.features).relu().mean(dim=1)

    def head(self, feature):
        return self.last(feature)


class Split(Twenty):
    """The same with the documented way to its last layer."""

    def split_head(self):
        return nn.Identity(), self.last


def model(kind=Twenty) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind().eval()


def needs(name: str, own: nn.Module) -> dict:
    found = {}
    if "statistics" in METHODS[name].needs:
        found["statistics"] = pg.SourceStatistics.collect(own, [clouds(8)])
    if "source" in METHODS[name].needs:
        found["source"] = clouds(10, 128), torch.arange(10) % 5
    return found


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", [Twenty, Split])
def test_every_method_works_or_says_in_one_line_what_it_needs(name: str, kind):
    own, told = model(kind), None
    try:
        logits = pg.create_adapter(name, own, **needs(name, own))(clouds(4))
    except ValueError as error:
        told = str(error)
    if told is None:
        assert logits.shape == (4, 5)
        assert torch.isfinite(logits).all()
    else:
        assert " needs " in told
        assert "\n" not in told


@pytest.mark.parametrize("name", ["source", "source_bn", "pg_sp", "pg_auto", "random_purge", "bftt3d"])
def test_these_need_nothing_but_the_three_methods(name: str):
    own = model()
    assert pg.create_adapter(name, own, **needs(name, own))(clouds(4)).shape == (4, 5)


def test_sizes_that_do_not_fit_are_left_out_with_a_note(caplog):
    own = model()
    gate = pg.create_adapter("pg_sp", own, **needs("pg_sp", own))
    assert set(gate.predict(clouds(4)).purge.tolist()) <= {0, 2, 4, 8, 16}
    assert gate.options["purge"] == [0, 2, 4, 8, 16]
    assert "purge sizes [32] are left out: the model has 20 tokens" in caplog.text


def test_t3a_and_shot_take_the_last_layer_that_the_model_shows():
    with pytest.raises(ValueError, match=r"give Twenty a method split_head\(\)"):
        pg.create_adapter("t3a", model())
    assert pg.create_adapter("t3a", model(Split))(clouds(4)).shape == (4, 5)


def test_a_head_that_is_a_linear_layer_needs_no_more():
    class Headed(Twenty):
        def __init__(self) -> None:
            super().__init__()
            self.class_head = nn.Sequential(nn.ReLU(), self.last)

    assert pg.create_adapter("t3a", model(Headed))(clouds(4)).shape == (4, 5)


def test_it_is_saved_and_loaded_to_the_last_bit_with_its_class(tmp_path):
    own, path = model(), tmp_path / "own.safetensors"
    pg.save_backbone(own, path, class_names=tuple("abcde"))
    for given in (Twenty, Twenty()):
        again = pg.load_backbone(path, model=given)
        assert type(again) is Twenty
        assert not again.training
        assert again.class_names == tuple("abcde")
        assert again.weights_name == "own.safetensors"
        assert torch.equal(
            pg.create_adapter("source", again)(clouds(4)), pg.create_adapter("source", own)(clouds(4))
        )


class Odd(Twenty):
    """What a file of ours would not keep: names of wrappers, convolutions, masks, double and tied numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.module, self.encoder = nn.Linear(2, 2).double(), nn.Conv1d(3, 4, 1)
        self.tied = self.embed.weight
        self.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
        self.layers = nn.ModuleDict({"100": nn.Linear(1, 1)})


@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_every_tensor_comes_back_under_its_own_name_and_of_its_own_kind(tmp_path, ending: str):
    own, path = model(Odd), tmp_path / f"own.{ending}"
    pg.save_backbone(own, path) if ending == "safetensors" else torch.save(own.state_dict(), path)
    found, wanted = pg.load_backbone(path, model=Odd).state_dict(), own.state_dict()
    assert found.keys() == wanted.keys()
    assert all(
        torch.equal(found[key], wanted[key]) and found[key].dtype == wanted[key].dtype for key in wanted
    )


def test_its_file_names_no_code_to_run_and_says_what_to_give(tmp_path, monkeypatch):
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    kind = type("Model", (Twenty,), {"__module__": "hostile"})
    pg.save_backbone(kind(), tmp_path / "own.safetensors")
    with pytest.raises(
        ValueError, match=r"holds the weights of hostile:Model, .* load_backbone\(path, model=Model\)"
    ):
        pg.load_backbone(tmp_path / "own.safetensors")
    assert "hostile" not in sys.modules


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": Split, "classes": 5}, "are those of the model that is given"),
        ({"model": "tests.test_own_model:Twenty"}, "must be a torch module, or what makes one; got str"),
        ({"model": lambda: 3}, "must be a torch module, or what makes one; got int"),
        ({"model": nn.Linear(3, 16)}, "does not fit Linear: missing: bias, weight; unexpected: embed.bias"),
    ],
)
def test_what_cannot_be_filled_says_why(tmp_path, given, message: str):
    pg.save_backbone(model(), tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match=message):
        pg.load_backbone(tmp_path / "own.safetensors", **given)


class Bare:
    """Three methods and no torch module."""

    tokenize = encode = head = None


def test_what_has_no_plain_weights_is_not_saved(tmp_path):
    own = model()
    own.register_buffer("waves", torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="plain real numbers to be saved; waves is something else"):
        pg.save_backbone(own, tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match="only a torch module has weights to be saved; got Bare"):
        pg.save_backbone(Bare(), tmp_path / "own.safetensors")
    assert not list(tmp_path.iterdir())


def test_parameters_that_are_no_numbers_are_refused(tmp_path):
    own = model()
    with torch.no_grad():
        own.last.bias[2] = torch.nan
    pg.save_backbone(own, tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match=r"has NaN or infinite numbers in last\.bias"):
        pg.load_backbone(tmp_path / "own.safetensors", model=Twenty)


RECIPE = """
title = "own"
dataset = "toy"
methods = ["source", "source_bn", {name = "pg_sp", options = {statistics = "own.statistics"}}, "pg_auto"]
weights = ["tests.test_own_model:Twenty@own.safetensors"]
corruptions = ["uniform"]
severities = [1]
batches = [4]
points = 64
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with saved weights and data, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    pg.save_backbone(model(), "own.safetensors", class_names=tuple("abcde"))
    (tmp_path / "data").mkdir()
    np.save("data/data_uniform_1.npy", clouds(10, 64).numpy())
    np.save("data/label.npy", np.arange(10) % 5)
    np.savez("clean.npz", points=clouds(8, 64).numpy(), label=np.arange(8) % 5)
    return tmp_path


def test_commands_take_it_by_its_import_path_and_file(folder, purgegate):
    named = "tests.test_own_model:Twenty@own.safetensors"
    run = purgegate("statistics", named, "clean.npz", "own.statistics")
    assert run.code == 0, run.err
    (folder / "own.toml").write_text(RECIPE)
    run = purgegate("bench", "own.toml", "--data", "data", "--out", "rows.jsonl")
    assert run.code == 0, run.err
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [row["method"] for row in rows] == ["source", "source_bn", "pg_sp", "pg_auto"]
    assert {row["weights"] for row in rows} == {"own.safetensors"}
    np.save("cloud.npy", clouds(1, 300)[0].numpy())
    run = purgegate("predict", "cloud.npy", "--weights", named, "--json")
    assert json.loads(run.out)["class"] in "abcde"


class Asking(Twenty):
    """Made with a size that nobody gives."""

    def __init__(self, width) -> None:
        super().__init__()


nothing = 3


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("own.safetensors", "in a command or recipe as tests.test_own_model:Twenty@own.safetensors"),
        ("tests.test_own_model:Twenty@", "must name a file of weights behind the @"),
        ("tests.test_own_model:Twenty@missing.pth", "missing.pth is missing"),
        ("tests.test_own_model:nothing", "must be a model, or make one; it is a int"),
        ("tests.test_own_model:Asking", "must make a model without arguments: .*'width'; give a function"),
        ("tests.test_own_model:RECIPE", "must be a model, or make one; it is a str"),
        ("tests.test_own_model:Missing", "tests.test_own_model has no Missing; it has"),
    ],
)
def test_a_command_says_in_one_line_what_is_wrong_with_it(folder, purgegate, weights: str, message: str):
    np.save("cloud.npy", clouds(1, 300)[0].numpy())
    run = purgegate("predict", "cloud.npy", "--weights", weights)
    assert run.code == 2
    assert re.search(message, run.err)
    assert len(run.err.splitlines()) == 1
