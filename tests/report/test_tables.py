import json

import numpy as np
import pytest

from purgegate.adapt import METHODS
from purgegate.io.results import append_rows, pack_answers
from purgegate.report.names import COLUMNS, title_of
from purgegate.report.tables import load_rows, make_tables, part_of
from tests.report.rows import full, row


def test_a_mean_is_that_of_the_fifteen_accuracies():
    (table,) = make_tables(full("source", 100))
    (line,) = table.lines
    assert line.cells == tuple(50.0 + place for place in range(15))
    assert line.mean == pytest.approx(57.0)
    assert (line.spread, line.seeds) == (None, 1)


def test_spread_is_the_standard_deviation_of_the_mean_over_seeds():
    rows = [each for seed, correct in enumerate((90, 100, 110)) for each in full("tent", correct, seed=seed)]
    (line,) = make_tables(rows)[0].lines
    assert line.seeds == 3
    assert line.cells[0] == pytest.approx(50.0)
    assert line.mean == pytest.approx(57.0)
    assert line.spread == pytest.approx(5.0)  # the means are 52, 57 and 62


def test_the_order_of_rows_does_not_matter():
    rows = full("pg_sp", 120) + full("source", 100) + full("source_bn", 110) + full("tent", 90)
    assert make_tables(rows) == make_tables(rows[::-1])


def test_lines_come_source_first_then_control_and_unknown_methods_last():
    methods = ["pg_sp", "zebra", "source_bn", "tent", "source"]
    (table,) = make_tables([each for method in methods for each in full(method)])
    assert [line.method for line in table.lines] == ["source", "source_bn", "tent", "pg_sp", "zebra"]


def test_differences_are_to_the_means_of_source_and_of_the_control():
    (table,) = make_tables(full("source", 100) + full("source_bn", 110) + full("pg_sp", 116))
    line = table.lines[-1]
    assert table.difference(line, "source") == pytest.approx(8.0)
    assert table.difference(line, "source_bn") == pytest.approx(3.0)
    assert table.difference(table.lines[0], "source") == 0


def test_differences_are_taken_over_the_seeds_that_both_lines_have():
    rows = full("source_bn", 100, seed=0) + full("source_bn", 120, seed=1) + full("pg_sp", 106, seed=0)
    (table,) = make_tables(rows + full("source", 90, seed=2))
    gate = table.lines[-1]
    assert table.difference(gate, "source_bn") == pytest.approx(3.0)
    assert table.difference(gate, "source") is None


def test_two_results_of_one_measurement_are_refused(tmp_path):
    for name, correct in (("a", 100), ("b", 100), ("c", 101)):
        append_rows(tmp_path / f"{name}.jsonl", full("source", correct))
    assert len(load_rows(tmp_path / "a.jsonl", tmp_path / "b.jsonl")) == 15
    with pytest.raises(
        ValueError, match=r"c\.jsonl has another result for source, uniform .* Remove the older"
    ):
        load_rows(tmp_path / "a.jsonl", tmp_path / "c.jsonl")


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": "shapes"}, {"weights": "large"}, {"backbone": "point_mamba"}, {"severity": 3},
        {"batch": 8}, {"reset": "batch"}, {"order": "sorted"}, {"total": 400}, {"fingerprint": "ffff"},
        {"points": 512},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_what_was_run_otherwise_is_another_table(other: dict):
    tables = make_tables(full("source") + full("source", **other))
    assert [len(table.lines) for table in tables] == [1, 1]
    assert {table.lines[0].seeds for table in tables} == {1}


def test_a_row_with_a_missing_cell_has_no_mean_and_the_table_says_so():
    rows = full("source") + [each for each in full("mate") if each["corruption"] != "lidar"]
    (table,) = make_tables(rows)
    line = table.lines[1]
    assert line.cells[-1] is None
    assert line.cells[0] == 50.0
    assert line.mean is None
    assert table.difference(line, "source") is None
    assert any("MATE has no mean" in note and "14 of 15" in note for note in table.notes)


def test_an_unfinished_seed_is_left_out_and_the_table_says_so():
    (table,) = make_tables(full("tent", 100) + full("tent", 140, seed=1)[:4])
    line = table.lines[0]
    assert (line.mean, line.seeds, line.spread) == (57.0, 1, None)
    assert line.cells[0] == 50.0
    assert any("TENT: seed 1 is left out, it has 4 of 15 cells" in note for note in table.notes)


