"""Files that hang, fill the memory or mislead: refused at once, in one line that says what to do."""

import io
import json
import logging
import os
import socket
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import laspy
import numpy as np
import pytest
import trimesh

from purgegate.io.clouds import read_cloud
from purgegate.io.datasets import load_dataset
from purgegate.io.formats import READERS
from tests.io.malformed import laz_items, npy_header
from tests.io.writers import CLOUD, CORNERS, MESHES, PYRAMID, WRITERS

READS = pytest.mark.parametrize("read", [read_cloud, load_dataset])
MOST = 50_000_000  # bytes that a refusal may take


def refused(read, path: Path, reason: str, kind: type[Exception] = ValueError) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=reason) as caught:
            read(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path} ")
    assert "\n" not in str(caught.value)
    assert most < MOST


@pytest.mark.timeout(20)
@READS
@pytest.mark.parametrize("ending", READERS)
def test_a_pipe_is_refused_and_not_waited_for(read, ending: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")
    refused(read, tmp_path / f"pipe{ending}", "is a pipe, a socket or a device: save", OSError)


@pytest.mark.timeout(20)
def test_a_socket_and_a_device_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.ply")
        refused(read_cloud, Path("socket.ply"), "is a pipe, a socket or a device", OSError)
    (tmp_path / "device.xyz").symlink_to("/dev/zero")
    refused(read_cloud, tmp_path / "device.xyz", "is a pipe, a socket or a device", OSError)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["buffers", "images"])
def test_a_scene_does_not_wait_for_a_pipe_that_it_names(part: str, tmp_path: Path) -> None:
    trimesh.Scene([trimesh.Trimesh(CORNERS, PYRAMID)]).export(tmp_path / "scene.gltf")
    os.mkfifo(tmp_path / "pipe")
    tree = json.loads((tmp_path / "scene.gltf").read_text())
    if part == "buffers":
        tree["buffers"][0]["uri"] = "pipe"
    else:
        material = {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}
        tree |= {"images": [{"uri": "pipe"}], "textures": [{"source": 0}], "materials": [material]}
        tree["meshes"][0]["primitives"][0]["material"] = 0
    (tmp_path / "scene.gltf").write_text(json.dumps(tree))
    if part == "buffers":
        refused(read_cloud, tmp_path / "scene.gltf", "pipe is a pipe")
    else:
        assert len(read_cloud(tmp_path / "scene.gltf")) > 0


def test_a_scene_may_hold_its_buffers_in_itself(tmp_path: Path) -> None:
    scene = trimesh.Scene([trimesh.Trimesh(CLOUD, np.arange(48).reshape(-1, 3), process=False)])
    (model,) = scene.export(file_type="gltf", embed_buffers=True).values()
    (tmp_path / "embedded.gltf").write_bytes(model)
    assert b"/" in model.split(b"base64,")[1][300:]  # a long name of a file that is none
    assert len(read_cloud(tmp_path / "embedded.gltf", samples=10)) == 10


@pytest.mark.parametrize("part", ["accessors", "nodes"])
def test_a_scene_that_repeats_itself_without_end_is_refused(part: str, tmp_path: Path) -> None:
    mesh = trimesh.creation.icosphere(3)
    trimesh.Scene([mesh]).export(tmp_path / "scene.gltf")
    tree = json.loads((tmp_path / "scene.gltf").read_text())
    again = {"accessors": tree["accessors"][:1], "nodes": [{"mesh": 0}]}[part]
    tree[part] += again * 40_000
    (tmp_path / "scene.gltf").write_text(json.dumps(tree))
    refused(read_cloud, tmp_path / "scene.gltf", "far more than coordinates can be packed")


@READS
def test_a_forbidden_file_says_so(read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "mine.npy", CLOUD)
    (tmp_path / "mine.npy").chmod(0)
    if os.access(tmp_path / "mine.npy", os.R_OK):  # to the superuser nothing is forbidden

        def forbid(path: Path, *_: str) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "open", forbid)
    refused(
        read, tmp_path / "mine.npy", "may not be read: ask its owner, or `chmod u\\+r` it", PermissionError
    )


