"""Building corrupted benchmarks: whole files, the same bytes however they were made, errors before work."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from purgegate.io.builder import build, scaled_sample
from purgegate.io.cells import Cell
from purgegate.io.datasets import load_corrupted
from purgegate.io.files import write_whole
from purgegate.io.labelled import Dataset
from purgegate.points.corruptions import CORRUPTIONS, corrupt
from purgegate.points.transforms import swap_up, unit_sphere

BOX = (
    np.array([[x, y, z] for x in (-1, 1) for y in (-0.6, 0.6) for z in (-0.3, 0.8)], dtype=np.float32),
    np.array(
        [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
         [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
    ),
)  # fmt: skip
CELLS = [Cell(name, 2) for name in CORRUPTIONS]


def source(count=70, points=1100, *, meshes=True, seed=0):
    generator = np.random.default_rng(seed)
    clouds = np.stack([unit_sphere(generator.normal(size=(points, 3))) for _ in range(count)]).astype(
        np.float32
    )
    return Dataset(
        clouds, generator.integers(0, 3, count), ("a", "b", "c"), [BOX] * count if meshes else None
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_one_worker_and_two_make_the_same_bytes(tmp_path):
    data = source()
    for workers in (1, 2):
        build(data, tmp_path / str(workers), cells=CELLS, points=512, workers=workers)
    one, two = (contents(tmp_path / name) for name in ("1", "2"))
    assert one == two
    assert len(one) == 2 * 15 + 2


def test_a_cell_is_the_corruption_of_each_cloud_by_its_own_generator(tmp_path):
    data = source(5)
    build(data, tmp_path, cells=[Cell("shear", 3)], seed=7, points=1100)
    made = load_corrupted(tmp_path, "shear", severity=3)
    np.testing.assert_array_equal(made.label, data.label)
    assert made.classes == data.classes
    for index, cloud in enumerate(data.points):
        generator = np.random.default_rng([7, list(CORRUPTIONS).index("shear"), 3, index])
        np.testing.assert_array_equal(
            made.points[index], corrupt(cloud, "shear", severity=3, generator=generator)
        )


def test_other_cells_and_other_clouds_do_not_change_a_cell(tmp_path):
    data = source(40)
    build(data, tmp_path / "all", cells=CELLS[:4], points=64)
    build(
        Dataset(data.points[:3], data.label[:3], data.classes), tmp_path / "few", cells=CELLS[2:3], points=64
    )
    few, every = (np.load(tmp_path / name / f"{CELLS[2].stem}.npy") for name in ("few", "all"))
    np.testing.assert_array_equal(few, every[:3])


def test_another_seed_makes_other_clouds(tmp_path):
    data = source(3)
    for seed in (0, 1):
        build(data, tmp_path / str(seed), cells=CELLS[:1], seed=seed)
    first, second = (np.load(tmp_path / name / f"{CELLS[0].stem}.npy") for name in ("0", "1"))
    assert not np.array_equal(first, second)


def test_density_inc_gets_twice_the_points(tmp_path):
    build(source(2), tmp_path, cells=[Cell("density_inc", 2), Cell("uniform", 2)], points=550)
    for name in ("density_inc", "uniform"):
        assert np.load(tmp_path / f"data_{name}_2.npy").shape == (2, 550, 3)


def test_a_farthest_point_sample_of_clouds_in_that_order_is_their_beginning():
    data = source(2, 300)
    ordered = scaled_sample(data.points, 299)
    np.testing.assert_array_equal(scaled_sample(ordered, 100), ordered[:, :100])


def test_clouds_are_brought_into_the_unit_sphere_but_those_that_fill_it_stay():
    data = source(2, 50)
    np.testing.assert_array_equal(scaled_sample(data.points, 50), data.points)
    np.testing.assert_allclose(scaled_sample(data.points * 30 + 4, 50), data.points, atol=1e-5)


@pytest.mark.parametrize("name", ["occlusion", "lidar"])
@pytest.mark.parametrize("meshes", [True, False])
def test_what_points_up_still_does_unless_the_published_turn_is_asked_for(name, meshes, tmp_path):
    standing = source(2, 1024, meshes=meshes)
    lying = standing._replace(
        points=np.stack([swap_up(cloud) for cloud in standing.points]),
        meshes=[(swap_up(BOX[0]), BOX[1])] * 2 if meshes else None,
    )
    made = {}
    for up, data in (("z", standing), ("y", lying), ("published", standing)):
        build(data, tmp_path / up, cells=[Cell(name, 1)], up=up)
        made[up] = np.load(tmp_path / up / f"data_{name}_1.npy")
    for index in range(2):
        np.testing.assert_array_equal(swap_up(made["z"][index]), made["published"][index])
        np.testing.assert_allclose(made["y"][index], made["published"][index], atol=1e-6)
    if meshes:  # the camera looks from above, and sees the top of the box but not its bottom
        height = made["z"][0][:, 2]
        assert (height > height.max() - 0.05).sum() > 2 * (height < height.min() + 0.05).sum()


def test_the_metadata_tell_how_a_cell_was_made(tmp_path):
    build(source(2), tmp_path / "mesh", cells=CELLS[-2:], seed=3)
    build(source(2, meshes=False), tmp_path / "points", cells=[CELLS[0], CELLS[-1]], seed=3)
    seen, scanned, noisy = (
        json.loads((tmp_path / path).read_text())
        for path in ("mesh/data_occlusion_2.json", "points/data_lidar_2.json", "points/data_uniform_2.json")
    )
    assert (seen["method"], scanned["method"], noisy["method"]) == (
        "depth buffer",
        "hidden-point removal",
        "points",
    )
    assert {
        "corruption",
        "severity",
        "seed",
        "points",
        "clouds",
        "source",
        "purgegate",
        "sha256",
    } <= noisy.keys()
    assert (seen["seed"], seen["severity"], seen["clouds"]) == (3, 2, 2)


def test_finished_cells_are_kept_and_damaged_ones_made_again(tmp_path):
    data = source(3)
    build(data, tmp_path, cells=CELLS[:3])
    before = contents(tmp_path)
    assert build(data, tmp_path, cells=CELLS[:3]) == []
    damaged, lost = (tmp_path / f"{cell.stem}.npy" for cell in CELLS[:2])
    damaged.write_bytes(damaged.read_bytes()[:-7])
    lost.unlink()
    assert build(data, tmp_path, cells=CELLS[:3]) == [damaged, lost]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("change", ["seed", "source", "points"])
def test_cells_made_otherwise_are_an_error_or_overwritten_when_asked(change, tmp_path):
    build(source(3), tmp_path, cells=CELLS[:1])
    before = contents(tmp_path)
    other = source(3, seed=1)._replace(label=source(3).label) if change == "source" else source(3)
    options = {"seed": 1} if change == "seed" else {"points": 1000} if change == "points" else {}
    with pytest.raises(FileExistsError, match=f"made with {change} .*--overwrite"):
        build(other, tmp_path, cells=CELLS[:1], **options)
    assert contents(tmp_path) == before
    assert build(other, tmp_path, cells=CELLS[:1], overwrite=True, **options)
    build(other, tmp_path / "fresh", cells=CELLS[:1], **options)
    assert contents(tmp_path) == contents(tmp_path / "fresh")


def test_labels_are_not_taken_from_under_cells_that_stay(tmp_path):
    build(source(3), tmp_path, cells=CELLS[:2])
    before = contents(tmp_path)
    other = source(3, seed=1)._replace(label=(source(3).label + 1) % 3)
    with pytest.raises(FileExistsError, match=f"so does {CELLS[1].stem}.npy: choose another folder"):
        build(other, tmp_path, cells=CELLS[:1], overwrite=True)
    assert before.items() <= contents(tmp_path).items()
    assert build(other, tmp_path, cells=CELLS[:2], overwrite=True)


@pytest.mark.parametrize("beside", [None, "", "[1]", "{"])
def test_foreign_files_are_not_touched(beside, tmp_path):
    foreign = tmp_path / f"{CELLS[0].stem}.npy"
    foreign.write_bytes(b"precious")
    if beside is not None:
        foreign.with_suffix(".json").write_text(beside)
    with pytest.raises(FileExistsError, match=r"left no readable data_uniform_2\.json"):
        build(source(2), tmp_path, cells=CELLS[:1])
    assert foreign.read_bytes() == b"precious"
    np.save(tmp_path / "label.npy", np.array([1, 2, 3]))
    foreign.unlink()
    with pytest.raises(FileExistsError, match=r"label\.npy belongs to another data set"):
        build(source(2), tmp_path, cells=CELLS[:1])


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("cell", "options", "reason"),
    [
        (Cell("rain", 1), {}, "one of uniform"),
        (Cell("lidar", 6), {}, "lidar must lie in 1 to 5"),
        (Cell("uniform", 1), {"points": 2000}, "at least 2000; the source has 1100: ask for 1100 points"),
        (
            Cell("density_inc", 1),
            {"points": 1024},
            "at least 2048; .* ask for 550 points, or leave density_inc out",
        ),
        (Cell("uniform", 1), {"points": 0}, "at least 1"),
        (Cell("uniform", 1), {"seed": -1}, "at least 0"),
        (Cell("uniform", 1), {"workers": 0}, "workers must be at least 1 and at most"),
    ],
)
def test_what_cannot_be_built_is_refused(cell, options, reason, tmp_path):
    with pytest.raises(ValueError, match=reason):
        build(source(2), tmp_path, cells=[CELLS[1], cell], **options)
    assert not list(tmp_path.glob("data_*"))


def test_an_error_names_the_cloud(tmp_path):
    data = source(40, 300)
    with pytest.raises(ValueError, match=r"cloud 0, density: .* at least 400 points"):
        build(data, tmp_path, cells=[Cell("density", 5)], points=300)
    assert not list(tmp_path.glob("data_*"))


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from test_builder import CELLS, source
from purgegate.io.builder import build
if __name__ == "__main__":
    done = 0
    def advance(cell, clouds):
        global done
        done += clouds
        if done > 1.5 * 70:
            print(*(child.pid for child in __import__("multiprocessing").active_children()), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    build(source(), sys.argv[1], cells=CELLS[:3], points=256, workers=2, advance=advance)
"""


def test_a_killed_build_is_taken_up_and_ends_in_the_same_bytes(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    here = os.path.dirname(os.path.abspath(__file__))
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "killed"), here], stdout=subprocess.PIPE, text=True
    )
    assert run.returncode == -signal.SIGKILL
    assert [path.name for path in sorted((tmp_path / "killed").glob("data_*.npy"))] == [
        f"{CELLS[0].stem}.npy"
    ]
    assert run.stdout.split()
    assert all(ends(int(pid)) for pid in run.stdout.split())
    assert len(build(source(), tmp_path / "killed", cells=CELLS[:3], points=256)) == 2
    build(source(), tmp_path / "whole", cells=CELLS[:3], points=256)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def ends(process, patience=10.0):
    """Wait until a process is gone."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
