"""Damaged files of every kind: an answer, or one line that names the file."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import purgegate as pg
from purgegate.io.bags import read_bag
from purgegate.io.clouds import read_cloud
from purgegate.io.datasets import load_dataset
from purgegate.io.formats import READERS
from purgegate.io.meshes import PackedMeshes
from purgegate.io.results import append_rows, read_rows
from purgegate.recipes import read_recipe
from purgegate.report.compare_files import compare, comparison_csv, comparison_grid
from purgegate.report.formats import to_csv, to_latex, to_markdown, to_text
from purgegate.report.tables import load_rows, make_tables
from tests.bags import write_bag
from tests.fuzz.mutations import mutations
from tests.fuzz.outcomes import answer_or_refusal
from tests.io.writers import CLOUD, MESHES, WRITERS
from tests.models import small_mamba, small_model
from tests.report.rows import full

RECIPES = Path(__file__).parents[2] / "recipes"
FEW = CLOUD[:12]


def written(write, name: str, folder: Path) -> bytes:
    write(folder / name)
    return (folder / name).read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


CLOUDS = [(name, lambda path, write=write: write(path, FEW)) for name, write in WRITERS]
CLOUDS += [
    (f"mesh{place}{ending}", write)
    for ending, writers in MESHES.items()
    for place, write in enumerate(writers)
]


@pytest.mark.parametrize(("name", "write"), CLOUDS, ids=[name for name, _ in CLOUDS])
def test_damaged_clouds(folder: Path, count, name: str, write) -> None:
    whole = written(write, name, folder)
    path = folder / f"damaged{Path(name).suffix}"

    @given(mutations(whole))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        count["files"] += 1
        for read in (lambda: read_cloud(path, samples=16), lambda: load_dataset(path)):
            answer_or_refusal(read)
        points = answer_or_refusal(lambda: read_cloud(path, samples=16, drop_invalid=True))
        assert points is None or np.isfinite(points).all()

    check()


def write_set(path: Path) -> None:
    clouds = np.stack([FEW, FEW + 1])
    whole = {"label": np.array([0, 1]), "classes": np.array(["a", "b"]), "split": np.array([0, 1])}
    np.savez(path, points=clouds, **whole)


def write_meshes(path: Path) -> None:
    faces, offsets = np.arange(12).reshape(-1, 3) % 3, np.array([0, 2, 4])
    np.savez(path, vertices=FEW, faces=faces, vertex_offsets=np.array([0, 6, 12]), face_offsets=offsets)


@pytest.mark.parametrize("first", [True, False], ids=["bag", "mcap"])
def test_damaged_bags(folder: Path, count, first: bool) -> None:
    bag = write_bag(folder / ("whole.bag" if first else "whole"), [FEW, FEW + 1], first=first)
    whole, path = bag.read_bytes(), folder / f"damaged{bag.suffix}"

    @given(mutations(whole))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        count["files"] += 1
        found = answer_or_refusal(lambda: list(read_bag(path, "/points")))
        assert all(np.isfinite(each.points).all() for each in found or ())

    check()


def test_damaged_data_sets(folder: Path, count) -> None:
    whole, path = written(write_set, "set.npz", folder), folder / "damaged_set.npz"

    @given(mutations(whole), st.sampled_from(["train", "test"]))
    def check(data: bytes, split: str) -> None:
        path.write_bytes(data)
        count["files"] += 1
        found = answer_or_refusal(lambda: load_dataset(path, split=split))
        assert found is None or np.isfinite(found.points).all()

    check()


def test_damaged_meshes(folder: Path, count) -> None:
    whole, path = written(write_meshes, "meshes.npz", folder), folder / "damaged_meshes.npz"

    @given(mutations(whole))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        count["files"] += 1
        meshes = answer_or_refusal(lambda: PackedMeshes.load(path))
        if meshes is not None:
            answer_or_refusal(lambda: [meshes[place] for place in range(len(meshes))])

    check()


CHECKPOINTS = {
    "mae.safetensors": lambda path: pg.save_backbone(small_model(), path, class_names=tuple("abcde")),
    "mamba.safetensors": lambda path: pg.save_backbone(small_mamba(), path),
    "new.pth": lambda path: torch.save({"base_model": small_model().state_dict()}, path),
    "old.pth": lambda path: torch.save(
        small_model().state_dict(), path, _use_new_zipfile_serialization=False
    ),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_damaged_checkpoints(folder: Path, count, name: str) -> None:
    whole = written(CHECKPOINTS[name], name, folder)
    path = folder / f"damaged{Path(name).suffix}"

    @given(mutations(whole))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        count["files"] += 1
        model = answer_or_refusal(lambda: pg.load_backbone(path))
        assert model is None or all(torch.isfinite(value).all() for value in model.state_dict().values())
        answer_or_refusal(lambda: pg.SourceStatistics.from_weights(path))

    check()


def test_damaged_statistics(folder: Path, count) -> None:
    statistics = pg.SourceStatistics(torch.ones(6), torch.ones(6), 9, "abc")
    whole, path = written(statistics.save, "s.safetensors", folder), folder / "damaged_s.safetensors"

    @given(mutations(whole))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        count["files"] += 1
        found = answer_or_refusal(lambda: pg.SourceStatistics.load(path))
        assert found is None or (found.std > 0).all()

    check()


@pytest.mark.parametrize("name", ["quick", "purge_size", "beyond_odd"])
def test_damaged_recipes(folder: Path, count, name: str) -> None:
    whole, path = (RECIPES / f"{name}.toml").read_bytes(), folder / "damaged.toml"

    @given(mutations(whole))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        count["files"] += 1
        answer_or_refusal(lambda: read_recipe(path), lines=False)

    check()


def test_damaged_rows(folder: Path, count) -> None:
    rows = full("source")[:3] + full("pg_sp", 110, options={"purge": [0, 2]})[:3]
    whole, path = "".join(json.dumps(row) + "\n" for row in rows).encode(), folder / "damaged.jsonl"

    @given(mutations(whole))
    @example(b'{"method": "source"}')
    def check(data: bytes) -> None:
        path.write_bytes(data)
        count["files"] += 1
        answer_or_refusal(lambda: read_rows(path))
        found = answer_or_refusal(lambda: load_rows(path))
        if found is not None:
            answer_or_refusal(lambda: show(found, rows))
        before = path.read_bytes()
        answer_or_refusal(lambda: append_rows(path, rows[:1]))
        kept = before[: before.rfind(b"\n") + 1]
        assert path.read_bytes().startswith(kept), "whole lines were lost"

    check()


def show(found: list[dict], rows: list[dict]) -> None:
    """Everything that a report makes of rows."""
    for tables in (make_tables(found), [comparison_grid(compare(found, rows))]):
        for write in (to_text, to_markdown, to_latex):
            write(tables)
    to_csv(make_tables(found))
    comparison_csv(compare(rows, found))


@given(ending=st.sampled_from(sorted(READERS)), data=st.binary(max_size=400))
def test_noise_is_no_cloud(folder: Path, count, ending: str, data: bytes) -> None:
    path = folder / f"noise{ending}"
    path.write_bytes(data)
    count["files"] += 1
    answer_or_refusal(lambda: read_cloud(path, samples=16))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3),
    max_leaves=8,
)
KEYS = (
    "method",
    "options",
    "dataset",
    "weights",
    "corruption",
    "severity",
    "seed",
    "correct",
    "total",
    "seconds",
)
ROWS = st.fixed_dictionaries(
    {}, optional={name: JSON for name in (*KEYS, "whole", "data", "answers", "batch")}
)


@given(changes=st.lists(ROWS, min_size=1, max_size=4))
@example(changes=[{"method": None}])
@example(changes=[{"seed": []}])
@example(changes=[{"whole": "many"}])
def test_rows_of_anything(folder: Path, count, changes: list[dict]) -> None:
    path = folder / "any.jsonl"
    path.write_text("".join(json.dumps(full("source")[0] | change) + "\n" for change in changes))
    count["files"] += 1
    found = answer_or_refusal(lambda: load_rows(path))
    if found is not None:
        answer_or_refusal(lambda: show(found, full("source")[:2]), lines=False)
