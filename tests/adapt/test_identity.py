"""A method is a described value: one thing has one row, and what is really run decides which."""

import ast
import inspect
from pathlib import Path

import pytest
import torch

import purgegate as pg
from purgegate.adapt import METHODS, describe_adapter
from purgegate.evaluate import name_adapter
from tests.models import clouds, joint_model, small_model

PACKAGE = Path(pg.__file__).parent

# Other values of options that have no obvious neighbour.
OTHERS = {
    "norm": "source",
    "select": "batch",
    "purge": (0, 1),
    "variant": "simple",
    "learn": "norm",
    "filter_k": 7,
    "samples": 7,
    "steps": 2,
    "repeats": {"encoder": 2},
    "axis": 1,
    "stages": ("strays",),
    "classifier": "t3a",
    "views": 1,
    "affinity": "knn",
    "memory": 0.5,
    "population": 8,
}
FED = ("model", "statistics", "source", "encoder", "seed")


def make(name: str, model):
    """The method with its defaults and what it cannot do without."""
    needs = {}
    if "statistics" in METHODS[name].needs:
        needs["statistics"] = pg.SourceStatistics.collect(model, [clouds(8, seed=5)])
    if "source" in METHODS[name].needs:
        needs["source"] = clouds(10, 128, seed=6), torch.arange(10) % 5
    return pg.create_adapter(name, model, **needs)


def other(name: str, value):
    if name in OTHERS:
        return OTHERS[name] if value != OTHERS[name] else "blend"
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else 2 * value + 1e-3


def test_every_way_to_one_method_is_one_identity():
    model = small_model(groups=40)
    statistics = pg.SourceStatistics.collect(model, [clouds(8)])
    defaults = METHODS["pg_sp"].options | {"statistics": statistics}
    ways = [
        pg.create_adapter("pg_sp", model, statistics=statistics),
        pg.create_adapter("pg_sp", model, **defaults),
        pg.PurgeGate(model, pg.SourceDistance(statistics)),
        pg.PurgeGate(model, pg.SourceDistance(statistics), purge=[0, 2, 4, 8, 16, 32], norm="batch"),
    ]
    found = [describe_adapter(adapter) for adapter in ways]
    assert all(each == found[0] for each in found)
    assert found[0]["method"] == "pg_sp"
    assert found[0]["given"] == {}


def test_two_names_of_one_thing_are_one():
    model = small_model()
    control = [pg.create_adapter("source_bn", model), pg.create_adapter("source", model, norm="batch")]
    assert [describe_adapter(each)["method"] for each in control] == ["source_bn"] * 2
    assert describe_adapter(control[0]) == describe_adapter(control[1])
    back = describe_adapter(pg.create_adapter("source_bn", model, norm="source"))
    assert back == describe_adapter(pg.create_adapter("source", model))


OPTIONS = [
    (name, option)
    for name, method in METHODS.items()
    for option in method.options
    if option not in (*FED, *method.preset)
]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_changed_default_is_a_new_measurement(name: str, option: str, monkeypatch):
    model, entry = joint_model(groups=40), METHODS[name]
    before = name_adapter(make(name, model), seed=0)
    made = inspect.unwrap(entry.make.__init__ if inspect.isclass(entry.make) else entry.make)
    monkeypatch.setitem(made.__kwdefaults__, option, other(option, made.__kwdefaults__[option]))
    after = name_adapter(make(name, model), seed=0)
    assert (before["method"], before["options"]) != (after["method"], after["options"])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_described(name: str):
    method, adapter = METHODS[name], make(name, joint_model(groups=40))
    assert method.title
    assert method.look
    assert describe_adapter(adapter)["method"] == name
    assert describe_adapter(adapter)["options"].keys() <= method.options.keys()


def test_no_other_module_knows_a_method_by_name():
    words = METHODS.keys() - {"source"}  # which is a norm, too
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] == "adapt":
            continue
        texts = {
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        assert not texts & words, path
