"""Files of finished runs: their weights, statistics and facts, and names of bundled ones."""

import pytest
import torch

import purgegate as pg
from purgegate.fingerprints import state_fingerprint
from purgegate.gate.statistics import SourceStatistics
from purgegate.io import bundled
from purgegate.io.bundled import list_weights
from purgegate.io.checkpoints import read_checkpoint
from purgegate.train.data import farthest_first
from purgegate.train.export import export, rounded
from purgegate.train.loop import accuracy, count_correct, fit
from tests.models import clouds
from tests.train.sets import box_model, boxes, examples, new_run

FACTS = {"data": "boxes", "objectives": ["class"], "command": "purgegate train supervised boxes"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    run = new_run(objectives=("masked", "rotation", "skeleton"), epochs=4)
    fit(run, examples(48), out=out)
    held_out = examples(30, seed=1)
    names = boxes(1).classes
    export(
        run,
        out / "small.boxes.safetensors",
        examples=examples(48),
        test=held_out,
        class_names=names,
        facts=FACTS,
    )
    return run, out / "small.boxes.safetensors", held_out


def test_a_file_holds_the_rounded_model_and_its_modules(finished):
    run, path, _ = finished
    model = pg.load_backbone(path)
    assert set(model.auxiliary) == {"masked", "rotation", "skeleton"}
    expected = rounded(run.model).state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in model.state_dict().items())
    assert model.class_names == ("cube", "bar", "plate")


def test_the_accuracy_of_a_file_is_that_of_its_weights(finished):
    _, path, held_out = finished
    facts = read_checkpoint(path).metadata["training"]
    assert facts["correct"] / facts["total"] == accuracy(pg.load_backbone(path), held_out)


@pytest.mark.parametrize("variant", ["a", "b"])
def test_stored_statistics_belong_to_the_stored_weights(finished, variant):
    _, path, _ = finished
    model = pg.load_backbone(path)
    statistics = SourceStatistics.from_weights(path, variant=variant)
    statistics.check(model)
    assert statistics.count == {"a": 48, "b": 8}[variant] * model.groups
    gate = pg.PurgeGate(model, pg.SourceDistance(statistics), purge=(0, 2))
    assert gate(clouds(4, 64)).shape == (4, 3)


def test_gathered_and_collected_statistics_are_close(finished):
    _, path, _ = finished
    a, b = (SourceStatistics.from_weights(path, variant=variant) for variant in "ab")
    assert (a.mean - b.mean).norm() / a.mean.norm() < 0.2
    assert ((a.std - b.std) / a.std).abs().mean() < 0.2


def test_weights_without_statistics_say_so(tmp_path):
    pg.save_backbone(box_model(), tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="must hold the statistics 'b'; it has none: make them with"):
        SourceStatistics.from_weights(tmp_path / "model.safetensors")


def test_bundled_weights_are_found_by_name(finished, monkeypatch):
    run, path, _ = finished
    monkeypatch.setattr(bundled, "FOLDER", path.parent)
    listed = list_weights()["small.boxes"]
    assert listed.command == FACTS["command"]
    assert listed.recipe["epochs"] == 4
    assert 0 <= listed.accuracy <= 1
    assert listed.classes == ("cube", "bar", "plate")
    loaded = pg.load_backbone("small.boxes")
    assert state_fingerprint(loaded.state_dict()) == state_fingerprint(rounded(run.model).state_dict())


def test_an_unknown_name_is_answered_with_the_known_ones(finished, monkeypatch):
    monkeypatch.setattr(bundled, "FOLDER", finished[1].parent)
    with pytest.raises(FileNotFoundError, match=r"nothing is missing: give the path .* one of small\.boxes"):
        pg.load_backbone("nothing")


def test_what_is_bundled_is_small_and_whole():
    sizes = [path.stat().st_size for path in bundled.FOLDER.glob("*.safetensors")]
    assert all(size <= 8_000_000 for size in sizes)
    assert sum(sizes) <= 40_000_000
    assert all(path.stat().st_size <= 46_000_000 for path in bundled.LARGE.glob("*.safetensors"))
    for name, weights in list_weights().items():
        model = pg.load_backbone(name)
        assert model.class_names == weights.classes
        for variant in "ab":
            SourceStatistics.from_weights(name, variant=variant).check(model)


def test_the_bundled_models_know_their_test_clouds():
    least = {
        "point_mae_tiny.modelnet40": 0.90,
        "point_mae_tiny.modelnet40_plain": 0.86,
        "point_mae_tiny.modelnet40_joint": 0.84,
        "point_mae_tiny.shapes": 0.95,
        "point_mamba_tiny.modelnet40": 0.88,
        "point_mae.modelnet40_plain": 0.88,
    }
    for name, weights in list_weights().items():
        assert weights.accuracy >= least[name]


def test_the_bundled_shapes_are_those_its_model_was_tested_on():
    weights = list_weights()["point_mae_tiny.shapes"]
    model = pg.load_backbone("point_mae_tiny.shapes")
    held_out = farthest_first(pg.load_dataset("shapes"), model.points)
    assert len(held_out) == weights.total
    # Another processor may answer a cloud or two on the edge otherwise.
    assert count_correct(model, held_out) == pytest.approx(weights.accuracy * weights.total, abs=2)


def test_statistics_gathered_in_training_lie_close_to_those_of_one_pass():
    for name in list_weights():
        a, b = (pg.SourceStatistics.from_weights(name, variant=variant) for variant in "ab")
        assert (a.mean - b.mean).norm() < 0.02 * a.mean.norm()
        assert ((a.std - b.std).abs() < 0.02 * a.std).all()
