import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import purgegate as pg
from purgegate.adapt.features import FeatureStatistics
from purgegate.grid import _options_to_send, run_recipe
from purgegate.io.confusion import confusion_of
from purgegate.io.labelled import Dataset
from purgegate.io.results import key_of, read_rows
from purgegate.needs import _digest_of
from purgegate.recipes import read_recipe
from purgegate.report.published import published_lines
from purgegate.units import _warm, names_of, place_of, read_domain, run_unit, stratified, units_of
from tests.models import clouds, small_model

RECIPES = Path(__file__).parents[1] / "recipes"
ALONE = {"purge_size", "purge_size_distortion"}  # purge size 0 is their control
RECIPE = """
title = "toy"
dataset = "toy"
methods = ["source", "source_bn", {{ name = "pg_sf", options = {{ purge = [0, 2] }} }}, "tent"]
weights = ["{weights}"]
corruptions = ["uniform", "shear"]
severities = [1]
seeds = [0, 1]
batches = [4]
points = 64
"""


@pytest.fixture
def toy(tmp_path):
    """A recipe, its data and its weights."""
    weights, data = tmp_path / "small.safetensors", tmp_path / "data"
    pg.save_backbone(small_model(), weights, class_names=tuple("abcde"))
    data.mkdir()
    for seed, name in enumerate(("uniform", "shear")):
        np.save(data / f"data_{name}_1.npy", clouds(10, 64, seed=seed).numpy())
    np.save(data / "label.npy", np.arange(10) % 5)
    path = tmp_path / "toy.toml"
    path.write_text(RECIPE.format(weights=weights))
    return path, data


def facts(rows):
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "memory", "threads")}
        for row in rows
    ]


@pytest.mark.parametrize(
    ("method", "refused"),
    [
        ('{ name = "source_bn" }', "batch"),
        ('{ name = "bftt3d_bn" }', "batch"),
        ('{ name = "pg_sf", options = { norm = "survivors", purge = [0, 1] } }', "survivors"),
        ('{ name = "ln_tta", options = { duplicate = true } }', None),
        ('{ name = "pg_auto" }', None),
    ],
)
def test_single_clouds_are_refused_before_the_first_cell_where_they_cannot_be_answered(
    toy, tmp_path, method, refused
):
    path, data = toy
    text = path.read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("methods", "batches"))]
    path.write_text("\n".join([*lines, f"methods = [{method}]", "batches = [1]", 'source = "shapes"']))
    out = tmp_path / "results.jsonl"
    if refused is None:
        assert run_recipe(read_recipe(path), data=data, out=out)
    else:
        with pytest.raises(ValueError, match=f"norm='{refused}' needs a batch of at least 2"):
            run_recipe(read_recipe(path), data=data, out=out)


def test_a_recipe_is_a_grid_of_rows(toy, tmp_path):
    path, data = toy
    rows = run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    assert len(rows) == 4 * 2 * 2
    assert {(row["method"], row["corruption"], row["seed"]) for row in rows} == {
        (method, corruption, seed)
        for method in ("source", "source_bn", "pg_sf", "tent")
        for corruption in ("uniform", "shear")
        for seed in (0, 1)
    }
    assert all(row["total"] == 10 and 0 <= row["correct"] <= 10 for row in rows)
    assert facts(read_rows(tmp_path / "results.jsonl")) == facts(rows)


def test_rows_have_a_confusion_where_the_recipe_asks_for_it(toy, tmp_path):
    path, data = toy
    plain = run_recipe(read_recipe(path), data=data, out=tmp_path / "plain.jsonl")
    path.write_text(path.read_text() + "confusion = true\n")
    rows = run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    assert [key_of(row) for row in rows] == [key_of(row) for row in plain]
    for row in rows:
        found = confusion_of(row)
        assert set(found) == set("abcde")
        assert {name: sum(others.values()) for name, others in found.items()} == dict.fromkeys("abcde", 2)


def test_a_second_run_adds_nothing_and_runs_nothing(toy, tmp_path, monkeypatch):
    path, data = toy
    recipe, out = read_recipe(path), tmp_path / "results.jsonl"
    first = run_recipe(recipe, data=data, out=out)
    monkeypatch.setattr("purgegate.grid.run_unit", lambda unit: pytest.fail("ran again"))
    assert run_recipe(recipe, data=data, out=out) == first
    assert len(out.read_text().splitlines()) == len(first)


