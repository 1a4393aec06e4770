"""The demo as a person starts it, on fewer corruptions and methods than it has."""

import sys
from dataclasses import replace

from purgegate.cli.demo import make_recipe
from purgegate.points.corruptions import CORRUPTIONS

FEW = ("source", "source_bn", "pg_sp")


def test_the_demo_has_all_corruptions_and_its_control():
    recipe = make_recipe()
    assert recipe.corruptions == tuple(CORRUPTIONS)
    assert set(FEW) < {method["name"] for method in recipe.methods}


def test_the_demo_ends_with_a_table_and_a_page_and_its_rows_are_kept(purgegate, tmp_path, monkeypatch):
    few = replace(
        make_recipe(), corruptions=("uniform", "shear"), methods=tuple({"name": name} for name in FEW)
    )
    # By its module: in `purgegate.cli` the name stands for the command.
    monkeypatch.setattr(sys.modules["purgegate.cli.demo"], "make_recipe", lambda: few)
    first = purgegate("demo", "--out", tmp_path, "--clouds", 1, "--workers", 1)
    assert first.code == 0, first.err
    assert "Source + BN reset" in first.out
    assert "PG-SP" in first.out
    page = (tmp_path / "index.html").read_text()
    assert page.count("<img") == 2
    assert page.count("<tr>") == 1 + len(FEW)
    kept = (tmp_path / "results-1.jsonl").read_bytes()
    assert len(kept.splitlines()) == len(FEW) * 2
    purgegate("demo", "--out", tmp_path, "--clouds", 1, "--workers", 1)
    assert (tmp_path / "results-1.jsonl").read_bytes() == kept
