"""A method of one's own is a class and nothing else: every command takes it by import path or by an entry."""

import json
import subprocess
import sys

import numpy as np
import pytest

import purgegate as pg
from purgegate.adapt import METHODS, describe_adapter
from purgegate.adapt.described import Described
from purgegate.grid import run_recipe
from purgegate.recipes import read_recipe
from purgegate.report.formats import to_markdown
from purgegate.report.plots import PLOTS
from purgegate.report.tables import make_tables
from tests.models import clouds, small_model

MODULE = '''
import torch
import purgegate as pg
from purgegate.adapt import Method

class Softened(Method):
    """Logits divided by a temperature."""

    writes = False

    def __init__(self, model, *, temperature=2.0, norm="batch", seed=0):
        self.temperature = temperature
        super().__init__(model, norm=norm, seed=seed)

    def answer(self, points):
        return self.logits(points) / self.temperature


class Plain:
    """No base class: clouds in, logits out, reset."""

    def __init__(self, model, shift=0.0):
        self.model, self.shift = model, shift

    def __call__(self, points):
        return self.model(points).detach() + self.shift

    def reset(self):
        pass


def model():
    torch.manual_seed(0)
    sizes = dict(width=48, depth=2, heads=4, groups=16, group_size=8)
    return pg.create_backbone("point_mae", classes=5, **sizes).eval()

number = 3
'''
RECIPE = """
title = "own"
dataset = "toy"
methods = [
  "source", "source_bn", "mymethods:Softened", {{ name = "mymethods:Plain", options = {{ shift = 1.5 }} }}
]
weights = ["{weights}"]
corruptions = ["uniform"]
severities = [1]
batches = [4]
points = 64
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module of methods, data and weights, in which commands are run."""
    (tmp_path / "mymethods.py").write_text(MODULE)
    pg.save_backbone(small_model(), tmp_path / "small.safetensors", class_names=tuple("abcde"))
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "data_uniform_1.npy", clouds(10, 64).numpy())
    np.save(data / "label.npy", np.arange(10) % 5)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mymethods", None)


@pytest.mark.parametrize("weights", ["small.safetensors", "mymethods:model"])
def test_a_recipe_takes_methods_and_models_of_one_s_own(folder, weights):
    (folder / "own.toml").write_text(RECIPE.format(weights=weights))
    rows = run_recipe(read_recipe("own.toml"), data="data", out="rows.jsonl")
    assert [row["method"] for row in rows] == ["source", "source_bn", "mymethods:Softened", "mymethods:Plain"]
    assert rows[2]["options"] == {"temperature": 2.0, "norm": "batch"}
    assert rows[3]["options"] == {"shift": 1.5}
    assert [rows[2]["correct"], rows[3]["correct"]] == [rows[1]["correct"], rows[0]["correct"]]
    assert rows[0]["weights"] == weights
    table = to_markdown(make_tables(rows))
    assert "| Softened |" in table
    assert "Plain (shift=1.5)" in table
    for kind in ("gains", "corruptions", "cost"):
        assert PLOTS[kind](rows).axes


def test_predict_takes_methods_and_models_of_one_s_own(folder, purgegate):
    np.save("cloud.npy", clouds(1, 300)[0].numpy())
    common = "predict", "cloud.npy", "--json", "--norm", "source"
    own, plain = (
        json.loads(purgegate(*common, "--method", method, "--weights", weights).out)
        for method, weights in (("mymethods:Softened", "mymethods:model"), ("source", "small.safetensors"))
    )
    assert own["class"] in "01234"
    assert own["confidence"] < plain["confidence"]


def test_one_s_own_method_in_python_is_called_by_its_path(folder):
    own = pg.create_adapter("mymethods:Softened", small_model(), temperature=4.0)
    found = describe_adapter(own)
    assert found["method"] == "mymethods:Softened"
    assert found["given"] == {"temperature": 4.0}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mymethods:Missing",
            "mymethods has no Missing; it has Method, Plain, Softened, model, number",
        ),
        ("nowhere.at:All", "nowhere.at:All cannot be imported"),
        ("mymethods:number", "must be a class or function that takes a model; got int"),
        ("mymethods:model", "model() takes 0 positional arguments|takes no"),
        ("soften", "must be one of source, .* or package.module:Name; got 'soften'"),
    ],
)
def test_what_is_no_method_says_why(folder, name, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("()", r"\(\)")):
        pg.create_adapter(name, small_model())


def test_options_of_one_s_own_are_checked(folder):
    with pytest.raises(
        ValueError, match="mymethods:Softened has the options temperature, norm, seed; got heat"
    ):
        pg.create_adapter("mymethods:Softened", small_model(), heat=3)


def test_an_entry_is_all_that_a_new_method_needs(folder, monkeypatch):
    sys.path.insert(0, str(folder))
    try:
        from mymethods import Softened
    finally:
        sys.path.remove(str(folder))
    monkeypatch.setitem(METHODS, "softened", Described(Softened, "Softened", kind="ours"))
    text = RECIPE.replace("mymethods:Softened", "softened").replace("mymethods:Plain", "softened")
    (folder / "own.toml").write_text(
        text.replace("shift = 1.5", "temperature = 3.0").format(weights="small.safetensors")
    )
    rows = run_recipe(read_recipe("own.toml"), data="data", out="rows.jsonl")
    assert [row["method"] for row in rows[2:]] == ["softened"] * 2
    assert "Softened (temperature=3.0)" in to_markdown(make_tables(rows))


def test_workers_find_one_s_own_methods(folder):
    (folder / "own.toml").write_text(RECIPE.format(weights="small.safetensors"))
    command = ["bench", "own.toml", "--data", "data", "--out", "two.jsonl", "--workers", "2"]
    run = subprocess.run(
        [sys.executable, "-m", "purgegate", *command], capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    alone = run_recipe(read_recipe("own.toml"), data="data", out="one.jsonl")
    both = [json.loads(line) for line in (folder / "two.jsonl").read_text().splitlines()]
    assert {(row["method"], row["correct"]) for row in both} == {
        (row["method"], row["correct"]) for row in alone
    }
