"""Damaged weights and statistics are one line that names the file, before memory is taken."""

import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import purgegate as pg
from purgegate.backbones.base import check_sizes
from purgegate.io.checkpoints import read_checkpoint
from purgegate.points.corruptions import check_generator
from tests.models import small_mamba, small_model

STATE = {key: value.contiguous() for key, value in small_model().state_dict().items()}


def refused(load, path: Path, reason: str, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind, match=reason) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} ")
    assert "\n" not in str(caught.value)


def changed(**tensors: torch.Tensor) -> dict[str, torch.Tensor]:
    return STATE | {key.replace("__", "."): value for key, value in tensors.items()}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["a.safetensors", "a.pth"])
def test_numbers_that_are_none_are_refused_by_the_name_of_their_tensor(tmp_path, value: float, name: str):
    weight = STATE["norm.weight"].clone()
    weight[3] = value
    (save_file if name.endswith("s") else torch.save)(changed(norm__weight=weight), tmp_path / name)
    refused(read_checkpoint, tmp_path / name, r"has NaN or infinite numbers in norm\.weight: it is damaged")


@pytest.mark.filterwarnings("ignore")  # torch warns of the strange tensors themselves
@pytest.mark.parametrize(
    "strange",
    [
        torch.eye(48).to_sparse(),
        torch.ones(48, dtype=torch.complex64),
        torch.zeros(48, device="meta"),
        torch.zeros(1).expand(10**12),  # a large tensor of one value
    ],
    ids=["sparse", "complex", "meta", "expanded"],
)
def test_tensors_that_are_no_plain_numbers_are_refused(tmp_path, strange: torch.Tensor):
    torch.save(changed(norm__weight=strange), tmp_path / "a.pth")
    refused(read_checkpoint, tmp_path / "a.pth", r"norm\.weight must hold plain real numbers")


def test_names_that_are_no_text_are_refused(tmp_path):
    torch.save({0: torch.zeros(1)}, tmp_path / "a.pth")
    refused(read_checkpoint, tmp_path / "a.pth", "holds no state dict: expected tensors by name")


def test_more_blocks_than_tensors_are_refused_before_they_are_made(tmp_path):
    save_file(changed(blocks__blocks__99999999__norm1__weight=torch.ones(48)), tmp_path / "a.safetensors")
    refused(read_checkpoint, tmp_path / "a.safetensors", "belongs to more parts than it has tensors")


@pytest.mark.parametrize("header", [b"\xff" * 8, (2**40).to_bytes(8, "little") + b"{}", b"", b"{}"])
def test_an_absurd_header_is_refused(tmp_path, header: bytes):
    (tmp_path / "a.safetensors").write_bytes(header)
    refused(read_checkpoint, tmp_path / "a.safetensors", "is not a whole safetensors file")


