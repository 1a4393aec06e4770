"""Work spread over processes, with results in the order of the tasks."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, parent_process
from typing import Any

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@contextmanager
def worker_map(workers: int, *, ordered: bool = True) -> Iterator[Map]:
    """Give a `map` over that many processes, which share the threads; one worker is this process itself.

    Results come in the order of the tasks or, if that does not matter, as soon as they are known.
    """
    if workers < 1:
        raise ValueError(f"the number of workers must be at least 1; got {workers}")
    if workers == 1:
        yield map
        return
    # Spawned, not forked: a fork copies the locks of this process's threads in whatever state they are.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent)
    try:
        run = partial(_in_order if ordered else _as_known, pool, ahead=2 * workers)
        with _environment(dict.fromkeys(THREADS, str(max((os.cpu_count() or 1) // workers, 1)))):
            yield run
    except BrokenProcessPool as error:
        raise OSError(
            "a worker process was ended, perhaps for want of memory: give the same command again, with fewer "
            "--workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor, function: Callable[[Any], Any], tasks: Iterable[Any], *, ahead: int
) -> Iterator[Any]:
    """Run tasks without building many of them before their time."""
    waiting: deque[Future[Any]] = deque()
    for task in tasks:
        waiting.append(pool.submit(function, task))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _as_known(
    pool: ProcessPoolExecutor, function: Callable[[Any], Any], tasks: Iterable[Any], *, ahead: int
) -> Iterator[Any]:
    waiting: set[Future[Any]] = set()
    for task in tasks:
        waiting.add(pool.submit(function, task))
        if len(waiting) > ahead:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    yield from (future.result() for future in as_completed(waiting))


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables for processes that start within."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _end_with_parent() -> None:
    """Leave no worker behind when the process that started it is killed, nor at work when interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_wait_and_exit, daemon=True).start()


def _wait_and_exit() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
