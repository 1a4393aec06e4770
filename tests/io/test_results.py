import json

import pytest

from purgegate.io.results import append_rows, key_of, read_rows

ROW = {"method": "source", "corruption": "uniform", "severity": 5, "seed": 0, "correct": 3, "total": 4}


def test_rows_come_back_as_they_went(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    append_rows(path, [ROW])
    append_rows(path, [{**ROW, "seed": 1}])
    assert read_rows(path) == [ROW, {**ROW, "seed": 1}]


def test_no_file_is_no_rows(tmp_path):
    assert read_rows(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_last_line_is_passed_over_and_then_written_over(tmp_path, cut: int):
    path = tmp_path / "results.jsonl"
    append_rows(path, [ROW])
    path.write_bytes(path.read_bytes() + json.dumps({**ROW, "seed": 1}).encode()[:cut])
    assert read_rows(path) == [ROW]
    append_rows(path, [{**ROW, "seed": 2}])
    assert read_rows(path) == [ROW, {**ROW, "seed": 2}]


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(ROW))
    assert read_rows(path) == [ROW]
    append_rows(path, [{**ROW, "seed": 1}])
    assert read_rows(path) == [ROW, {**ROW, "seed": 1}]


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "results.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"results\.jsonl is no file of rows"):
        read_rows(tmp_path / "results.jsonl")


def test_the_same_measurement_counts_once(tmp_path):
    path = tmp_path / "results.jsonl"
    append_rows(path, [ROW, {**ROW, "seconds": 2}])
    assert read_rows(path) == [ROW]
    append_rows(path, [{**ROW, "correct": 2}])
    with pytest.raises(
        ValueError, match=r"line 3 has another result for source, uniform .* Remove the older"
    ):
        read_rows(path)


def test_what_came_out_is_not_part_of_the_key():
    assert key_of(ROW) == key_of({**ROW, "correct": 0, "seconds": 9})
    assert key_of(ROW) != key_of({**ROW, "severity": 4})


@pytest.mark.parametrize("line", ["not json", "5", "[]"])
def test_a_broken_line_in_the_middle_is_named(tmp_path, line: str):
    path = tmp_path / "results.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{line}\n{json.dumps({**ROW, 'seed': 1})}\n")
    with pytest.raises(ValueError, match=r"line 2 is no JSON object"):
        read_rows(path)