def test_a_forbidden_file_does_not_stop_the_others(purgegate, tmp_path: Path, monkeypatch) -> None:
    for name in ("bad.npy", "good.npy"):
        np.save(tmp_path / name, CLOUD)
    whole = Path.open

    def forbid(path: Path, *arguments, **options):
        if path.name == "bad.npy":
            raise PermissionError(13, "Permission denied", str(path))
        return whole(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", forbid)
    run = purgegate("predict", tmp_path / "bad.npy", tmp_path / "good.npy", "--json")
    assert run.code == 2
    assert "bad.npy may not be read" in run.err
    assert json.loads(run.out)["file"].endswith("good.npy")


@READS
@pytest.mark.parametrize("ending", READERS)
def test_a_web_page_and_a_pointer_are_named_as_such(read, ending: str, tmp_path: Path) -> None:
    page, pointer = tmp_path / f"page{ending}", tmp_path / f"pointer{ending}"
    page.write_text("\n<!DOCTYPE html>\n<html><body>404</body></html>")
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    refused(read, page, "it is a web page: fetch the file itself")
    refused(read, pointer, "it only points at a file in Git LFS")


@pytest.mark.parametrize("ending", READERS)
def test_prose_an_empty_file_and_a_folder_are_refused(ending: str, tmp_path: Path) -> None:
    for name, text in (("prose", "To whom it may concern:\nthis is no cloud.\n"), ("empty", "")):
        (tmp_path / f"{name}{ending}").write_text(text)
        refused(read_cloud, tmp_path / f"{name}{ending}", "cannot be read: ")
    (tmp_path / f"folder{ending}").mkdir()
    refused(read_cloud, tmp_path / f"folder{ending}", "is a folder: give a file", IsADirectoryError)


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a megabyte or less that unpack to gigabytes."""
    folder, count = tmp_path_factory.mktemp("bombs"), 25_000_000
    with (
        zipfile.ZipFile(folder / "one.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("points.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy_header((count, 3)))
        for _ in range(count // 1_000_000):
            member.write(bytes(12_000_000))
    with zipfile.ZipFile(folder / "many.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for number in range(30):
            archive.writestr(f"{number}.npy", npy_header((1_000_000, 3)) + bytes(12_000_000))
    with h5py.File(folder / "chunks.h5", "w") as file:
        data = file.create_dataset("data", (count, 3), "f4", chunks=(1_000_000, 3), compression="gzip")
        for start in range(0, count, 1_000_000):
            data[start : start + 1_000_000] = 0
    return folder


@READS
@pytest.mark.parametrize("name", ["one.npz", "many.npz", "chunks.h5"])
def test_a_bomb_is_refused_before_memory_is_taken(read, bombs: Path, name: str) -> None:
    assert (bombs / name).stat().st_size < 2_000_000
    refused(read, bombs / name, r"it unpacks [\d,]+ bytes to [\d,]+, far more than .*save them unpacked")


def test_members_on_top_of_each_other_do_not_make_a_bomb_likely(bombs: Path, tmp_path: Path) -> None:
    content = bytearray((bombs / "many.npz").read_bytes())
    place = -1
    while (place := content.find(b"PK\x01\x02", place + 1)) >= 0:  # each entry claims the whole file
        content[place + 20 : place + 24] = len(content).to_bytes(4, "little")
    (tmp_path / "overlap.npz").write_bytes(content)
    refused(read_cloud, tmp_path / "overlap.npz", "far more than")


def test_packed_points_that_are_too_many_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    las = laspy.LasData(laspy.LasHeader(version="1.4", point_format=6))
    las.x = las.y = las.z = np.zeros(1000)
    las.write(stream, do_compress=True)
    content = bytearray(stream.getvalue())
    content[247:255] = (10**12).to_bytes(8, "little")
    (tmp_path / "bomb.laz").write_bytes(content)
    refused(read_cloud, tmp_path / "bomb.laz", "far more than")


def test_a_panic_of_the_unpacker_is_an_error_like_others(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("purgegate.io.formats.las._check_items", lambda *args: None)
    (tmp_path / "panic.laz").write_bytes(laz_items())
    refused(read_cloud, tmp_path / "panic.laz", "its packed points are damaged")


def test_repeated_points_are_no_bomb(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "flat.npz", points=np.zeros((2, 100_000, 3), np.float32))
    assert load_dataset(tmp_path / "flat.npz").points.shape == (2, 100_000, 3)


@pytest.mark.parametrize("kind", ["link", "raw", "virtual"])
def test_arrays_that_lie_in_other_files_are_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(120))
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["data"] = CLOUD
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if kind == "link":
            file["data"] = h5py.ExternalLink(tmp_path / "other.h5", "data")
        elif kind == "raw":
            file.create_dataset("data", (10, 3), "f4", external=[(tmp_path / "secret", 0, 120)])
        else:
            layout = h5py.VirtualLayout(CLOUD.shape, "f4")
            layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "data", CLOUD.shape)
            file.create_virtual_dataset("data", layout)
    refused(read_cloud, tmp_path / "a.h5", "(link to|lies in) another file: copy it into this one")


def test_single_precision_far_away_is_told_to_be_lost(tmp_path: Path, caplog) -> None:
    cup = CLOUD / 100
    far = cup.astype(float) + np.array([500_000, 5_400_000, 300])
    for name, cloud in (("lost", far.astype(np.float32)), ("kept", far), ("near", cup + 50)):
        np.save(tmp_path / f"{name}.npy", cloud)
    with caplog.at_level(logging.WARNING, logger="purgegate"):
        kept = read_cloud(tmp_path / "kept.npy")
        read_cloud(tmp_path / "near.npy")
        assert not caplog.records
        read_cloud(tmp_path / "lost.npy")
    assert "lost.npy has lost precision: its coordinates are float32 and lie 5.4e+06" in caplog.text
    assert "in steps of 0.5 in a cloud of size 0.0" in caplog.text
    np.testing.assert_allclose(kept - kept[0], cup - cup[0], atol=1e-6)


@pytest.mark.parametrize("kind", [">f4", ">f8", "<i2", ">i8", "u1", "<f2"])
@pytest.mark.parametrize("order", "CF")
def test_numbers_of_any_kind_and_order_are_read(kind: str, order: str, tmp_path: Path) -> None:
    cloud = np.asarray(np.arange(30).reshape(10, 3), dtype=kind, order=order)
    np.save(tmp_path / "a.npy", cloud)
    np.savez(tmp_path / "a.npz", points=cloud)
    for name in ("a.npy", "a.npz"):
        assert read_cloud(tmp_path / name).tolist() == np.arange(30.0).reshape(10, 3).tolist()


def _write_each(folder: Path) -> list[Path]:
    for name, write in WRITERS:
        write(folder / name, CLOUD)
    for ending, writers in MESHES.items():
        for place, write in enumerate(writers):
            write(folder / f"pyramid{place}{ending}")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS)


def read_or_reason(path: Path) -> int | str:
    """How many points a file has, or why it has none."""
    try:
        return len(read_cloud(path, samples=64))
    except ValueError as error:
        return str(error)


def test_a_file_cut_off_anywhere_is_refused_or_has_fewer_points(tmp_path: Path) -> None:
    for path in _write_each(tmp_path):
        whole, most = path.read_bytes(), read_or_reason(path)
        places = {*range(0, len(whole), max(len(whole) // 40, 1)), *range(len(whole) - 9, len(whole))}
        for place in sorted(places):
            path.write_bytes(whole[:place])
            found = read_or_reason(path)
            assert found <= most if isinstance(found, int) else found.startswith(f"{path} cannot be read: ")