def test_a_bomb_is_refused(tmp_path):
    torch.save({"weight": torch.zeros(1)}, tmp_path / "small.pth")
    with (
        zipfile.ZipFile(tmp_path / "small.pth") as small,
        zipfile.ZipFile(tmp_path / "a.pth", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in small.namelist():
            bomb.writestr(name, bytes(300_000_000) if name.endswith("data/0") else small.read(name))
    refused(read_checkpoint, tmp_path / "a.pth", "it is damaged, or no file of torch.save")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("load", [pg.load_backbone, pg.SourceStatistics.load])
def test_what_is_no_file_of_weights_is_told_as_what_it_is(tmp_path, load):
    (tmp_path / "page.safetensors").write_text("<!doctype html><title>Sign in</title>")
    refused(load, tmp_path / "page.safetensors", "it is a web page")
    (tmp_path / "folder.safetensors").mkdir()
    refused(load, tmp_path / "folder.safetensors", "is a folder: give a file", IsADirectoryError)
    os.mkfifo(tmp_path / "pipe.safetensors")
    refused(load, tmp_path / "pipe.safetensors", "is a pipe", OSError)


@pytest.mark.parametrize("value", ["many", 0, -1, 1.5, None, [1], {}, 10**12, True])
def test_sizes_that_cannot_be_are_refused_wherever_they_are_told(value):
    with pytest.raises(ValueError, match=r"^groups must be "):
        check_sizes(groups=value)
    if value not in (0, True):
        with pytest.raises(ValueError, match=r"^drop_path must lie in \[0, 1\)"):
            check_sizes(drop_path=value)


@pytest.mark.parametrize("make", [small_model, small_mamba])
def test_a_file_that_tells_impossible_sizes_is_refused(tmp_path, make):
    model = make()
    described = {"config": json.dumps(model.config | {"groups": 10**12})}
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    save_file(state, tmp_path / "a.safetensors", metadata=described)
    with pytest.raises(ValueError, match="groups must be at least 1 and at most"):
        pg.load_backbone(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("names", "told"),
    [(5, ()), ("abcde", ()), ([1, 2], ()), ([], ()), ([None] * 5, ()), (list("abcde"), tuple("abcde"))],
)
def test_names_of_classes_are_texts_or_none(tmp_path, names, told: tuple[str, ...]):
    described = {"config": json.dumps(small_model().config), "class_names": json.dumps(names)}
    save_file(STATE, tmp_path / "a.safetensors", metadata=described)
    assert pg.load_backbone(tmp_path / "a.safetensors").class_names == told


@pytest.mark.parametrize("names", [["a"], list("abcdef")])
def test_there_is_a_name_for_each_class(tmp_path, names: list[str]):
    described = {"config": json.dumps(small_model().config), "class_names": json.dumps(names)}
    save_file(STATE, tmp_path / "a.safetensors", metadata=described)
    reason = f"it names {len(names)} classes, and its head has 5"
    refused(pg.load_backbone, tmp_path / "a.safetensors", reason)


@pytest.mark.parametrize("key", ["class_head.8.weight", "blocks.blocks.0.norm1.weight"])
def test_a_tensor_without_a_shape_is_refused(tmp_path, key: str):
    save_file(STATE | {key: torch.ones(())}, tmp_path / "a.safetensors")
    refused(pg.load_backbone, tmp_path / "a.safetensors", "it lacks blocks, or has odd shapes")


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (5, "it has none"),
        ("b", "it has none"),
        ({"b": 5}, "not subscriptable"),
        ({"b": {}}, "it lacks 'mean'"),
        ({"b": {"mean": None, "std": [1.0], "count": 1}}, "holds no source statistics"),
        ({"b": {"mean": ["x"], "std": [1.0], "count": 1}}, "holds no source statistics"),
        ({"b": {"mean": [1.0, [2.0]], "std": [1.0], "count": 1}}, "holds no source statistics"),
        ({"b": {"mean": [1.0], "std": [1.0], "count": "many"}}, "holds no source statistics"),
        ({"b": {"mean": [1.0], "std": [1.0], "count": 3}}, "it lacks 'fingerprint'"),
    ],
)
def test_damaged_statistics_beside_weights_are_refused(tmp_path, stored, reason: str):
    save_file(STATE, tmp_path / "a.safetensors", metadata={"statistics": json.dumps(stored)})
    refused(pg.SourceStatistics.from_weights, tmp_path / "a.safetensors", reason)


@pytest.mark.parametrize("facts", [None, "5", "{", "{}", '{"count": "x", "fingerprint": 3}', "null"])
def test_damaged_files_of_statistics_are_refused(tmp_path, facts: str | None):
    described = {} if facts is None else {"source_statistics": facts}
    save_file({"mean": torch.ones(4), "std": torch.ones(4)}, tmp_path / "a.safetensors", metadata=described)
    refused(pg.SourceStatistics.load, tmp_path / "a.safetensors", "holds no source statistics: ")


@pytest.mark.parametrize("seed", [0, None, "seed", torch.Generator()])
def test_a_seed_is_no_generator(seed):
    with pytest.raises(ValueError, match=r"generator must be .* such as np\.random\.default_rng\(0\); got "):
        check_generator(seed)
