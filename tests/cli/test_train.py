"""`purgegate train` as a person types it."""

import numpy as np
import pytest

import purgegate as pg
from purgegate.io.checkpoints import read_checkpoint
from tests.models import clouds
from tests.train.sets import box_model, boxes


@pytest.fixture
def package(tmp_path):
    data = boxes(12)
    whole = {"points": data.points, "label": data.label, "classes": np.array(data.classes)}
    np.savez(tmp_path / "boxes.npz", split=np.arange(12) // 9, **whole)
    return tmp_path / "boxes.npz"


@pytest.fixture
def start(tmp_path):
    """A small model to begin with, and the options of a short run."""
    pg.save_backbone(box_model(), tmp_path / "start.safetensors")
    return ["--init", tmp_path / "start.safetensors", "--batch", 4, "--pool", 80, "--no-augment"]


@pytest.mark.parametrize("objective", ["joint", "masked", "skeleton"])
def test_the_commands_train_resume_and_evaluate(purgegate, package, start, tmp_path, objective: str):
    runs = [
        purgegate("train", objective, package, *start, "--epochs", 2, "--out", tmp_path / "run")
        for _ in range(2)
    ]
    assert [run.code for run in runs] == [0, 0]
    assert "weights.safetensors" in runs[0].out
    assert [run.err.count("epoch 1:") for run in runs] == [1, 0]
    weights = tmp_path / "run" / "weights.safetensors"
    command = read_checkpoint(weights).metadata["training"]["command"]
    assert command.startswith(f"purgegate train {objective} boxes.npz --init start.safetensors")
    assert str(tmp_path) not in command
    tested = purgegate("train", "evaluate", weights, package)
    assert tested.code == 0
    assert "of 3 right" in tested.out


@pytest.mark.parametrize("objective", ["supervised", "rotation"])
def test_a_backbone_of_another_family_is_trained_stored_and_opened_again(
    purgegate, package, tmp_path, objective: str
):
    sizes = ("width=24", "depth=1", "groups=16", "group_size=8", "points=64")
    common = ["--backbone", "point_mamba_tiny", *(word for size in sizes for word in ("--size", size))]
    numbers = ["--epochs", 1, "--batch", 4, "--pool", 80, "--out", tmp_path / "run"]
    assert purgegate("train", objective, package, *common, *numbers).code == 0
    path = tmp_path / "run" / "weights.safetensors"
    model = pg.load_backbone(path)
    assert type(model).__name__ == "PointMamba"
    assert (model.width, model.groups, model.group_size, model.points) == (24, 16, 8, 64)
    assert model.class_names == ("cube", "bar", "plate")
    assert list(model.auxiliary) == ["rotation"] * (objective == "rotation")
    for variant in "ab":
        statistics = pg.SourceStatistics.from_weights(path, variant=variant)
        gate = pg.create_adapter("pg_sp", model, statistics=statistics, purge=(0, 2))
        assert gate(clouds(4, 64)).shape == (4, 3)


def test_the_bundled_weights_are_listed_with_their_commands(purgegate):
    run = purgegate("train", "list")
    assert run.code == 0
    assert all(f"| `{name}` |" in run.out for name in pg.list_weights())
    assert "purgegate train supervised shapes" in run.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "width=big"), "NAME=NUMBER, such as width=96; got 'width=big'"),
        (("--size", "widht=96"), "points; got widht"),
        (("--test-every", 0), "--test-every"),
    ],
)
def test_numbers_that_cannot_be_are_refused(purgegate, package, tmp_path, words, message: str):
    run = purgegate("train", "supervised", package, *words, "--out", tmp_path / "run")
    assert run.code == 2
    assert message in run.err


def test_clouds_of_the_training_are_no_test_set(purgegate, tmp_path):
    np.savez(tmp_path / "whole.npz", points=boxes(6).points, label=boxes(6).label)
    run = purgegate("train", "supervised", tmp_path / "whole.npz", "--out", tmp_path / "run")
    assert run.code == 2
    assert "give a test set of other clouds with --test" in run.err


def test_a_test_set_of_other_classes_is_refused(purgegate, package, tmp_path):
    other = tmp_path / "other.npz"
    np.savez(other, points=boxes(3).points, label=np.zeros(3, dtype=int), classes=np.array(["cone"]))
    run = purgegate("train", "supervised", package, "--test", other, "--out", tmp_path / "run")
    assert run.code == 2
    assert "must have the same classes" in run.err


def test_weights_are_not_tested_on_other_classes(purgegate, package):
    run = purgegate("train", "evaluate", "point_mae_tiny.shapes", package)
    assert run.code == 2
    assert "has other classes than the model" in run.err


def test_clouds_without_labels_are_not_counted(purgegate, tmp_path):
    np.save(tmp_path / "unlabelled.npy", boxes(3).points[:1])
    run = purgegate("train", "evaluate", "point_mae_tiny.shapes", tmp_path / "unlabelled.npy")
    assert run.code == 2
    assert "needs a label" in run.err


def test_a_folder_is_resumed_by_the_same_objective_alone(purgegate, package, start, tmp_path):
    common = [package, *start, "--epochs", 1, "--out", tmp_path / "run"]
    assert purgegate("train", "rotation", *common).code == 0
    run = purgegate("train", "masked", *common)
    assert run.code == 2
    assert "belongs to a run with another objective" in run.err
