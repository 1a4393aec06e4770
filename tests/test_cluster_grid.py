"""Recipes and corrupted sets on Dask's workers: the rows and bytes of one process, whatever happens."""

import json
import threading
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

import purgegate as pg
from purgegate.grid import Order, Parcels, _give_up, run_order, run_recipe
from purgegate.io.builder import build
from purgegate.io.cells import Cell
from purgegate.io.labelled import Dataset
from purgegate.io.results import key_of, lost_beside, read_rows
from purgegate.recipes import read_recipe
from purgegate.units import names_of, units_of
from purgegate.workers import AbsentError
from tests.models import clouds, small_model
from tests.tasks import Dask

RECIPE = """
title = "toy"
dataset = "toy"
methods = [
  "tests.slow_source:SlowSource",
  {{ name = "tests.slow_source:SlowSource", options = {{ norm = "batch" }} }},
  {{ name = "pg_sp", options = {{ purge = [0, 2] }} }},
]
weights = ["{weights}"]
corruptions = ["uniform", "shear"]
severities = [1]
seeds = [0, 1]
batches = [4]
points = 64
"""
MEASURED = ("seconds", "memory", "threads", "entropy")


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A recipe with weights that only this folder holds, under a relative path."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.chdir(tmp_path)
    model = small_model()
    statistics = pg.SourceStatistics.collect(model, [clouds(8, 64, seed=1)])
    statistics.save("statistics.safetensors")
    pg.save_backbone(model, "small.safetensors", class_names=tuple("abcde"))
    for seed, name in enumerate(("uniform", "shear")):
        np.save(data / f"data_{name}_1.npy", clouds(10, 64, seed=seed).numpy())
    np.save(data / "label.npy", np.arange(10) % 5)
    text = RECIPE.format(weights="small.safetensors")
    Path("toy.toml").write_text(text.replace("[0, 2]", '[0, 2], statistics = "statistics.safetensors"'))
    return read_recipe("toy.toml"), data


def facts(rows):
    return sorted(
        json.dumps({name: value for name, value in row.items() if name not in MEASURED}, sort_keys=True)
        for row in rows
    )


@pytest.fixture
def dask(tmp_path):
    pytest.importorskip("distributed", reason="needs dask.distributed: pip install 'purgegate[cluster]'")
    found = Dask(tmp_path)
    yield found
    found.close()


@pytest.fixture
def order(toy):
    recipe, data = toy
    unit = next(units_of(recipe, data=str(data)))
    return Order(3, unit, names_of(unit), "a run")


def test_an_order_is_run_where_all_is_as_at_home(order):
    number, rows = run_order(order)
    assert number == 3
    assert [key_of(row) for row in rows] == [key_of(row) for row in order.names]


def test_other_weights_of_the_name_are_refused(order):
    names = [row | {"fingerprint": "0"} for row in order.names]
    with pytest.raises(ValueError, match=r"has other weights under the name small\.safetensors .* but 0 is"):
        run_order(order._replace(names=names))


def test_clouds_that_are_missing_or_others_are_sent_for(order, toy):
    _, data = toy
    with pytest.raises(AbsentError, match="has other data in"):
        run_order(order._replace(names=[row | {"data": "0"} for row in order.names]))
    (data / "data_uniform_1.npy").unlink()
    with pytest.raises(AbsentError, match="is missing"):
        run_order(order._replace(run="another run"))


def test_workers_make_no_prototypes_and_ask_for_them(toy):
    recipe, data = toy
    np.savez("source.npz", points=clouds(10, 64).numpy(), label=np.arange(10) % 5)
    recipe = replace(recipe, methods=({"name": "bftt3d"},), source="source.npz")
    unit = next(units_of(recipe, data=str(data), out="rows.jsonl"))
    with pytest.raises(AbsentError, match=r"lacks the prototypes of source\.npz"):
        run_order(Order(0, unit, names_of(unit), "a run"))
    assert not list(Path.cwd().glob("rows.*"))


class Cursed:
    """A crew of one, in which SlowSource is deadly."""

    class DeadError(Exception):
        """Its workers died."""

    lost, spare, page = (DeadError,), 0, ""

    def submit(self, function, order):
        future = Future()
        if "SlowSource" in order.unit.method:
            future.set_exception(self.DeadError("its workers died"))
        else:
            future.set_result(function(order))
        return future

    def count(self):
        return 1

    def share(self, value):
        return value


