"""Rows in a Parquet file are the rows of the results."""

import json

import pytest

from purgegate.io.results import append_rows, read_rows
from tests.report.rows import full, row

parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'purgegate[parquet]'")


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.jsonl"
    rows = [*full("source", 100), row("pg_sp", options={"purge": [0, 2]}, after=["uniform 5"], severity=None)]
    append_rows(path, [{**each, "seconds": 3} if each["corruption"] == "shear" else each for each in rows])
    return path


def test_every_fact_of_every_row_is_in_the_file(purgegate, results, tmp_path):
    out = tmp_path / "deep" / "rows.parquet"
    run = purgegate("table", results, "--out", out)
    assert run.code == 0, run.err
    found = parquet.read_table(out).to_pylist()
    for line, each in zip(found, read_rows(results), strict=True):
        assert line.pop("accuracy") == 100 * each["correct"] / each["total"]
        plain = {name: json.dumps(v) if isinstance(v, list | dict) else v for name, v in each.items()}
        assert {name: value for name, value in line.items() if value is not None} == {
            name: value for name, value in plain.items() if value is not None
        }


def test_parquet_needs_a_file_and_holds_no_table(purgegate, results, tmp_path):
    for options in (["--format", "parquet"], ["--paper", "--out", tmp_path / "a.parquet"]):
        run = purgegate("table", results, *options)
        assert run.code == 2
        assert "parquet holds rows, in a file: give --out" in run.err
    assert not (tmp_path / "a.parquet").exists()
