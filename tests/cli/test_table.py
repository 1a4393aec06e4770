"""`purgegate table` as a person types it."""

import numpy as np
import pytest

from purgegate.io.results import append_rows, pack_answers
from tests.report.rows import full


@pytest.fixture
def results(tmp_path):
    append_rows(tmp_path / "results.jsonl", full("source", 100) + full("source_bn", 110) + full("pg_sp", 116))
    return tmp_path / "results.jsonl"


@pytest.mark.parametrize(
    ("form", "sign"),
    [("terminal", "PG-SP"), ("markdown", "| **65.00** | +8.00 | +3.00 |"), ("csv", ",8.0,3.0,1"),
     ("latex", r"\textbf{65.00} & +8.00 & +3.00")],
)  # fmt: skip
def test_each_format_reaches_the_screen_and_the_file(purgegate, results, tmp_path, form: str, sign: str):
    run = purgegate("table", results, "--format", form)
    assert run.code == 0, run.err
    assert sign in run.out
    out = tmp_path / "deep" / "table.txt"
    assert purgegate("table", results, "--format", form, "--out", out).out == ""
    assert out.read_text("utf-8") == run.out


def test_the_papers_numbers_come_on_request(purgegate, results):
    assert "68.93" not in purgegate("table", results).out
    assert "68.93" in purgegate("table", results, "--paper").out


def test_rows_of_several_files_make_one_table(purgegate, results, tmp_path):
    lines = results.read_text().splitlines(keepends=True)
    for name, part in (("first.jsonl", lines[:20]), ("second.jsonl", lines[20:])):
        (tmp_path / name).write_text("".join(part))
    whole = purgegate("table", results).out
    assert purgegate("table", tmp_path / "first.jsonl", tmp_path / "second.jsonl").out == whole


def test_a_torn_line_is_passed_over(purgegate, results):
    whole = purgegate("table", results).out
    with results.open("a") as file:
        file.write('{"method": "ten')
    assert purgegate("table", results).out == whole


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "is missing or empty: run `purgegate bench` first"),
        ("", "is missing or empty"),
        ('{"method": "tor', "is missing or empty"),
        ("no json\n", "line 1 is no JSON"),
        ('{"method": "source"}\n', "lacks corruption, correct, total"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(purgegate, tmp_path, content, reason: str):
    path = tmp_path / "results.jsonl"
    if content is not None:
        path.write_text(content)
    run = purgegate("table", path)
    assert run.code == 2
    assert reason in run.err
    assert run.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.md", "markdown"), ("a.CSV", "csv"), ("a.tex", "latex"), ("a.html", "html"), ("a.txt", "terminal")],
)
def test_the_ending_of_the_file_chooses_the_format(purgegate, results, tmp_path, name: str, form: str):
    assert purgegate("table", results, "--out", tmp_path / name).code == 0
    assert purgegate("table", results, "--out", tmp_path / "given", "--format", form).code == 0
    assert (tmp_path / name).read_bytes() == (tmp_path / "given").read_bytes()


def test_an_ending_that_says_nothing_is_refused(purgegate, results, tmp_path):
    run = purgegate("table", results, "--out", tmp_path / "a.dat")
    assert run.code == 2
    assert "must end in one of .txt .md" in run.err
    assert not (tmp_path / "a.dat").exists()


@pytest.mark.parametrize("name", [None, "a.md", "a.csv"])
def test_two_files_are_compared(purgegate, results, tmp_path, name: str | None):
    append_rows(tmp_path / "new.jsonl", full("source", 100) + full("source_bn", 111) + full("pg_sp", 116))
    out = ["--out", tmp_path / name] if name else []
    run = purgegate("table", results, tmp_path / "new.jsonl", "--compare", *out)
    assert run.code == 0, run.err
    text = (tmp_path / name).read_text("utf-8") if name else run.out
    assert text.count(",0.5,") == 15 if name == "a.csv" else text.count("+0.50") == 15


def test_the_odd_half_is_counted_from_the_answers(purgegate, tmp_path):
    right = np.arange(10) % 4 < 2  # of the odd places 1, 5 and 9, of the even ones 0, 4 and 8
    right[8] = False
    rows = [
        {**row, "total": 10, "correct": int(right.sum()), "answers": pack_answers(right)}
        for row in full("source")
    ]
    append_rows(tmp_path / "rows.jsonl", rows)
    whole, odd, even = (
        purgegate("table", tmp_path / "rows.jsonl", "--format", "csv", "--part", part).out
        for part in ("all", "odd", "even")
    )
    assert "50.0" in whole
    assert "60.0" in odd
    assert "40.0" in even
    assert "(odd half)" in odd
    plain = tmp_path / "plain.jsonl"
    append_rows(plain, full("source"))
    run = purgegate("table", plain, "--part", "odd")
    assert run.code == 2
    assert "keeps no answers" in run.err
