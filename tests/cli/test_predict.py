import json

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.points.transforms import swap_up
from tests.models import clouds, small_model

SOURCE = "--method", "source"
SHAPES = "--weights", "point_mae_tiny.shapes"


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "small.safetensors"
    pg.save_backbone(small_model(groups=64), path, class_names=tuple("abcde"))
    return path


@pytest.fixture
def files(tmp_path):
    paths = []
    for number, cloud in enumerate(clouds(3, 300)):
        paths.append(tmp_path / f"cloud{number}.npy")
        np.save(paths[-1], 100 + 7 * cloud.numpy())
    return paths


def test_statistics_then_predictions(purgegate, tmp_path, weights, files):
    np.savez(
        tmp_path / "clean.npz", points=clouds(8, 300).numpy(), label=np.zeros(8, dtype=int), classes=["a"]
    )
    code, out, _ = purgegate("statistics", weights, tmp_path / "clean.npz", tmp_path / "source.safetensors")
    assert code == 0
    assert "512 tokens of 8 clouds" in out
    code, out, _ = purgegate(
        "predict", *files, "--weights", weights, "--statistics", tmp_path / "source.safetensors", "--json"
    )
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["file"] for row in rows] == [str(path) for path in files]
    assert {row["class"] for row in rows} <= set("abcde")
    assert all(0.2 <= row["confidence"] <= 1 and row["shift"] > 0 for row in rows)


@pytest.mark.parametrize("options", [(), ("--after-block",)])
def test_the_gate_by_source_statistics(purgegate, tmp_path, weights, files, options):
    np.savez(tmp_path / "clean.npz", points=clouds(8, 300).numpy(), label=np.zeros(8, dtype=int))
    statistics = tmp_path / "source.safetensors"
    assert purgegate("statistics", weights, tmp_path / "clean.npz", statistics, *options).code == 0
    run = purgegate(
        *("predict", *files, "--weights", weights, "--method", "pg_sp", "--statistics", statistics, "--json")
    )
    assert run.code == 0, run.err
    rows = [json.loads(line) for line in run.out.splitlines()]
    assert {row["purged"] for row in rows} <= {0, 2, 4, 8, 16, 32}
    assert all(row["shift"] > 0 for row in rows)


def test_files_with_y_up_are_turned(purgegate, weights, tmp_path):
    cloud = clouds(1, 300)[0].numpy() * [1, 2, 3]
    np.save(tmp_path / "z.npy", cloud)
    np.save(tmp_path / "y.npy", swap_up(cloud))
    common = ("--weights", weights, *SOURCE, "--json")
    upright = purgegate("predict", tmp_path / "z.npy", *common)
    turned, lying = (purgegate("predict", tmp_path / "y.npy", *common, "--up", up) for up in "yz")
    assert [run.code for run in (upright, turned, lying)] == [0, 0, 0]
    sure, same, other = (json.loads(run.out)["confidence"] for run in (upright, turned, lying))
    assert same == pytest.approx(sure, rel=1e-5)
    assert other != pytest.approx(sure, rel=1e-3)


def test_predictions_without_source_data_as_a_table(purgegate, weights, files):
    code, out, _ = purgegate("predict", files[0], "--weights", weights, "--method", "pg_sf")
    assert code == 0
    assert "confidence" in out


@pytest.mark.parametrize("method", ["pg_auto", "source"])
def test_all_but_the_papers_gate_need_no_source_data(purgegate, weights, files, method: str):
    code, out, error = purgegate("predict", *files, "--weights", weights, "--method", method, "--json")
    assert code == 0, error
    assert len(out.splitlines()) == len(files)


def test_the_source_model_is_the_source_model_however_many_files(purgegate, weights, files):
    answers = [
        json.loads(
            purgegate("predict", *some, "--weights", weights, "--method", "source", "--json")[1].splitlines()[
                0
            ]
        )
        for some in (files, files[:1])
    ]
    assert answers[0]["confidence"] == pytest.approx(answers[1]["confidence"], rel=1e-5)


def test_missing_statistics_name_the_way_out(purgegate, weights, files):
    code, _, error = purgegate("predict", files[0], "--weights", weights, "--method", "pg_sp")
    assert code == 2
    assert "statistics" in error
    assert error.count("\n") == 1


def test_a_bad_cloud_is_one_line_and_exit_code_two(purgegate, tmp_path, weights):
    np.save(tmp_path / "bad.npy", np.full((10, 3), np.nan))
    code, _, error = purgegate("predict", tmp_path / "bad.npy", "--weights", weights, "--method", "pg_sf")
    assert code == 2
    assert "bad.npy" in error
    assert "--drop-invalid" in error
    assert error.count("\n") == 1


def test_one_bad_file_does_not_cost_the_answers_of_the_others(purgegate, tmp_path, weights, files):
    holes = np.load(files[0])
    holes[::7] = np.nan
    np.save(tmp_path / "holes.npy", holes)
    run = purgegate("predict", files[0], tmp_path / "holes.npy", files[1], "--weights", weights, "--json")
    assert run.code == 2
    assert [json.loads(line)["file"] for line in run.out.splitlines()] == [str(path) for path in files[:2]]
    assert "holes.npy" in run.err
    run = purgegate("predict", tmp_path / "holes.npy", "--weights", weights, "--json", "--drop-invalid")
    assert (run.code, len(run.out.splitlines())) == (0, 1)


@pytest.mark.parametrize("cloud", [np.eye(3), np.ones((2000, 3))])
def test_a_few_distinct_points_are_no_object(purgegate, tmp_path, weights, cloud):
    np.save(tmp_path / "few.npy", cloud)
    run = purgegate("predict", tmp_path / "few.npy", "--weights", weights)
    assert run.code == 2
    assert "few.npy: a cloud needs at least 8 distinct points" in run.err