def test_the_rows_of_a_unit_are_named_before_it_is_run_as_after(toy):
    path, data = toy
    for unit in units_of(read_recipe(path), data=str(data)):
        named, rows = names_of(unit), run_unit(unit)
        assert named
        assert [key_of(row) for row in named] == [key_of(row) for row in rows]
        assert all(row.items() >= name.items() for name, row in zip(named, rows, strict=True))


def test_a_bare_evaluation_names_its_row_as_a_recipe_does(toy):
    path, data = toy
    unit = next(iter(units_of(read_recipe(path), data=str(data))))
    adapter = pg.create_adapter(unit.method, pg.load_backbone(unit.weights))
    domain = pg.Domain(pg.load_corrupted(data, "uniform", severity=1), "toy", "uniform", 1)
    bare = pg.evaluate(adapter, [domain], settings=unit.settings)
    assert [key_of(row) for row in bare] == [key_of(row) for row in names_of(unit)]


def test_a_continual_stream_is_one_unit(toy, tmp_path):
    path, data = toy
    path.write_text(path.read_text() + 'reset = "never"\n')
    recipe = read_recipe(path)
    assert all(len(unit.domains) == 2 for unit in units_of(recipe, data=str(data)))
    assert len(run_recipe(recipe, data=data, out=tmp_path / "results.jsonl")) == 16


def test_a_folder_is_no_file_for_rows(toy, tmp_path):
    path, data = toy
    with pytest.raises(ValueError, match=r"is a folder: give a file for the rows, such as .*results\.jsonl"):
        run_recipe(read_recipe(path), data=data, out=tmp_path)


@pytest.fixture
def remembering(toy, tmp_path, monkeypatch):
    """A recipe of BFTT3D whose source clouds are ten random ones."""
    path, data = toy
    source = Dataset(clouds(10, 64, seed=5).numpy(), np.arange(10) % 2, ("a", "b"))
    monkeypatch.setattr("purgegate.needs.load_dataset", lambda name, split: source)
    _digest_of.cache_clear()
    text = path.read_text()
    methods = text[text.index("methods") : text.index("weights =")]
    text = text.replace(methods, 'methods = ["bftt3d", "bftt3d_bn"]\nsource = "toy"\n')
    path.write_text(text.replace("seeds = [0, 1]", "seeds = [0]").replace(', "shear"', ""))
    return read_recipe(path), data, tmp_path / "results.jsonl"


def test_prototypes_are_made_once_and_kept_beside_the_rows(remembering, monkeypatch):
    recipe, data, out = remembering
    seen = []
    first = run_recipe(recipe, data=data, out=out, remembering=lambda done, total: seen.append((done, total)))
    assert seen == [(10, 10)]
    (kept,) = out.parent.glob("results.prototypes*.npz")
    out.unlink()
    monkeypatch.setattr("purgegate.needs.remember", lambda *a, **k: pytest.fail("made again"))
    assert facts(run_recipe(recipe, data=data, out=out)) == facts(first)
    assert kept.exists()


def test_prototypes_find_a_folder_that_is_new(remembering, tmp_path):
    recipe, data, _ = remembering
    assert run_recipe(recipe, data=data, out=tmp_path / "a" / "new" / "rows.jsonl")


def test_a_method_that_needs_clouds_of_the_source_alone_makes_no_prototypes(remembering):
    recipe, data, out = remembering
    shifted = replace(recipe, methods=({"name": "foa_shift"},))
    (row,) = run_recipe(shifted, data=data, out=out)
    assert row["method"] == "foa_shift"
    assert row["options"]["source"] == _digest_of("toy")
    assert not list(out.parent.glob("*.npz"))
    (unit,) = units_of(shifted, data=str(data), out=str(out))
    assert isinstance(_options_to_send(unit)["source"], FeatureStatistics)


