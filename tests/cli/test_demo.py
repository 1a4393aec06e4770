import pytest

from purgegate.points.corruptions import CORRUPTIONS


@pytest.mark.slow
def test_the_demo_ends_with_a_table_and_a_page_and_its_rows_are_kept(purgegate, tmp_path):
    first = purgegate("demo", "--out", tmp_path, "--clouds", 1, "--workers", 1)
    assert first.code == 0, first.err
    assert "Source + BN reset" in first.out
    assert "PG-SP" in first.out
    page = (tmp_path / "index.html").read_text()
    assert page.count("<img") == 2
    assert page.count("<tr>") == 8
    kept = (tmp_path / "results-1.jsonl").read_bytes()
    assert len(kept.splitlines()) == 7 * len(CORRUPTIONS)
    purgegate("demo", "--out", tmp_path, "--clouds", 1, "--workers", 1)
    assert (tmp_path / "results-1.jsonl").read_bytes() == kept
