"""Dask as the executor of our work: workers on other machines, which may come, go and die while it runs."""

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

Listener = Callable[[Any], None]
Threads = Callable[[int], dict[str, str]]  # variables by which so many processes share the threads

KINDS = "ADDRESS of a running scheduler (tcp://host:8786), local:N, slurm or slurm:N"
TOPIC = "purgegate"
PAUSE = 1.0  # seconds between two reports of one task, and between two counts of the workers
MOST_A_PROCESSOR, MOST_JOBS = 16, 10_000  # workers that are started at once
PATIENCE = 10  # seconds until a scheduler that does not answer is given up

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_one_at_a_time = threading.Lock()  # in a worker: time and memory are measured by process


class Cluster:
    """A Dask client as what `worker_map` needs: tasks taken, things shared, workers counted."""

    def __init__(self, client: Any, topic: str) -> None:
        from distributed import KilledWorker

        self.lost: tuple[type[Exception], ...] = (KilledWorker,)
        self.client, self.topic, self.spare = client, topic, 0
        self._tasks: dict[Future[Any], Any] = {}
        self.page = str(client.dashboard_link)
        self._count, self._counted = 0, 0.0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have a worker call a function; what was shared goes to that worker, if it is not there already."""
        task = self.client.submit(run_there, self.topic, function, *arguments, pure=False)
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()
        task.add_done_callback(partial(_pass_on, answer))
        self._tasks[answer] = task  # Dask forgets a task that nobody holds
        answer.add_done_callback(lambda done: self._tasks.pop(done, None))
        return answer

    def count(self) -> int:
        """How many workers there are now, or were a second ago."""
        if self.client.status != "running":
            raise CancelledError("the scheduler does not answer")
        if time.monotonic() - self._counted > PAUSE:
            self._count = self.client.scheduler_info(n_workers=0).get("n_workers", 0)
            self._counted = time.monotonic()
        return self._count

    def share(self, value: Any) -> Any:
        """Bring a value to the cluster, whence it goes to each worker that needs it; once, but for deaths.

        It is a task of its own, not Dask's `scatter`: that is lost for good with the worker that holds it.
        """
        return self.client.submit(Held(value), pure=False)


def _pass_on(answer: Future[Any], task: Any) -> None:
    """Give what came of a task to who waits for it.

    Dask's own executor may lose a result whose worker dies in that moment; asked again, it is made again.
    """
    try:
        answer.set_result(task.result())
    except BaseException as error:  # a cancelled task, too, is an answer
        gone = CancelledError("the scheduler does not answer") if task.cancelled() else error
        answer.set_exception(gone)


class Held:
    """A value that a task returns, into which Dask does not look."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        """The value."""
        return self.value


def check_workers(count: int, *, most: int | None = None) -> None:
    """Refuse to start none, or more than a machine has memory for; in a queue there may be more."""
    most = most or MOST_A_PROCESSOR * (os.cpu_count() or 1)
    if not 1 <= count <= most:
        raise ValueError(f"the number of workers must be at least 1 and at most {most:,}; got {count}")


@contextmanager
def open_cluster(where: str, *, workers: int, threads: Threads, heard: Listener) -> Iterator[Cluster]:
    """Connect to a scheduler, or start one with workers of its own; a scheduler that dies is an error."""
    client_class = _import("distributed").Client
    topic = f"{TOPIC}-{time.time_ns()}"
    with _started(where, workers=workers, threads=threads) as scheduler:
        client = _connect(client_class, scheduler, where)
        try:
            client.subscribe_topic(topic, lambda event: heard(event[1]))
            yield Cluster(client, topic)
        except (CancelledError, _import("distributed.comm").CommClosedError) as error:
            raise ConnectionError(
                f"the scheduler of --cluster {where} is gone: start it again, and give the same command, "
                "which goes on where it was"
            ) from error
        finally:
            client.close(timeout=PATIENCE)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hear the reports of tasks that run within, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(message: Any) -> None:
    """Say from within a task how far it is, to whom it was sent by; to nobody in a process of one's own."""
    listener = _listener.get()
    if listener is not None:
        listener(message)


def run_there(topic: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task in a worker, one at a time, and pass on what it reports."""
    from distributed import get_worker

    worker, last = get_worker(), 0.0

    def pass_on(message: Any) -> None:
        nonlocal last
        if time.monotonic() - last > PAUSE:
            last = time.monotonic()
            worker.log_event(topic, message)

    with _one_at_a_time, listening(pass_on):
        return function(*arguments)


@contextmanager
def _started(where: str, *, workers: int, threads: Threads) -> Iterator[Any]:
    """What a client connects to: an address, or a cluster that lives as long as the work."""
    kind, _, number = where.partition(":")
    if kind not in ("local", "slurm") or "/" in where:
        yield where
        return
    if number and not (number.isdecimal() and int(number) > 0):
        raise ValueError(f"--cluster must be {KINDS}; got {where!r}")
    count = int(number or workers)
    check_workers(count, most=MOST_JOBS if kind == "slurm" else None)
    with _local(count, threads(count)) if kind == "local" else _slurm(count) as cluster:
        yield cluster


def _local(count: int, env: dict[str, str]) -> Any:
    """Worker processes on this machine, without a limit on their memory, as those of --workers are."""
    return _import("distributed").LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, memory_limit=0, env=env,
        dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR,
    )  # fmt: skip


def _slurm(count: int) -> Any:
    """Jobs of a SLURM queue, described in Dask's jobqueue.yaml."""
    try:
        cluster = _import("dask_jobqueue").SLURMCluster(scheduler_options={"dashboard_address": ":0"})
    except ValueError as error:
        raise ValueError(
            f"--cluster slurm needs the cores and memory of a job in ~/.config/dask/jobqueue.yaml: {error}"
        ) from error
    cluster.scale(jobs=count)
    return cluster


def _connect(client_class: Any, scheduler: Any, where: str) -> Any:
    try:
        return client_class(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionError(
            f"no scheduler answers at {where}: start one with `dask scheduler`, and workers with "
            f"`dask worker {where} --nthreads 1`; --cluster takes {KINDS}"
        ) from error


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(f"--cluster needs Dask: pip install 'purgegate[cluster]' ({error})") from error