def test_files_of_like_objects_are_answered_rightly_together_and_alone(purgegate, tmp_path):
    data = pg.load_dataset("shapes")
    like = data.points[data.label == data.label[0]][:8]
    for place, cloud in enumerate(like):
        np.save(tmp_path / f"{place}.npy", cloud)
    files = [tmp_path / f"{place}.npy" for place in range(len(like))]
    together = purgegate("predict", tmp_path, *SHAPES, "--json").out.splitlines()
    alone = [purgegate("predict", file, *SHAPES, "--json").out.strip() for file in files[:2]]
    assert len(together) == 8
    for row in map(json.loads, [*together, *alone]):
        assert row["class"] == data.classes[data.label[0]]
        assert row["confidence"] > 0.5


def test_the_answer_does_not_depend_on_place_and_scale(purgegate, tmp_path, weights, files):
    np.save(tmp_path / "moved.npy", 5 - 3 * -np.load(files[0]))
    answers = []
    for path in (files[0], tmp_path / "moved.npy"):
        _, out, _ = purgegate("predict", path, "--weights", weights, "--method", "pg_sf", "--json")
        answers.append(json.loads(out)["confidence"])
    assert torch.isclose(*map(torch.tensor, answers), atol=1e-3)


def test_strays_far_away_are_purged_before_the_object_is_scaled(purgegate, tmp_path):
    cloud = pg.load_dataset("shapes").points[0, :1024]
    far = np.random.default_rng(0).uniform(-30, 30, (10, 3)).astype(np.float32)
    np.save(tmp_path / "clean.npy", cloud)
    np.save(tmp_path / "stray.npy", np.concatenate([cloud, far]))
    files = tmp_path / "clean.npy", tmp_path / "stray.npy"
    _, out, _ = purgegate("predict", *files, *SHAPES, "--norm", "source", "--json")
    clean, stray = map(json.loads, out.splitlines())
    assert clean["purged"] == 0
    assert 10 <= stray["purged"] <= 13  # when in doubt, a few of the object too
    assert stray["class"] == clean["class"]
    assert stray["confidence"] == pytest.approx(clean["confidence"], abs=0.02)


@pytest.mark.parametrize("strays", [8, 1])
def test_a_few_strays_among_many_points_are_purged_before_scaling_too(purgegate, tmp_path, strays: int):
    cloud = pg.load_dataset("shapes").points[0].copy()
    np.save(tmp_path / "clean.npy", cloud)
    cloud[:strays] *= 50
    np.save(tmp_path / "stray[bold].npy", cloud)
    files = tmp_path / "clean.npy", tmp_path / "stray[bold].npy"
    _, out, _ = purgegate("predict", *files, *SHAPES, "--norm", "source", "--json")
    clean, stray = map(json.loads, out.splitlines())
    assert strays <= stray["purged"] <= strays + 5
    assert stray["class"] == clean["class"]
    assert stray["confidence"] == pytest.approx(clean["confidence"], abs=0.05)
    _, out, _ = purgegate("predict", *files, *SHAPES)
    assert "[bold].npy" in "".join(line.split("│")[1].strip() for line in out.splitlines() if "│" in line)


def test_no_more_points_are_purged_than_a_file_has(purgegate, tmp_path, weights):
    generator = np.random.default_rng(0)
    few = np.concatenate([generator.normal(size=(38, 3)), generator.uniform(30, 90, (2, 3))])
    np.save(tmp_path / "few.npy", few)
    _, out, _ = purgegate("predict", tmp_path / "few.npy", "--weights", weights, "--json")
    assert 1 <= json.loads(out)["purged"] <= 4


def test_many_points_far_from_the_origin_are_centred_exactly(purgegate, tmp_path):
    cloud = pg.load_dataset("shapes").points[0]
    many = np.repeat(cloud, 100, axis=0)
    np.save(tmp_path / "near.npy", many)
    np.save(tmp_path / "off.npy", many + np.float32(900))
    files = tmp_path / "near.npy", tmp_path / "off.npy"
    _, out, _ = purgegate("predict", *files, *SHAPES, "--method", "source", "--json")
    near, off = map(json.loads, out.splitlines())
    assert off["class"] == near["class"]
    assert off["confidence"] == pytest.approx(near["confidence"], abs=0.05)


def test_the_version_is_told(purgegate):
    assert purgegate("--version")[:2] == (0, f"{pg.__version__}\n")


def test_statistics_make_the_folder_of_their_file_before_the_work(purgegate, tmp_path, weights):
    np.savez(tmp_path / "clean.npz", points=clouds(2, 300).numpy(), label=np.zeros(2, dtype=int))
    code, _, error = purgegate(
        "statistics", weights, tmp_path / "clean.npz", tmp_path / "deep" / "s.safetensors"
    )
    assert code == 0, error
    assert pg.SourceStatistics.load(tmp_path / "deep" / "s.safetensors").count == 128
    assert purgegate("statistics", weights, tmp_path / "clean.npz", tmp_path / "s", "--batch", 0)[0] == 2


def test_statistics_overwrite_nothing_but_statistics(purgegate, tmp_path, weights):
    np.savez(tmp_path / "clean.npz", points=clouds(2, 300).numpy(), label=np.zeros(2, dtype=int))
    before = weights.read_bytes()
    for target in (weights, tmp_path):
        run = purgegate("statistics", weights, tmp_path / "clean.npz", target)
        assert run.code == 2
        assert run.err.count("\n") == 1
    assert weights.read_bytes() == before
    for _ in range(2):
        assert purgegate("statistics", weights, tmp_path / "clean.npz", tmp_path / "s.safetensors").code == 0
