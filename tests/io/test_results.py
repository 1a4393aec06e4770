import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from purgegate.io.results import append_rows, key_of, read_rows, writing

ROW = {"method": "source", "corruption": "uniform", "severity": 5, "seed": 0, "correct": 3, "total": 4}


def test_rows_come_back_as_they_went(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    append_rows(path, [ROW])
    append_rows(path, [{**ROW, "seed": 1}])
    assert read_rows(path) == [ROW, {**ROW, "seed": 1}]


def test_no_file_is_no_rows(tmp_path):
    assert read_rows(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_last_line_is_passed_over_and_then_written_over(tmp_path, cut: int):
    path = tmp_path / "results.jsonl"
    append_rows(path, [ROW])
    path.write_bytes(path.read_bytes() + json.dumps({**ROW, "seed": 1}).encode()[:cut])
    assert read_rows(path) == [ROW]
    append_rows(path, [{**ROW, "seed": 2}])
    assert read_rows(path) == [ROW, {**ROW, "seed": 2}]


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(ROW))
    assert read_rows(path) == [ROW]
    append_rows(path, [{**ROW, "seed": 1}])
    assert read_rows(path) == [ROW, {**ROW, "seed": 1}]


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "results.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"results\.jsonl is no file of rows"):
        read_rows(tmp_path / "results.jsonl")


def test_the_same_measurement_counts_once(tmp_path):
    path = tmp_path / "results.jsonl"
    append_rows(path, [ROW, {**ROW, "seconds": 2}])
    assert read_rows(path) == [ROW]
    append_rows(path, [{**ROW, "correct": 2}])
    with pytest.raises(
        ValueError, match=r"line 3 has another result for source, uniform .* Remove the older"
    ):
        read_rows(path)


def test_what_came_out_is_not_part_of_the_key():
    assert key_of(ROW) == key_of({**ROW, "correct": 0, "seconds": 9})
    assert key_of(ROW) != key_of({**ROW, "severity": 4})


@pytest.mark.parametrize("line", ["not json", "5", "[]"])
def test_a_broken_line_in_the_middle_is_named(tmp_path, line: str):
    path = tmp_path / "results.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{line}\n{json.dumps({**ROW, 'seed': 1})}\n")
    with pytest.raises(ValueError, match=r"line 2 is no JSON object"):
        read_rows(path)


@pytest.mark.parametrize(
    "content",
    [
        b"[1, 2]\n",
        b'{"a": 1}\n',
        b'{\n  "method": "source"\n}\n',
        b"precious",
        b"\n",
        b"\xff\x00",
        b'{"a": 1}',
    ],
)
def test_rows_are_not_added_to_a_foreign_file(tmp_path, content: bytes):
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"settings\.json is no file of rows, which are .*: give another file"
    ):
        append_rows(path, [ROW])
    assert path.read_bytes() == content


@pytest.mark.parametrize("torn", ["", "{", '{"', '{"method": "ten'])
def test_a_file_of_one_torn_row_is_begun_again(tmp_path, torn: str):
    path = tmp_path / "results.jsonl"
    path.write_text(torn)
    append_rows(path, [ROW])
    assert read_rows(path) == [ROW]


@pytest.mark.timeout(20)
def test_rows_are_not_written_to_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a pipe"):
        append_rows(tmp_path / "pipe", [ROW])


WRITER = """
import sys, time
from purgegate.io.results import append_rows, writing
with writing(sys.argv[1]):
    append_rows(sys.argv[1], [{**eval(sys.argv[2]), "seed": 7}])
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """Another process that writes `results.jsonl` until it is killed."""
    command = [sys.executable, "-c", WRITER, tmp_path / "results.jsonl", repr(ROW)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        yield process
        process.kill()


def test_a_second_writer_is_refused_by_the_name_of_the_first_and_welcome_when_that_is_killed(
    writer, tmp_path
):
    path = tmp_path / "results.jsonl"
    for attempt in (lambda: writing(path).__enter__(), lambda: append_rows(path, [ROW])):
        with pytest.raises(
            BlockingIOError, match=rf"process {writer.pid} on .*: wait .* another file"
        ) as caught:
            attempt()
        assert str(caught.value).startswith(f"{path} is being written by ")
    assert [row["seed"] for row in read_rows(path)] == [7]
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    with writing(path):
        append_rows(path, [ROW])
    assert [row["seed"] for row in read_rows(path)] == [7, 0]
    assert [each.name for each in tmp_path.iterdir()] == ["results.jsonl"]


def test_threads_write_one_after_the_other(tmp_path):
    path = tmp_path / "results.jsonl"

    def add(seed: int) -> None:
        append_rows(path, [{**ROW, "seed": seed}])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(40)))
    assert sorted(row["seed"] for row in read_rows(path)) == list(range(40))
    with writing(path), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(add, 41).exception(), BlockingIOError)


def test_a_disk_without_locks_is_told(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    append_rows(tmp_path / "results.jsonl", [ROW])
    assert read_rows(tmp_path / "results.jsonl") == [ROW]
    assert "cannot be locked (Operation not supported)" in caplog.text
