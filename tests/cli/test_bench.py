"""`purgegate bench --plan`: what a recipe would cost."""

import numpy as np
import pytest

from purgegate.io.results import append_rows
from tests.models import clouds
from tests.report.rows import row

RECIPE = """
title = "toy"
dataset = "toy"
methods = ["source", "tent", "random_purge"]
weights = ["tiny"]
corruptions = ["uniform", "shear"]
severities = [1]
seeds = [0, 1]
"""


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "toy.toml").write_text(RECIPE)
    for name in ("uniform", "shear"):
        np.save(tmp_path / f"data_{name}_1.npy", clouds(9, 64).numpy())
    np.save(tmp_path / "label.npy", np.arange(9) % 5)
    return tmp_path


def test_a_plan_tells_cells_clouds_and_hours_and_runs_nothing(purgegate, toy):
    costs, out = toy / "costs.jsonl", toy / "rows.jsonl"
    hour = {"seconds": 3600.0, "total": 9, "weights": "tiny"}  # for one cell
    append_rows(costs, [row("source", **hour), row("tent", **hour | {"seconds": 7200.0})])
    command = ("bench", toy / "toy.toml", "--data", toy, "--out", out, "--plan", "--workers", 3)
    run = purgegate(*command, "--costs", costs)
    assert run.code == 0, run.err
    lines = [line.split() for line in run.out.splitlines()]
    assert ["source", "4", "36", "4.00"] in lines
    assert ["tent", "4", "36", "8.00"] in lines
    assert ["random_purge", "4", "36", "unknown"] in lines
    assert ["in", "all", "12", "108", "12.00"] in lines
    assert "the longest unit, which no number of workers shortens: 2.0 hours" in run.out
    assert "on 1 worker of one thread: 12.0 hours" in run.out
    assert "on 3 workers of one thread: 4.0 hours" in run.out
    assert "on 16 workers of one thread: 2.0 hours" in run.out
    assert "for want of a row that tells their cost: random_purge" in run.out
    assert not out.exists()


def test_without_rows_of_its_own_a_plan_takes_the_package_s(purgegate, toy):
    run = purgegate("bench", toy / "toy.toml", "--data", toy, "--out", toy / "rows.jsonl", "--plan")
    assert run.code == 0, run.err
    assert "on 1 worker of one thread: 0.0 minutes" in run.out
