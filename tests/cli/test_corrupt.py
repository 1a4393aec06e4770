"""`purgegate corrupt` as a person types it."""

import json

import numpy as np
import pytest

from purgegate.cli.corrupt import choose_cells


@pytest.fixture
def clouds(tmp_path):
    points = np.random.default_rng(0).normal(size=(3, 256, 3)).astype(np.float32)
    np.savez(tmp_path / "clouds.npz", points=points, label=np.array([0, 1, 1]), classes=np.array(["a", "b"]))
    return tmp_path / "clouds.npz"


def test_all_means_the_corruptions_that_have_the_severity():
    assert len(choose_cells(["all"], [5])) == 15
    assert len(choose_cells(["all"], [6])) == 13
    assert len(choose_cells(["all", "uniform"], [1, 2, 2])) == 30


def test_the_command_writes_the_cells_that_are_asked_for(purgegate, clouds, tmp_path):
    dest = tmp_path / "bad"
    arguments = ("corrupt", clouds, dest, "--corruption", "uniform", "--corruption", "occlusion",
                 "--severity", 2, "--seed", 4, "--points", 200)  # fmt: skip
    run = purgegate(*arguments)
    assert run.code == 0, run.err
    assert "2 files made, 0 kept" in run.out
    assert sorted(path.name for path in dest.iterdir()) == [
        "classes.json", "data_occlusion_2.json", "data_occlusion_2.npy", "data_uniform_2.json",
        "data_uniform_2.npy", "label.npy",
    ]  # fmt: skip
    assert np.load(dest / "data_uniform_2.npy").shape == (3, 200, 3)
    assert json.loads((dest / "data_occlusion_2.json").read_text())["method"] == "hidden-point removal"
    assert "0 files made, 2 kept" in purgegate(*arguments).out


def test_what_all_leaves_out_is_said(purgegate, clouds, tmp_path):
    options = ("--points", 128, "--corruption", "all", "--severity", 6)
    run = purgegate("corrupt", clouds, tmp_path / "bad", *options)
    assert "left out: occlusion and lidar, which have no severity 6\n" in run.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--corruption", "rain"], "must be one of uniform"),
        (["--corruption", "lidar", "--severity", "6"], "lidar must lie in 1 to 5; got 6"),
        (["--severity", "9"], "must lie in 1 to 8; got 9"),
        ([], "needs clouds of at least 1024; the source has 256"),
        (["--points", "200", "--meshes", "nowhere.npz"], "nowhere.npz"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(purgegate, options, reason, clouds, tmp_path):
    run = purgegate("corrupt", clouds, tmp_path / "bad", *options)
    assert run.code == 2
    assert reason in run.err
    assert "Traceback" not in run.err
    assert run.err.count("\n") == 1


def test_cells_are_overwritten_by_workers_with_another_axis_up(purgegate, clouds, tmp_path):
    dest = tmp_path / "bad"
    common = ("corrupt", clouds, dest, "--corruption", "occlusion", "--severity", 2, "--points", 200)
    assert purgegate(*common).code == 0
    before = np.load(dest / "data_occlusion_2.npy")
    refused = purgegate(*common, "--up", "y")
    assert refused.code == 2
    assert "--overwrite" in refused.err
    run = purgegate(*common, "--up", "y", "--overwrite", "--workers", 2)
    assert run.code == 0, run.err
    assert not np.array_equal(np.load(dest / "data_occlusion_2.npy"), before)
    assert json.loads((dest / "data_occlusion_2.json").read_text())["up"] == "y"
