"""Work over processes: results in order, or as soon as they are known."""

import os
import signal
import time

import pytest

from purgegate.workers import worker_map


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def threads(_task: int) -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


@pytest.mark.parametrize(("ordered", "expected"), [(True, [1.5, 0.0, 0.1]), (False, [0.0, 0.1, 1.5])])
def test_results_come_in_order_or_as_they_are_known(ordered: bool, expected: list[float]):
    with worker_map(2, ordered=ordered) as run:
        list(run(nap, [0.0, 0.0]))  # the processes have started
        assert list(run(nap, [1.5, 0.0, 0.1])) == expected


def end(_task: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt(_task: int) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)


@pytest.mark.parametrize("fate", [end, interrupt])
def test_a_worker_that_is_ended_is_told_in_words_and_at_once(fate):
    start = time.monotonic()
    with pytest.raises(OSError, match="a worker process was ended"), worker_map(2) as run:
        list(run(fate, [0, 1, 2]))
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("ordered", [True, False])
def test_every_task_is_done_once_however_many(ordered: bool):
    tasks = [0.001 * number for number in range(20)]
    with worker_map(2, ordered=ordered) as run:
        assert sorted(run(nap, tasks)) == tasks


def test_workers_share_the_threads(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    with worker_map(2) as run:
        assert list(run(threads, [0])) == ["4"]
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    with worker_map(2) as run:
        assert list(run(threads, [0])) == ["1"]