@pytest.fixture
def gated(toy, tmp_path):
    """A recipe of the gate by source statistics, and a way to make their file anew."""
    path, data = toy
    text, file = path.read_text(), tmp_path / "statistics.safetensors"
    methods = text[text.index("methods") : text.index("weights =")]
    given = f'statistics = "{file}"'
    runs = f'{{ name = "pg_sp", options = {{ purge = [0, 2], {given} }} }}'
    runs = f'"source", {runs}, {{ name = "pg_auto", options = {{ {given} }} }}'
    path.write_text(text.replace(methods, f"methods = [{runs}]\n").replace("seeds = [0, 1]", "seeds = [0]"))
    weights = text[text.index("weights =") :].split('"')[1]

    def make(seed: int) -> str:
        found = pg.SourceStatistics.collect(pg.load_backbone(weights), [clouds(8, 64, seed=seed)])
        found.save(file)
        return found.digest()

    return path, data, make


def test_rows_tell_which_numbers_a_file_of_statistics_held(gated, tmp_path):
    path, data, make = gated
    recipe, out = read_recipe(path), tmp_path / "results.jsonl"
    for seed in (1, 2):
        digest = make(seed)
        rows = run_recipe(recipe, data=data, out=out)
        assert [row["options"].get("statistics") for row in rows] == [None] * 2 + [digest] * 2 + [None] * 2
    # Of pg_auto they have no part in the answer.
    assert len(read_rows(out)) == 2 + 2 * 2 + 2


def test_missing_statistics_are_told_before_the_first_cell(gated, tmp_path):
    path, data, _ = gated
    path.write_text(re.sub(r', statistics = "[^"]*"', "", path.read_text()))
    with pytest.raises(ValueError, match="must hold the statistics 'b'; it has none"):
        run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    assert not (tmp_path / "results.jsonl").exists()


def test_workers_make_the_rows_of_a_single_process(toy, tmp_path):
    path, data = toy
    one, two = (
        facts(run_recipe(read_recipe(path), data=data, out=tmp_path / f"{count}.jsonl", workers=count))
        for count in (1, 2)
    )
    # They have fewer threads each, and sums are rounded otherwise.
    entropies = [[row.pop("entropy") for row in rows] for rows in (one, two)]
    assert one == two
    assert entropies[0] == pytest.approx(entropies[1], rel=1e-5)


def test_what_a_process_warms_up_with_is_forgotten(toy):
    path, data = toy
    unit = next(each for each in units_of(read_recipe(path), data=str(data)) if each.method == "tent")
    _warm.clear()
    (row,) = run_unit(unit)
    assert ("tent", unit.weights) in _warm
    adapter = pg.create_adapter("tent", pg.load_backbone(unit.weights))
    domain = pg.Domain(pg.load_corrupted(data, "uniform", severity=1), "toy", "uniform", 1)
    (bare,) = pg.evaluate(adapter, [domain], settings=unit.settings)
    assert row["entropy"] == bare["entropy"]


def test_a_mixed_stream_leaves_out_what_has_no_such_severity(toy, tmp_path):
    path, data = toy
    text = path.read_text().replace('["uniform", "shear"]', '["uniform", "occlusion"]').replace("[1]", "[6]")
    path.write_text(text.replace("seeds = [0, 1]", "seeds = [0]") + 'mixed = true\npadding = "zero"\n')
    np.save(data / "data_uniform_6.npy", clouds(10, 32, seed=3).numpy())
    recipe = read_recipe(path)
    rows = run_recipe(recipe, data=data, out=tmp_path / "results.jsonl")
    assert [(row["corruption"], row["total"]) for row in rows] == [("mixed", 10)] * 4
    domain = read_domain(place_of(next(units_of(recipe, data=str(data)))), "mixed", 6)
    assert (domain.data.points == 0).all(axis=2).sum() == 10 * 32


def test_a_mixed_stream_is_one_domain_of_all_clouds(toy, tmp_path):
    path, data = toy
    path.write_text(path.read_text() + "mixed = true\n")
    rows = run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    assert [(row["corruption"], row["severity"], row["total"]) for row in rows] == [("mixed", 1, 20)] * 8


def test_other_data_in_the_same_place_are_measured_anew(toy, tmp_path):
    path, data = toy
    recipe, out = read_recipe(path), tmp_path / "results.jsonl"
    first = run_recipe(recipe, data=data, out=out)
    np.save(data / "data_shear_1.npy", clouds(10, 64, seed=9).numpy())
    second = run_recipe(recipe, data=data, out=out)
    same = [before == after for before, after in zip(first, second, strict=True)]
    assert same == [row["corruption"] == "uniform" for row in first]
    assert len(read_rows(out)) == 24


