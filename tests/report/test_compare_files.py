"""Two files of results: what differs is shown, what chance does is told."""

import csv
import io

import numpy as np
import pytest
from scipy.stats import binomtest

from purgegate.io.results import append_rows, pack_answers, unpack_answers
from purgegate.report.compare_files import compare, compare_files, comparison_csv, comparison_grid, mcnemar
from purgegate.report.outputs import FORMATS
from tests.report.rows import full, row


def answered(right: np.ndarray, **facts) -> dict:
    return row(correct=int(right.sum()), answers=pack_answers(right), data="abc", **facts)


def test_a_file_does_not_differ_from_itself():
    rows = full("source") + full("pg_sp", 110)
    found = compare(rows, rows)
    assert (len(found.pairs), found.only_first, found.only_second, found.between) == (30, [], [], {})
    assert comparison_grid(found).lines == ()
    assert "0 of 30 common cells differ" in comparison_grid(found).notes[0]


def test_cells_that_differ_are_shown_with_their_difference_and_those_of_one_file_are_named():
    first = [*full("source"), row("tent")]
    second = [*full("source")[1:], row("source", correct=103), row("dua")]
    found = compare(first, second)
    (line,) = comparison_grid(found).lines
    assert [cell.text for cell in line] == [
        "Source", "uniform", "5", "0", "50.00", "51.50", "+1.50", "–", "–", "–"
    ]  # fmt: skip
    notes = " ".join(comparison_grid(found).notes)
    assert "Mean difference over all common cells: +0.10." in notes
    assert "Only in first: 1 cells (tent uniform)." in notes
    assert "Only in second: 1 cells (dua uniform)." in notes
    assert "rows do not keep which clouds were right" in notes


def test_what_tells_one_file_from_the_other_is_what_is_compared():
    first = full("pg_sp", weights="old", fingerprint="1")
    second = full("pg_sp", 101, weights="new", fingerprint="2")
    found = compare(first, second)
    assert len(found.pairs) == 15
    assert comparison_grid(found).setting == "weights: old → new, fingerprint: 1 → 2"


def test_mcnemars_test_is_that_of_a_fair_coin():
    for lost, won in [(0, 0), (0, 5), (3, 12), (7, 7), (40, 20)]:
        wanted = binomtest(lost, lost + won, 0.5).pvalue if lost + won else 1
        assert mcnemar(lost, won) == pytest.approx(wanted)
    assert mcnemar(3, 12) == mcnemar(12, 3)


def test_rows_that_keep_their_answers_are_tested():
    before = np.arange(200) < 100
    after = before.copy()
    after[:2], after[100:112] = False, True
    found = compare([answered(before)], [answered(after)])
    (line,) = comparison_grid(found).lines
    assert [cell.text for cell in line][4:] == ["50.00", "55.00", "+5.00", "2", "12", f"{mcnemar(2, 12):.3g}"]
    assert "1 of 1 cells have p < 0.05, where chance alone gives about 0.1" in comparison_grid(found).notes[2]
    other = answered(after) | {"data": "other clouds"}
    assert compare([answered(before)], [other]).pairs[0].changes() is None


def test_equal_counts_of_other_clouds_are_a_difference():
    right = np.arange(200) < 100
    (line,) = comparison_grid(compare([answered(right)], [answered(~right)])).lines
    assert [cell.text for cell in line][6:] == ["0.00", "100", "100", "1"]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 200])
def test_answers_come_back_as_they_were_packed(count: int):
    right = np.random.default_rng(count).random(count) < 0.5
    facts = row(correct=int(right.sum()), total=count, answers=pack_answers(right))
    assert np.array_equal(unpack_answers(facts), right)
    assert len(facts["answers"]) == 2 * -(-count // 8)
    assert unpack_answers(row()) is None


@pytest.mark.parametrize("answers", ["zz", 5, "", "ff" * 25, "00" * 25, "ff" * 26, []])
def test_answers_that_do_not_fit_their_row_are_refused(answers):
    with pytest.raises(ValueError, match="must tell which 100 of 200 clouds are right"):
        unpack_answers(row(answers=answers))


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_shows_a_comparison(form: str, tmp_path):
    append_rows(tmp_path / "a.jsonl", full("source"))
    append_rows(tmp_path / "b.jsonl", full("source", 104))
    found = compare_files(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    text = comparison_csv(found) if form == "csv" else FORMATS[form]([comparison_grid(found)])
    if form == "csv":
        lines = list(csv.DictReader(io.StringIO(text)))
        assert [float(line["difference"]) for line in lines] == pytest.approx([2] * 15)
        assert lines[0]["corruption"] == "uniform"
    else:
        assert text.count("+2.00") == 16
        assert "a.jsonl" in text


def test_two_files_are_compared_and_no_other_number(tmp_path):
    append_rows(tmp_path / "a.jsonl", full("source"))
    for files in ([tmp_path / "a.jsonl"], [tmp_path / "a.jsonl"] * 3):
        with pytest.raises(ValueError, match="two files of results can be compared; got"):
            compare_files(*files)