def test_a_unit_that_is_given_up_is_told_and_no_table_takes_it(toy, purgegate, monkeypatch, caplog):
    recipe, data = toy
    monkeypatch.setattr("tests.slow_source.PAUSE", 0)
    whole = run_recipe(recipe, data=data, out="whole.jsonl")
    command = ("bench", "toy.toml", "--data", data, "--out", "rows.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("purgegate.workers._crew", lambda *a, **k: nullcontext(Cursed()))
        run = purgegate(*command, "--workers", 2)
    assert run.code == 3
    assert "8 rows are lacking (see rows.lost.jsonl); the same command runs them again" in " ".join(
        run.err.split()
    )
    assert "tests.slow_source:SlowSource with small.safetensors on uniform 1 is given up" in caplog.text
    assert facts(read_rows("rows.jsonl")) == facts(row for row in whole if row["method"] == "pg_sp")
    lost = [json.loads(line) for line in lost_beside("rows.jsonl").read_text().splitlines()]
    assert [row["error"] for row in lost] == ["its workers died"] * 8
    assert not any("correct" in row for row in lost)
    assert purgegate("table", "rows.lost.jsonl").code == 2
    assert purgegate(*command).code == 0
    assert facts(read_rows("rows.jsonl")) == facts(whole)
    assert not lost_beside("rows.jsonl").exists()


def test_rows_that_are_there_are_not_noted_as_lacking(order):
    first, second = order.names[0], order.names[0] | {"seed": 7}
    order = order._replace(names=[first, second])
    _give_up(order, "its workers died", {key_of(first): first}, out="rows.jsonl")
    (lost,) = lost_beside("rows.jsonl").read_text().splitlines()
    assert json.loads(lost)["seed"] == 7


def test_the_longest_units_of_a_seed_are_begun_first_and_before_them_those_of_unknown_length(
    toy, monkeypatch
):
    recipe, data = toy
    begun = []

    class Honest(Cursed):
        def submit(self, function, order):
            begun.append((order.unit.settings.seed, order.unit.method))
            future = Future()
            future.set_result(function(order))
            return future

    monkeypatch.setattr("purgegate.workers._crew", lambda *a, **k: nullcontext(Honest()))
    monkeypatch.setattr("tests.slow_source.PAUSE", 0)
    methods = ({"name": "source"}, {"name": "tent"}, {"name": "tests.slow_source:SlowSource"})
    recipe = replace(recipe, methods=methods, corruptions=("uniform",))
    rows = run_recipe(recipe, data=data, out="rows.jsonl", workers=2)
    assert [row["method"] for row in rows] == [each["name"] for each in methods] * 2
    names = ("tests.slow_source:SlowSource", "tent", "source")
    assert begun == [(seed, name) for seed in (0, 1) for name in names]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_killed_and_joined_three_times_make_the_rows_of_one_process(toy, dask):
    recipe, data = toy
    whole = run_recipe(recipe, data=data, out="whole.jsonl")
    workers = [dask.worker(cwd=Path.cwd()), dask.worker(cwd=Path.cwd())]
    for number in range(3):
        out, events, steps = Path(f"{number}.jsonl"), iter(["kill", "join"]), []

        def advance(cells: float, events=events, out=out, steps=steps) -> None:
            steps.append(cells)
            event = next(events, None) if out.exists() and out.read_text().count("\n") > 1 else None
            if event == "kill":  # both are at work by then
                threading.Timer(0.15, workers.pop(0).kill).start()
            elif event == "join":
                workers.append(dask.worker(cwd=Path.cwd()))

        rows = run_recipe(recipe, data=data, out=out, cluster=dask.address, advance=advance)
        assert next(events, None) is None
        assert sum(steps) == pytest.approx(len(whole))
        assert any(0 < cells < 1 for cells in steps)  # units say how far they are
        assert facts(rows) == facts(whole)
        assert facts(json.loads(line) for line in out.read_text().splitlines()) == facts(whole)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_that_see_no_file_are_sent_what_they_need_and_a_dead_scheduler_is_no_loss(
    toy, dask, monkeypatch
):
    recipe, data = toy
    whole = run_recipe(recipe, data=data, out="whole.jsonl")
    dask.worker()  # in another folder, where the path of the weights leads nowhere
    sent = []
    pack = Parcels.__call__
    monkeypatch.setattr(Parcels, "__call__", lambda *given: sent.append(1) or pack(*given))
    assert facts(run_recipe(recipe, data=data, out="sent.jsonl", cluster=dask.address)) == facts(whole)
    assert len(sent) == len(whole)

    def advance(cells: float) -> None:
        if Path("rows.jsonl").exists() and Path("rows.jsonl").read_text().count("\n") == 3:
            dask.scheduler.kill()

    with pytest.raises(ConnectionError, match="give the same command"):
        run_recipe(recipe, data=data, out="rows.jsonl", cluster=dask.address, advance=advance)
    assert 3 <= len(read_rows("rows.jsonl")) < len(whole)
    run_recipe(recipe, data=data, out="rows.jsonl")
    assert facts(read_rows("rows.jsonl")) == facts(whole)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_corrupted_set_has_the_bytes_of_one_worker_though_one_of_two_is_killed(tmp_path):
    pytest.importorskip("distributed", reason="needs dask.distributed: pip install 'purgegate[cluster]'")
    data = Dataset(clouds(70, 512).numpy(), np.arange(70) % 3, ("a", "b", "c"))
    cells = [Cell(name, 2) for name in ("uniform", "density_inc", "occlusion", "shear")]
    killed = []

    def kill(cell: Cell, clouds: int) -> None:
        processes = psutil.Process().children(recursive=True)
        if not killed and (workers := [each for each in processes if "spawn_main" in str(each.cmdline())]):
            killed.append(workers[0])
            killed[0].kill()

    build(data, tmp_path / "one", cells=cells, points=256)
    build(data, tmp_path / "two", cells=cells, points=256, cluster="local:2", advance=kill)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert killed
    assert one == two
    assert len(one) == 2 * 4 + 2
