"""Files appear whole or not at all, also when the disk is full."""

import resource
from contextlib import contextmanager
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import purgegate as pg
from purgegate.io.files import write_whole
from purgegate.report.pictures import save_figure
from purgegate.train.loop import fit
from tests.models import small_model
from tests.train.sets import examples, new_run


@contextmanager
def full_disk(room: int = 100):
    """Let no file grow beyond so many bytes, as a disk does that is nearly full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


WRITES = {
    "bytes.npy": lambda path: write_whole(path, bytes(1000)),
    "figure.png": lambda path: save_figure(Figure(), path),
    "figure.svg": lambda path: save_figure(Figure(), path),
    "weights.safetensors": lambda path: pg.save_backbone(small_model(), path),
    "checkpoint.pth": lambda path: fit(new_run(epochs=1), examples(), out=path.parent),
}


@pytest.mark.parametrize("before", [None, b"precious"])
@pytest.mark.parametrize("name", WRITES)
def test_a_full_disk_leaves_what_was_there_and_is_one_line(tmp_path: Path, name: str, before: bytes | None):
    path = tmp_path / name
    if before is not None and name != "checkpoint.pth":  # which would be resumed
        path.write_bytes(before)
    with full_disk(), pytest.raises(OSError, match=f"{name} cannot be written: ") as caught:
        WRITES[name](path)
    assert "\n" not in str(caught.value)
    left = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert left == ({} if before is None or name == "checkpoint.pth" else {name: before})
    WRITES[name](path)
    assert path.stat().st_size > 100


def test_a_picture_has_the_format_of_its_ending_and_its_folder_is_made(tmp_path: Path):
    signs = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for ending, sign in signs.items():
        save_figure(Figure(), tmp_path / "deep" / f"a.{ending}")
        assert (tmp_path / "deep" / f"a.{ending}").read_bytes().startswith(sign)
