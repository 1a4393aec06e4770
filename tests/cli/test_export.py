"""`purgegate export`: weights to a graph that every other command takes for weights."""

import json

import numpy as np
import pytest

import purgegate as pg
from tests.models import clouds, small_model


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "small.safetensors"
    pg.save_backbone(small_model(), path, class_names=tuple("abcde"))
    return path


def test_weights_become_a_graph_that_predicts_alike(purgegate, weights, tmp_path):
    np.save(tmp_path / "cloud.npy", clouds(1, 300)[0].numpy())
    made = purgegate("export", weights, tmp_path / "new" / "small.onnx")
    assert made.code == 0, made.err
    assert "PointMAE of 5 classes in float32" in made.out
    answers = []
    for name in (weights, tmp_path / "new" / "small.onnx"):
        run = purgegate("predict", tmp_path / "cloud.npy", "--weights", name, "--json", "--top", 5)
        assert run.code == 0, run.err
        answers.append(json.loads(run.out))
    ours, theirs = answers
    assert theirs.keys() == ours.keys()
    assert theirs["class"] == ours["class"]
    assert theirs["confidence"] == pytest.approx(ours["confidence"], abs=1e-4)


def test_statistics_of_a_file_go_into_the_graph(purgegate, weights, tmp_path):
    found = pg.SourceStatistics.collect(small_model(), [clouds(4)])
    found.save(tmp_path / "statistics.safetensors")
    run = purgegate(
        "export", weights, tmp_path / "a.onnx", "--statistics", tmp_path / "statistics.safetensors"
    )
    assert run.code == 0, run.err
    stored = pg.SourceStatistics.from_weights(tmp_path / "a.onnx")
    assert (stored.digest(), stored.fingerprint) == (found.digest(), found.fingerprint)


def test_a_graph_goes_through_a_bench(purgegate, weights, tmp_path):
    assert purgegate("export", weights, tmp_path / "a.onnx", "--precision", "int8").code == 0
    label = np.arange(6) % 5
    np.savez(tmp_path / "set.npz", points=clouds(6).numpy(), label=label, classes=np.array([*"abcde"]))
    (tmp_path / "recipe.toml").write_text(
        f"""title = "graph"
        dataset = "set"
        methods = ["source", "pg_auto"]
        weights = ["{tmp_path / "a.onnx"}"]
        corruptions = ["uniform"]
        points = 256
        batches = [3]"""
    )
    bad, results = tmp_path / "bad", tmp_path / "rows.jsonl"
    runs = [
        purgegate("corrupt", tmp_path / "set.npz", bad, "--corruption", "uniform", "--points", 256),
        purgegate("bench", tmp_path / "recipe.toml", "--data", bad, "--out", results),
    ]
    assert [run.code for run in runs] == [0, 0], [run.err for run in runs]
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    told = {(row["backbone"], row["weights"], row["precision"]) for row in rows}
    assert told == {("PointMAEGraph", "a.onnx", "int8")}


def test_what_cannot_be_exported_is_one_line(purgegate, weights, tmp_path):
    run = purgegate("export", weights, tmp_path / "small.bin")
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert "graphs are written as .onnx; got 'small.bin'" in run.err
    purgegate("export", weights, tmp_path / "a.onnx")
    run = purgegate("export", tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert "a model to export must be one of PointMAE, PointMamba; got PointMAEGraph" in run.err
