"""A corruption of one's own is one entry of CORRUPTIONS: no other file is touched."""

import numpy as np
import pytest

import purgegate as pg
from purgegate.io.builder import build
from purgegate.io.cells import Cell
from purgegate.points.corruptions import CORRUPTIONS, Corruption, published, seed_number, strength_of
from purgegate.report.layout import grid_of
from purgegate.report.names import COLUMNS
from purgegate.report.published import beside_paper
from purgegate.report.tables import make_tables
from tests.models import clouds, small_model
from tests.report.rows import full
from tests.train.sets import boxes


def drip(points, depth, generator):
    """Move every second point down by up to a depth, and drop the others."""
    return points[::2] - np.array([0, 0, 1], dtype=np.float32) * np.float32(generator.uniform(0, depth))


@pytest.fixture
def rain():
    """The entry, before all others: neither their bytes nor their columns may move."""
    others = dict(CORRUPTIONS)
    CORRUPTIONS.clear()
    CORRUPTIONS.update({"rain": Corruption(drip, (0.1, 0.2), shrinks_by=2, header="wet"), **others})
    yield CORRUPTIONS["rain"]
    CORRUPTIONS.clear()
    CORRUPTIONS.update(others)


def made_from(data, folder, **options):
    build(data, folder, cells=[Cell("shear", 2), Cell("lidar", 2)], points=64, **options)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_changes_no_bytes_of_the_others(rain, tmp_path):
    data = boxes(3, points=200)
    with_it = made_from(data, tmp_path / "with")
    del CORRUPTIONS["rain"]
    assert made_from(data, tmp_path / "without") == with_it


def test_the_published_ones_keep_their_numbers_and_others_have_that_of_their_name(rain):
    assert [seed_number(name) for name in published()] == list(range(15))
    assert len(published()) == 15
    assert seed_number("rain") == 832_259_269  # the first four bytes of sha256(b"rain")
    assert [*COLUMNS] == [*published(), "rain"]


def test_it_is_applied_by_name(rain):
    cloud = clouds(1, 64)[0].numpy()
    bad = pg.corrupt(cloud, "rain", severity=2, generator=np.random.default_rng(0))
    np.testing.assert_allclose(bad[:, :2], cloud[::2, :2])
    assert strength_of("rain", 2) == 0.2
    with pytest.raises(ValueError, match="severity of rain must lie in 1 to 2; got 3"):
        pg.corrupt(cloud, "rain", severity=3, generator=np.random.default_rng(0))


def test_one_worker_and_two_make_the_same_bytes(rain, tmp_path):
    data = boxes(40, points=130)
    for workers in (1, 2):
        build(data, tmp_path / str(workers), cells=[Cell("rain", 1)], points=64, workers=workers)
    one, two = (pg.load_corrupted(tmp_path / name, "rain", severity=1) for name in ("1", "2"))
    assert one.points.shape == (40, 64, 3)
    np.testing.assert_array_equal(one.points, two.points)


def test_it_goes_the_whole_way_from_corrupt_to_a_plot(rain, purgegate, tmp_path):
    data = boxes(9, points=200)
    np.savez(tmp_path / "boxes.npz", points=data.points, label=data.label, classes=data.classes)
    pg.save_backbone(small_model(classes=3), tmp_path / "small.safetensors", class_names=data.classes)
    (tmp_path / "recipe.toml").write_text(
        f"""title = "own"
        dataset = "boxes"
        methods = ["source", "source_bn", "tent"]
        weights = ["{tmp_path / "small.safetensors"}"]
        corruptions = ["rain", "shear"]
        severities = [2]
        points = 64
        batches = [3]"""
    )
    bad, results = tmp_path / "bad", tmp_path / "results.jsonl"
    chosen = ("--corruption", "rain", "--corruption", "shear", "--severity", 2, "--points", 64)
    ways = [
        ("corrupt", tmp_path / "boxes.npz", bad, *chosen),
        ("bench", tmp_path / "recipe.toml", "--data", bad, "--out", results),
        ("table", results, "--format", "markdown"),
        *(("plot", kind, results, "--out", tmp_path / f"{kind}.png") for kind in ("corruptions", "gains")),
    ]
    runs = [purgegate(*way) for way in ways]
    assert [run.code for run in runs] == [0] * 5, [run.err for run in runs]
    assert "| shear | wet | mean of 2 |" in runs[2].out


def test_the_paper_stands_beside_its_own_corruptions_alone(rain):
    rows = full("source")  # of all that are registered
    (alone,) = make_tables([each for each in rows if each["corruption"] != "rain"])
    assert grid_of(alone).header[-5] == "mean"
    assert any(line.published for line in beside_paper(alone).lines)
    (table,) = make_tables(rows)
    assert grid_of(table).header[-6:-4] == ("wet", "mean of 16")
    assert not any(line.published for line in beside_paper(table).lines)
