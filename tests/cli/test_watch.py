"""`purgegate watch`: files as they appear, lines, bags; the answers of a stream."""

import io
import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from signal import SIGINT
from subprocess import PIPE, Popen
from types import SimpleNamespace
from urllib.request import urlopen

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.cli import arrivals
from purgegate.io.bags import points_of, read_bag
from tests.bags import write_bag
from tests.models import clouds, small_model


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights" / "small.safetensors"
    path.parent.mkdir()
    pg.save_backbone(small_model(groups=40), path, class_names=tuple("abcde"))
    return path


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "clouds"
    made.mkdir()
    for number, cloud in enumerate(clouds(4, 300)):
        np.save(made / f"{number}.npy", cloud.numpy())
        os.utime(made / f"{number}.npy", (number, number))
    return made


@pytest.fixture
def watch(purgegate, weights):
    def run(source, *options):
        found = purgegate("watch", source, "--weights", weights, "--interval", 0.01, "--json", *options)
        return found, [json.loads(line) for line in found.out.splitlines()]

    return run


def test_a_folder_a_pipe_and_the_stream_itself_answer_alike(watch, folder, weights, monkeypatch):
    stream = pg.Stream(pg.load_backbone(weights))
    expected = [stream.push(cloud.numpy()).confidence for cloud in clouds(4, 300)]
    run, rows = watch(folder, "--once")
    assert run.code == 0, run.err
    assert [row["confidence"] for row in rows] == expected
    assert [row["file"] for row in rows] == [str(folder / f"{n}.npy") for n in range(4)]
    lines = [str(folder / "0.npy"), json.dumps(clouds(4, 300)[1].tolist())]
    lines += [json.dumps({"name": "third", "points": clouds(4, 300)[2].tolist()}), "", str(folder / "3.npy")]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    run, rows = watch("-")
    assert [row["confidence"] for row in rows] == pytest.approx(expected, abs=1e-6)
    assert [row["file"] for row in rows][1:3] == ["line 2", "third"]


def test_under_source_statistics_watch_is_predict(watch, purgegate, folder, weights):
    common = ("--method", "source", "--norm", "source")
    _, rows = watch(folder, "--once", *common)
    found = purgegate("predict", folder, "--weights", weights, "--json", *common)
    expected = [json.loads(line) for line in found.out.splitlines()]
    for row, other in zip(rows, expected, strict=True):
        assert row["class"] == other["class"]
        assert row["confidence"] == pytest.approx(other["confidence"], abs=1e-5)


def test_bad_clouds_are_reported_and_the_others_answered(watch, folder, monkeypatch):
    (folder / "bad.npy").write_bytes(b"no cloud")
    run, rows = watch(folder, "--once")
    assert run.code == 2
    assert sum("class" in row for row in rows) == 4
    assert ["bad.npy" in row["error"] for row in rows if "error" in row] == [True]
    lines = ['[[1, 2], "x"]', "{", '{"points": 3}', "[[1,2,3]]", "/no/such.npy", "[" * 5000]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    run, rows = watch("-")
    assert run.code == 2
    assert all("error" in row for row in rows)
    assert len(rows) == len(lines)
    assert "Traceback" not in run.err


def test_a_file_that_is_still_being_written_is_waited_for(folder, tmp_path):
    whole = (folder / "0.npy").read_bytes()
    slow = tmp_path / "slow"
    slow.mkdir()

    def write() -> None:
        with (slow / "slow.npy").open("wb") as file:
            for start in range(0, len(whole), 400):
                file.write(whole[start : start + 400])
                file.flush()
                time.sleep(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    items = arrivals._from_folder(slow, interval=0.05, once=False, drop_invalid=False)
    item = next(items)
    writer.join()
    assert np.array_equal(item.load(), np.load(folder / "0.npy"))


def test_a_changed_file_is_a_new_cloud(folder):
    items = arrivals._from_folder(folder, interval=0.0, once=False, drop_invalid=False)
    assert len([next(items) for _ in range(4)]) == 4
    np.save(folder / "2.npy", np.ones((300, 3)))
    assert np.array_equal(next(items).load(), np.ones((300, 3), np.float32))


def test_a_file_in_a_folder_called_as_a_class_is_of_that_class(folder, tmp_path):
    around = tmp_path / "a" / "clouds"  # what lies above the folder says nothing
    for name in ("0.npy", "b/0.npy", "b/test/1.npy", "other/0.npy"):
        (around / name).parent.mkdir(parents=True, exist_ok=True)
        (around / name).write_bytes((folder / "0.npy").read_bytes())
    items = arrivals.open_source(
        str(around), topic=None, interval=0.0, once=True, drop_invalid=False, classes=tuple("abcde")
    )
    found = {str(Path(item.name).relative_to(around)): item.truth for item in items}
    assert found == {"0.npy": "", "b/0.npy": "b", "b/test/1.npy": "b", "other/0.npy": ""}


def test_a_line_may_say_the_class_of_its_cloud(monkeypatch):
    lines = [{"points": [[0, 0, 1]], "truth": "b"}, {"points": [], "truth": "x"}, [[0, 0, 1]], {"truth": 3}]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(json.dumps, lines))))
    items = arrivals.open_source(
        "-", topic=None, interval=0.0, once=True, drop_invalid=False, classes=tuple("abcde")
    )
    assert [item.truth for item in items] == ["b", "", "", ""]


