"""`purgegate plot` as a person types it."""

import numpy as np
import pytest

import purgegate as pg
from purgegate.io.results import append_rows
from tests.models import clouds, small_model
from tests.report.rows import full, row


@pytest.fixture
def results(tmp_path):
    sizes = [row("pg_sp", options={"purge": [size]}) for size in range(4)]
    append_rows(
        tmp_path / "results.jsonl", full("source") + full("source_bn") + full("source", batch=8) + sizes
    )
    return tmp_path / "results.jsonl"


@pytest.fixture
def model(tmp_path):
    made = small_model()
    pg.save_backbone(made, tmp_path / "model.safetensors")
    pg.SourceStatistics.collect(made, [clouds(4)]).save(tmp_path / "stats.safetensors")
    np.savez(
        tmp_path / "clouds.npz",
        points=clouds(3, 2048).numpy(),
        label=np.array([0, 1, 1]),
        classes=["cup", "jug"],
    )
    return tmp_path


@pytest.mark.parametrize("kind", ["sweep", "batch_size", "batchnorm", "cost", "corruptions", "gains"])
def test_results_are_drawn(purgegate, results, tmp_path, kind: str):
    out = tmp_path / "deep" / "plot.png"
    run = purgegate("plot", kind, results, "--out", out)
    assert run.code == 0, run.err
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_rows_of_several_files_are_drawn_together(purgegate, results, tmp_path):
    lines = results.read_text().splitlines(keepends=True)
    parts = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    parts[0].write_text("".join(lines[::2]))
    parts[1].write_text("".join(lines[1::2]))
    pictures = [tmp_path / "whole.png", tmp_path / "parts.png"]
    for picture, files in zip(pictures, ([results], parts), strict=True):
        assert purgegate("plot", "cost", *files, "--out", picture).code == 0
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    run = purgegate("plot", "training", *parts, "--out", tmp_path / "log.png")
    assert run.code == 2
    assert "drawn from one source" in run.err


def test_a_log_is_drawn(purgegate, tmp_path):
    (tmp_path / "log.csv").write_text("epoch,loss,class_loss,train_accuracy\n1,2.0,2.0,0.5\n")
    run = purgegate("plot", "training", tmp_path / "log.csv", "--out", tmp_path / "log.svg")
    assert run.code == 0, run.err
    assert "<svg" in (tmp_path / "log.svg").read_text()


def test_an_object_is_drawn_with_its_token_shift(purgegate, model):
    options = ("--weights", model / "model.safetensors", "--statistics", model / "stats.safetensors",
               "--index", 2, "--corruption", "impulse", "--out", model / "shift.png")  # fmt: skip
    run = purgegate("plot", "token_shift", model / "clouds.npz", *options)
    assert run.code == 0, run.err
    assert (model / "shift.png").stat().st_size > 10_000


def test_flatness_is_drawn_and_printed(purgegate, model):
    options = ("--weights", model / "model.safetensors", "--clouds", 2, "--corruption", "uniform",
               "--severity", 2, "--out", model / "flat.png")  # fmt: skip
    run = purgegate("plot", "attention", model / "clouds.npz", *options)
    assert run.code == 0, run.err
    printed = [line.split(",")[:2] for line in run.out.splitlines()[:3]]
    assert printed == [["uniform", "0"], ["uniform", "1"], ["uniform", "2"]]
    assert (model / "flat.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["sweep", "none.jsonl", "--out", "a.png"], "none.jsonl must hold result rows"),
        (["sweep", "none.jsonl", "--out", "a.bmp"], "must end in .png or .svg or .pdf"),
        (["training", "none.csv", "--out", "a.png"], "none.csv is missing"),
        (["token_shift", "shapes", "--out", "a.png", "--weights", "none.pth"], "none.pth is missing"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(purgegate, arguments, reason: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = purgegate("plot", *arguments)
    assert run.code == 2
    assert reason in run.err
    assert run.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_is_not_there_is_named(purgegate, model):
    options = ("--weights", model / "model.safetensors", "--statistics", model / "stats.safetensors",
               "--index", 3, "--out", model / "shift.png")  # fmt: skip
    run = purgegate("plot", "token_shift", model / "clouds.npz", *options)
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert "numbers from 0 to 2; got [3]" in run.err
