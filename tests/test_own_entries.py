"""A plot or a file format of one's own is one entry of its registry: no other file is touched."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import purgegate as pg
from purgegate.io.formats import READERS, Reader
from purgegate.io.formats.contents import Contents
from purgegate.io.results import append_rows
from purgegate.report.plots import PLOTS
from tests.models import clouds
from tests.report.rows import full


def read_raw(path: Path) -> Contents:
    """Three float32 per point and nothing else."""
    return Contents(np.frombuffer(path.read_bytes(), dtype=np.float32).reshape(-1, 3))


@pytest.fixture
def raw(monkeypatch, tmp_path):
    """A folder with one file of the format."""
    monkeypatch.setitem(READERS, ".raw", Reader(read_raw))
    (tmp_path / "cloud.raw").write_bytes(clouds(1, 300)[0].numpy().tobytes())
    return tmp_path


def test_a_format_is_read_as_a_cloud_and_in_folders(raw, purgegate):
    np.testing.assert_array_equal(pg.read_cloud(raw / "cloud.raw"), clouds(1, 300)[0].numpy())
    assert len(pg.load_dataset(raw).points) == 1
    run = purgegate("predict", raw / "cloud.raw", "--json")
    assert run.code == 0, run.err
    (raw / "torn.raw").write_bytes(b"1234567")
    with pytest.raises(ValueError, match=r"torn\.raw cannot be read"):
        pg.read_cloud(raw / "torn.raw")


def test_a_plot_is_drawn_by_its_name(monkeypatch, purgegate, tmp_path):
    drawn = []
    monkeypatch.setitem(PLOTS, "dots", lambda rows: drawn.append(len(rows)) or Figure())
    append_rows(tmp_path / "rows.jsonl", full("source"))
    run = purgegate("plot", "dots", tmp_path / "rows.jsonl", "--out", tmp_path / "dots.png")
    assert run.code == 0, run.err
    assert drawn == [15]
    assert (tmp_path / "dots.png").is_file()


def test_an_unknown_plot_is_told_all_that_there_are(purgegate, tmp_path):
    run = purgegate("plot", "dots", tmp_path / "rows.jsonl", "--out", tmp_path / "dots.png")
    assert run.code == 2
    assert "'dots' is not one of corruptions, gains" in " ".join(run.err.replace("│", " ").split())