def test_a_page_shows_the_stream_until_it_is_interrupted(folder, weights):
    (folder / "b").mkdir()
    (folder / "0.npy").rename(folder / "b" / "0.npy")
    (folder / "bad.npy").write_bytes(b"no cloud")
    command = [sys.executable, "-m", "purgegate", "watch", folder, "--weights", weights, "--interval", "0.01"]
    with Popen([*command, "--once", "--json", "--page", "--no-browser"], stdout=PIPE, stderr=PIPE) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline().decode())[0]
            while b"its page stays" not in process.stderr.readline():
                pass
            page = urlopen(address).read().decode()
            told = json.loads(urlopen(f"{address}stream?after=0").read())
        finally:
            process.send_signal(SIGINT)
        rows = [json.loads(line) for line in process.stdout]
    assert process.returncode == 2  # for the bad one
    assert "<h1>purgegate watch: clouds</h1>" in page
    assert (told["seen"], told["known"], told["failed"], told["ended"]) == (4, 1, 1, True)
    answers = [row for row in rows if "class" in row]
    assert [cloud["shift"] for cloud in told["clouds"]] == [row["shift"] for row in answers]
    assert [picture["class"] for picture in told["pictures"]] == [row["class"] for row in answers]


def test_the_state_is_kept_and_taken_up(watch, folder, tmp_path, weights):
    state = tmp_path / "state.safetensors"
    watch(folder, "--once", "--state", state)
    stream = pg.Stream(pg.load_backbone(weights)).load(state)
    assert stream.seen == 4
    _, rows = watch(folder, "--once", "--state", state)
    stream_rows = [stream.push(cloud.numpy()).confidence for cloud in clouds(4, 300)]
    assert [row["confidence"] for row in rows] == stream_rows


def test_the_table_shows_rate_shift_and_alarm_in_80_columns(purgegate, folder, weights, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run = purgegate("watch", folder, "--weights", weights, "--once", "--interval", 0)
    assert run.code == 0, run.err
    assert "clouds/s" in run.out
    assert "alarm learning" in run.out
    names = [line.split()[1] for line in run.out.splitlines() if line.startswith("│")]
    assert names == ["0.npy", "1.npy", "2.npy", "3.npy"], "one line per cloud"
    assert run.out.endswith("┘\n")
    assert purgegate("watch", folder / "0.npy").code == 2


def test_an_alarm_is_an_event(watch, tmp_path, weights, folder):
    model = pg.load_backbone(weights)
    many = tmp_path / "many"
    many.mkdir()
    for number, cloud in enumerate(clouds(30, 300)):
        np.save(many / f"{number:02}.npy", cloud.numpy())
    found = pg.SourceReference.collect(model, [clouds(8)])
    zeros = torch.zeros(500)
    pg.SourceReference(zeros, zeros, zeros + 1e6, found.means).save(tmp_path / "sure.safetensors")
    _, rows = watch(many, "--once", "--reference", tmp_path / "sure.safetensors")
    (event,) = [row for row in rows if row.get("event") == "alarm"]
    assert event["state"] == "ringing"
    assert event["since"] == 1
    assert [row["alarm"] for row in rows if "class" in row][-1] == "ringing"


@pytest.mark.parametrize("first", [True, False], ids=["bag", "mcap"])
def test_a_bag_is_a_stream(watch, weights, tmp_path, first):
    stream = clouds(3, 300).numpy()
    stream[1, :40] = np.nan  # as depth cameras give what they did not see
    path = write_bag(tmp_path / ("a.bag" if first else "a"), stream, first=first)
    own = pg.Stream(pg.load_backbone(weights))
    expected = [own.push(cloud[np.isfinite(cloud).all(axis=1)]).confidence for cloud in stream]
    run, rows = watch(path, "--topic", "/points")
    assert run.code == 0, run.err
    assert [row["confidence"] for row in rows] == expected
    assert rows[0]["file"] == "/points@1000"
    run, _ = watch(path)
    assert run.code == 2
    assert "/points, /rear" in run.err


def test_damaged_bags_and_messages_are_refused(tmp_path):
    path = write_bag(tmp_path / "a.bag", clouds(2, 300).numpy(), first=True)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(ValueError, match="cannot be read"):
        list(read_bag(path, "/points"))
    field = SimpleNamespace(offset=0, datatype=7)
    axes = [SimpleNamespace(name=axis, **vars(field)) for axis in "xyz"]
    short = SimpleNamespace(
        is_bigendian=False, fields=axes, point_step=12, row_step=12 * 10**9, width=10**9, height=1,
        data=np.zeros(12, np.uint8),
    )  # fmt: skip
    with pytest.raises(ValueError, match="truncated or damaged"):
        points_of(short)
    with pytest.raises(ValueError, match="x, y and z"):
        points_of(SimpleNamespace(is_bigendian=False, fields=axes[:2]))