def test_statistics_of_a_file_do_not_part_a_method_from_the_others():
    rows = full("source") + full("pg_sp", options={"statistics": "mine.safetensors"}, statistics="0123abcd")
    (table,) = make_tables(rows)
    assert [line.method for line in table.lines] == ["source", "pg_sp"]


def test_a_table_without_the_control_says_so():
    assert any("control is missing" in note for note in make_tables(full("source"))[0].notes)
    (table,) = make_tables(full("source") + full("source_bn"))
    assert table.notes == ()


def test_a_subset_is_told_from_the_whole_set():
    whole, part = make_tables(
        full("source", total=200) + full("source", total=2000) + full("mate", total=200)
    )
    assert (whole.setting["total"], whole.subset_of) == (2000, None)
    assert (part.setting["total"], part.subset_of) == (200, 2000)
    assert [line.method for line in part.lines] == ["source", "mate"]
    (alone,) = make_tables(full("mate", total=200, whole=2000))
    assert alone.subset_of == 2000


def test_half_of_the_clouds_has_not_the_confusion_of_all():
    answers = pack_answers(np.arange(200) < 100)
    (half,) = part_of([row(answers=answers, confusion={"a": {"a": 100, "b": 100}})], "even")
    assert (half["correct"], half["total"]) == (50, 100)
    assert "confusion" not in half


def test_two_rows_for_one_cell_are_refused():
    with pytest.raises(ValueError, match="two rows of Source, uniform, seed 0, of other clouds"):
        make_tables(full("source", data="a") + full("source", data="b"))


def test_options_make_a_line_of_their_own_and_none_are_the_same_as_empty_ones():
    rows = full("pg_sp", 100, options={"norm": "source"}) + full("pg_sp", 110, options={})
    rows += full("pg_sp", 120, options=None, seed=1)
    (table,) = make_tables(rows)
    assert [(line.options, line.seeds) for line in table.lines] == [("", 2), ("norm=source", 1)]


def test_the_base_of_differences_is_the_line_without_options():
    rows = full("source", 100) + full("source", 140, options={"norm": "blend"}) + full("tent", 110)
    (table,) = make_tables(rows)
    assert table.difference(table.lines[-1], "source") == pytest.approx(5.0)


def test_severities_beyond_five_have_thirteen_columns():
    rows = [each for each in full("source", severity=7) if each["corruption"] not in ("occlusion", "lidar")]
    (table,) = make_tables(rows)
    assert len(table.columns) == 13
    assert table.lines[0].mean == pytest.approx(56.0)


def test_clean_clouds_are_a_table_of_their_own():
    corrupted, mixed = make_tables([*full("source"), row(corruption="mixed", correct=150)])
    assert corrupted.columns == tuple(COLUMNS)
    assert corrupted.lines[0].mean == pytest.approx(57.0)
    assert mixed.columns == ("mixed",)
    assert mixed.lines[0].mean == 75.0


def test_columns_and_names_are_those_of_the_program():
    from purgegate.points.corruptions import CORRUPTIONS, published

    assert list(COLUMNS) == list(CORRUPTIONS) == list(published())
    assert len(set(COLUMNS.values())) == len(COLUMNS) == 15
    assert len({title_of(name) for name in METHODS}) == len(METHODS)


def test_a_torn_last_line_is_passed_over(tmp_path):
    path = tmp_path / "results.jsonl"
    append_rows(path, full("source"))
    path.write_bytes(path.read_bytes() + json.dumps(row("tent")).encode()[:30])
    assert [line.method for line in make_tables(load_rows(path))[0].lines] == ["source"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"correct": 201}, "0 ≤ correct ≤ total"),
        ({"correct": -1}, "0 ≤ correct ≤ total"),
        ({"correct": 0, "total": 0}, "total of at least 1"),
        ({"correct": "many"}, "got 'many' of 200"),
        ({"correct": float("nan")}, "got nan of 200"),
        ({"options": "x"}, "impossible options: 'x'"),
        ({"severity": "5"}, "impossible severity: '5'"),
        ({"seconds": None}, "impossible seconds: None"),
    ],
)
def test_impossible_counts_are_refused(tmp_path, broken: dict, reason: str):
    append_rows(tmp_path / "r.jsonl", [{**row(), **broken}])
    with pytest.raises(ValueError, match=reason):
        load_rows(tmp_path / "r.jsonl")


def test_rows_of_something_else_are_refused(tmp_path):
    append_rows(tmp_path / "r.jsonl", [{"loss": 3.0}])
    with pytest.raises(ValueError, match="lacks method, corruption, correct, total"):
        load_rows(tmp_path / "r.jsonl")
