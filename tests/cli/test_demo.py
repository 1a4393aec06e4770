"""The demo as a person starts it, on fewer corruptions and methods than it has."""

import sys
from dataclasses import replace

from purgegate.cli.demo import make_recipe
from purgegate.points.corruptions import CORRUPTIONS
from tests.report.pages import Page

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
    assert "mean of 2" in first.out
    assert "Source BN reset PG-SP" in " ".join(first.out.split())
    page = Page((tmp_path / "index.html").read_text())
    assert page.count("tr") == 1 + len(FEW)
    shown = page.data("viewer-data")
    assert [cloud["truth"] for cloud in shown["clouds"]] == ["aeroplane", "chair"]
    assert [cloud["name"] for cloud in shown["clouds"]] == ["aeroplane 0, uniform", "chair 7, shear"]
    assert all(len(line) <= 80 for line in first.out.partition("Accuracy")[0].splitlines()[2:])
    kept = (tmp_path / "results-1.jsonl").read_bytes()
    assert len(kept.splitlines()) == len(FEW) * 2
    purgegate("demo", "--out", tmp_path, "--clouds", 1, "--workers", 1)
    assert (tmp_path / "results-1.jsonl").read_bytes() == kept
