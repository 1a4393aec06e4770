"""However often a run is killed, it ends as one that was not: no row lost or doubled, no byte, no weight."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.io.checkpoints import read_checkpoint
from purgegate.io.results import key_of
from tests.models import clouds, small_model
from tests.train.sets import box_model, boxes

KILLS = int(os.environ.get("PURGEGATE_KILLS", "5"))
ROOT = Path(__file__).resolve().parents[2]
RECIPE = """
title = "toy"
dataset = "toy"
methods = ["source", "source_bn", {{ name = "pg_sf", options = {{ purge = [0, 2] }} }}]
weights = ["{weights}"]
corruptions = ["uniform", "shear"]
severities = [1]
seeds = [0, 1]
batches = [4]
points = 64
"""
MEASURED = ("seconds", "memory", "threads")

Run = Callable[..., list[int]]


@pytest.fixture(scope="module")
def run() -> Run:
    """Run commands side by side, each killed after some seconds if any are given."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kills.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, **threads},
    ) as server:

        def ask(*commands: list[Any], seconds: float | None = None) -> list[int]:
            server.stdin.write(json.dumps([[list(map(str, each)) for each in commands], seconds]) + "\n")
            server.stdin.flush()
            return json.loads(server.stdout.readline())

        yield ask
        server.stdin.close()


def survives(run: Run, command: list[Any], folder: Path, ended: Callable[[Path], Any]) -> None:
    """Kill a command at random times, and take it up again each time, until it was killed often enough."""
    whole = folder / "whole"
    for _ in range(2):  # the first one reads code from the disk, and takes longer than any other
        remove(whole)
        start = time.monotonic()
        assert run([*command, whole]) == [0]
        duration = time.monotonic() - start
    wanted = ended(whole)
    generator, kills, broken = random.Random(str(command)), 0, folder / "broken"
    while kills < KILLS:
        code = run([*command, broken], seconds=generator.uniform(0, duration))
        assert code in ([0], [-signal.SIGKILL])
        kills += code != [0]
        if code == [0]:  # it was quicker than its end: begin anew
            assert ended(broken) == wanted
            remove(broken)
    assert run([*command, broken]) == [0]
    assert ended(broken) == wanted


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def rows_of(path: Path) -> list[dict]:
    """The lines of a file of rows without what is measured anew each time, sorted."""
    assert path.read_bytes().endswith(b"\n")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({key_of(row) for row in rows}) == len(rows), "a row is doubled"
    facts = [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]
    return sorted(facts, key=key_of)


@pytest.fixture
def toy(tmp_path: Path) -> list[Any]:
    """The command of a bench of 12 cells."""
    weights, data = tmp_path / "small.safetensors", tmp_path / "data"
    pg.save_backbone(small_model(), weights, class_names=tuple("abcde"))
    data.mkdir()
    for seed, name in enumerate(("uniform", "shear")):
        np.save(data / f"data_{name}_1.npy", clouds(10, 64, seed=seed).numpy())
    np.save(data / "label.npy", np.arange(10) % 5)
    (tmp_path / "toy.toml").write_text(RECIPE.format(weights=weights))
    return ["bench", tmp_path / "toy.toml", "--data", data, "--out"]


def test_a_killed_bench_loses_and_doubles_no_row(run: Run, toy, tmp_path: Path):
    survives(run, toy, tmp_path, rows_of)
    assert len(rows_of(tmp_path / "whole")) == 12
    assert not list(tmp_path.glob(".*.lock"))


def test_two_benches_on_one_file_double_no_row(run: Run, toy, tmp_path: Path):
    codes = run([*toy, tmp_path / "rows.jsonl"], [*toy, tmp_path / "rows.jsonl"])
    assert sorted(codes) in ([0, 2], [0, 0])  # the second is refused, or the first was quick
    assert len(rows_of(tmp_path / "rows.jsonl")) == 12


def test_a_bench_does_not_add_to_a_foreign_file(purgegate, toy, tmp_path: Path):
    (tmp_path / "settings.json").write_text('{"colour": "blue"}\n')
    refused = purgegate(*toy, tmp_path / "settings.json")
    assert refused.code == 2
    assert "settings.json is no file of rows" in refused.err
    assert (tmp_path / "settings.json").read_text() == '{"colour": "blue"}\n'


def test_a_killed_build_ends_in_the_same_bytes(run: Run, tmp_path: Path):
    np.savez(tmp_path / "clean.npz", points=clouds(6, 1000).numpy(), label=np.arange(6) % 3)
    options = ["--points", 500, "--severity", 1, "--severity", 2]
    survives(run, ["corrupt", tmp_path / "clean.npz", *options], tmp_path, contents)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, hidden ones too."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_killed_training_ends_in_the_same_weights(run: Run, tmp_path: Path):
    data = boxes(12)
    whole = {"points": data.points, "label": data.label, "classes": np.array(data.classes)}
    np.savez(tmp_path / "boxes.npz", split=np.arange(12) // 9, **whole)
    pg.save_backbone(box_model(), tmp_path / "start.safetensors")
    command = ["train", "supervised", tmp_path / "boxes.npz", "--init", tmp_path / "start.safetensors"]
    numbers = ["--batch", 4, "--pool", 80, "--epochs", 4, "--threads", 1, "--out"]
    survives(run, [*command, *numbers], tmp_path, weights_of)


def weights_of(folder: Path) -> tuple[list[tuple[str, bytes]], Any]:
    """Every weight to the last bit, and the statistics that go with them."""
    state, metadata = read_checkpoint(folder / "weights.safetensors")
    assert all(torch.isfinite(value).all() for value in state.values())
    return [(key, value.numpy().tobytes()) for key, value in sorted(state.items())], metadata["statistics"]