def test_a_row_tells_how_many_clouds_the_whole_set_has(toy, tmp_path):
    path, data = toy
    path.write_text(path.read_text() + "subset = 5\n")
    rows = run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    assert {(row["total"], row["whole"]) for row in rows} == {(5, 10)}


def test_a_run_that_is_broken_off_has_whole_tables_of_the_first_seed(toy):
    path, data = toy
    units = list(units_of(read_recipe(path), data=str(data)))
    assert [unit.settings.seed for unit in units] == [0] * 8 + [1] * 8
    assert [unit._replace(settings=None) for unit in units[:8]] == [
        unit._replace(settings=None) for unit in units[8:]
    ]


def test_each_gives_one_run_for_every_value(toy):
    path, data = toy
    text = (
        path.read_text().split("methods")[0]
        + 'methods = [{ name = "pg_sf", each = { purge = [[0], [1], [2]] } }]\n'
    )
    path.write_text(text + path.read_text()[path.read_text().index("weights =") :])
    options = [unit.options for unit in units_of(read_recipe(path), data=str(data))]
    assert options.count({"purge": [1]}) == 4
    assert len(options) == 12


def test_a_method_may_have_batch_sizes_of_its_own(toy):
    path, data = toy
    path.write_text(path.read_text().replace('"source_bn"', '{ name = "source_bn", batches = [2, 8] }'))
    found = {(unit.method, unit.settings.batch) for unit in units_of(read_recipe(path), data=str(data))}
    assert found == {("source", 4), ("source_bn", 2), ("source_bn", 8), ("pg_sf", 4), ("tent", 4)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sevrities = [5]", "unknown key sevrities: choose from"),
        ('corruptions = ["fog"]', "unknown corruption fog: choose from uniform"),
        ('methods = ["tnt"]', "unknown method tnt: choose from source, source_bn"),
        ('methods = [{ name = "tent", option = 3 }]', "unknown key of a method option"),
        ('methods = [{ name = "tent", options = { lrr = 1 } }]', "unknown option of tent lrr: choose from"),
        ('methods = [{ name = "tent", each = { lr = [1], steps = [1] } }]', "one option of tent at a time"),
        ('methods = ["bftt3d"]', "needs labelled source clouds: give `source`"),
        ('corruptions = ["clean"]', "needs a data set: give `clean`"),
        ('reset = "sometimes"', "reset must be one of domain, batch, never; got 'sometimes'"),
        ('padding = "y"', "padding must be one of"),
        ("severities = [9]", "has nothing to run"),
        ("mixed = true\nseverities = [9]", "has nothing to run"),
        ("methods = [{ name = 5 }]", "a text for the name of every method"),
        ('methods = [{ name = "tent", batches = ["8"] }]', "whole numbers for batches of tent"),
        ("seeds = 3", r"must give a list, in \[ \], of a whole number for seeds; got 3"),
        ('severities = ["5"]', "of a whole number for severities"),
        ("methods = [3]", "of a text or a table"),
        ('subset = "10"', "must give a whole number for subset; got '10'"),
        ("subset = 0", "a subset of at least 1 cloud; got 0"),
        ('methods = [{ name = "tent", options = 3 }]', r"must give a table, in \{ \} for options of tent"),
        ('methods = [{ name = "tent", batches = 8 }]', "for batches of tent"),
        (
            'methods = [{ name = "pg_sf", each = { purge = 3 } }]',
            "a list of values for what pg_sf has in `each`",
        ),
        ("title = ", "is no TOML"),
    ],
)
def test_what_a_recipe_cannot_mean_is_refused(toy, line: str, message: str):
    path, _ = toy
    given = tuple(each.split(" =")[0] for each in line.splitlines())
    kept = [old for old in path.read_text().splitlines() if not old.startswith(given)]
    path.write_text("\n".join([*kept, line]))
    with pytest.raises(ValueError, match=message):
        read_recipe(path)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            '{ name = "pg_sf", options = { purge = 4 } }',
            r"pg_sf \{'purge': 4\} with .*: ",
        ),
        ('{ name = "tent", options = { lr = "x" } }', "tent .*: "),
        (
            '{ name = "source_bn", batches = [1] }',
            "source_bn .*: norm='batch' needs a batch of at",
        ),
        ('"ttt_rot"', "ttt_rot .*: ttt_rot needs a model with"),
    ],
)
def test_what_would_stop_a_later_cell_is_told_before_the_first(toy, tmp_path, method: str, message: str):
    path, data = toy
    kept = [old for old in path.read_text().splitlines() if not old.startswith("methods")]
    path.write_text("\n".join([*kept, f'methods = ["source", {method}]']))
    with pytest.raises(ValueError, match=message):
        run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    assert not (tmp_path / "results.jsonl").exists()


