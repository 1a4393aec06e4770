"""Weights by name: from the package, and from a clone of it."""

import shutil
from pathlib import Path

import pytest

import purgegate as pg
from purgegate.io import bundled


def test_a_clone_has_weights_that_the_package_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name as the others, described as the others, and only while the file is there."""
    monkeypatch.setattr(bundled, "LARGE", tmp_path)
    assert "large.shapes" not in pg.list_weights()
    with pytest.raises(FileNotFoundError, match="large"):
        pg.load_backbone("large.shapes")
    shutil.copy(bundled.weights_path("point_mae_tiny.shapes"), tmp_path / "large.shapes.safetensors")
    assert pg.list_weights()["large.shapes"] == pg.list_weights()["point_mae_tiny.shapes"]
    assert pg.load_backbone("large.shapes").weights_name == "large.shapes"


def test_a_path_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person has in their folder is what they get."""
    monkeypatch.chdir(tmp_path)
    Path("point_mae_tiny.shapes").write_bytes(b"mine")
    assert bundled.weights_path("point_mae_tiny.shapes") == Path("point_mae_tiny.shapes")
