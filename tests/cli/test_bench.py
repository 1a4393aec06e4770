"""`purgegate bench`: what a recipe would cost, and how a run shows where it is."""

import numpy as np
import pytest

from purgegate.cli.progress import CrewColumn, crew_bar
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
    assert "other weights" not in run.out
    assert not out.exists()
    assert "on 64 workers of one thread" in purgegate(*command, "--cluster", "slurm:64").out


def test_without_rows_of_its_own_a_plan_takes_the_package_s(purgegate, toy):
    run = purgegate("bench", toy / "toy.toml", "--data", toy, "--out", toy / "rows.jsonl", "--plan")
    assert run.code == 0, run.err
    assert "on 1 worker of one thread: 0.7 seconds" in run.out
    assert "by rows of other weights, which may be of another size: source, tent; give rows" in run.out


def test_costs_that_are_not_there_are_told(purgegate, toy):
    run = purgegate("bench", toy / "toy.toml", "--data", toy, "--plan", "--costs", toy / "none.jsonl")
    assert run.code == 2
    assert "none.jsonl is missing: give rows of `purgegate bench` as --costs" in run.err


def test_a_bar_tells_the_rate_and_the_time_left_of_rows_that_take_half_an_hour():
    now = [0.0]
    bar = crew_bar()
    bar.get_time = lambda: now[0]
    task = bar.add_task("toy", total=10, workers=2, unit="rows")
    assert CrewColumn().render(bar.tasks[0]).plain == "2 workers"
    for _ in range(3):
        now[0] += 1800
        bar.advance(task, 1)
    assert CrewColumn().render(bar.tasks[0]).plain == "2 workers, 0.033 rows/min"
    assert bar.tasks[0].time_remaining == 7 * 1800