def test_what_stops_a_cell_names_it(toy, tmp_path):
    path, data = toy
    np.save(data / "label.npy", np.arange(10))
    with pytest.raises(
        ValueError, match=r"source .* on uniform: toy has labels up to 9, but the model answers 5"
    ):
        run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")


def test_a_file_that_cannot_be_written_is_told_before_the_first_cell(toy, monkeypatch):
    path, data = toy
    monkeypatch.setattr("purgegate.grid.run_unit", pytest.fail)
    with pytest.raises(OSError, match=r"rows\.jsonl"):
        run_recipe(read_recipe(path), data=data, out="/proc/rows.jsonl")


def test_a_recipe_that_lacks_a_key_says_which(tmp_path):
    (tmp_path / "short.toml").write_text('title = "x"')
    with pytest.raises(ValueError, match="lacks dataset, methods, weights"):
        read_recipe(tmp_path / "short.toml")


def test_a_subset_has_every_class_by_its_share():
    label = np.array([0] * 50 + [1] * 30 + [2] * 20)
    chosen = label[stratified(label, 10)]
    assert np.bincount(chosen).tolist() == [5, 3, 2]
    assert np.array_equal(stratified(label, 100), np.arange(100))
    with pytest.raises(ValueError, match="at most all of the 100 clouds; got 101"):
        stratified(label, 101)


def test_two_halves_share_no_cloud_and_are_named(toy, tmp_path):
    path, data = toy
    whole = run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    halves = []
    for part in ("even", "odd"):
        path.write_text(path.read_text().split("part =")[0] + f'part = "{part}"')
        halves += run_recipe(read_recipe(path), data=data, out=tmp_path / "results.jsonl")
    assert {row["dataset"] for row in halves} == {"toy (even half)", "toy (odd half)"}
    assert sum(r["total"] for r in halves) == sum(r["total"] for r in whole)
    # Without adaptation a cloud's answer depends on no other.
    assert sum(r["entropy"] * r["total"] for r in halves if r["method"] == "source") == pytest.approx(
        sum(r["entropy"] * r["total"] for r in whole if r["method"] == "source"), rel=1e-2
    )
    path.write_text(path.read_text().replace('"odd"', '"third"'))
    with pytest.raises(ValueError, match="unknown part third: choose from all, even, odd"):
        read_recipe(path)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_shipped_recipe_is_valid(path: Path):
    names = {method["name"] for method in read_recipe(path).methods}
    assert "source_bn" in names or path.stem in ALONE


@pytest.mark.parametrize("name", ["modelnet40_c", "scanobjectnn_c", "shapenet_c"])
def test_rows_of_the_paper_s_tables_stand_beside_the_paper_s(name: str):
    dataset = read_recipe(RECIPES / f"{name}.toml").dataset
    for backbone in ("PointMAE", "PointMamba"):
        assert published_lines({"dataset": dataset, "backbone": backbone, "severity": 5})


@pytest.mark.slow
def test_a_bench_killed_three_times_ends_with_the_rows_of_an_unbroken_one(toy, tmp_path):
    path, data = toy
    whole = run_recipe(read_recipe(path), data=data, out=tmp_path / "whole.jsonl")
    out = tmp_path / "broken.jsonl"
    command = [sys.executable, "-m", "purgegate", "bench", str(path), "--data", str(data), "--out", str(out)]
    for wanted in (1, 5, 9):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        while process.poll() is None and (not out.exists() or out.read_text().count("\n") < wanted):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert wanted <= out.read_text().count("\n") < len(whole)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    names = ("method", "corruption", "seed", "correct", "total")
    rows = [[tuple(row[name] for name in names) for row in some] for some in (whole, read_rows(out))]
    assert sorted(rows[0]) == sorted(rows[1])
    assert len(out.read_text().splitlines()) == len(whole)
