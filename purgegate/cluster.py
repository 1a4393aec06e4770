"""Dask as the executor of our work: workers on other machines, which may come, go and die while it runs."""

import logging
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from purgegate.schedulers import KINDS, Threads, import_dask, start_scheduler
from purgegate.transport import Shared, door, pack, unpack

Listener = Callable[[Any], None]

TOPIC = "purgegate"
RETRIES = 3  # of a task whose worker died, as is usual with Dask
PAUSE = 1.0  # seconds between two reports of one task, and between two counts of the workers
PATIENCE = 10  # seconds until a scheduler that does not answer is given up
RENEWAL = 60.0  # seconds between two looks for jobs of a queue whose time is over

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_one_at_a_time = threading.Lock()  # in a worker: time and memory are measured by process


class Cluster:
    """A Dask client as what `worker_map` needs: tasks taken, things shared, workers counted."""

    def __init__(self, client: Any, *, heard: Listener, renew: Callable[[], None]) -> None:
        from distributed import KilledWorker

        self.lost: tuple[type[Exception], ...] = (KilledWorker,)
        self.client, self.spare = client, 0
        self.page = _page_of(client)
        self._heard, self._renew = heard, renew
        self._begun: Counter[str] = Counter()  # how often, by the names of tasks
        self._tasks: dict[Future[Any], Any] = {}
        self._count, self._counted, self._renewed = 0, 0.0, time.monotonic()
        topic = f"{TOPIC}-{uuid.uuid4()}"
        self._enter = door(topic)
        client.subscribe_topic(topic, lambda event: self._hear(*event[1]))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have a worker call a function; what was shared goes to that worker, if it is not there already."""
        packed, shared = pack((function, arguments))
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()
        answer.add_done_callback(lambda done: self._tasks.pop(done, None))
        self._send(answer, partial(self.client.submit, self._enter, packed, *shared), function.__name__)
        return answer

    def _send(self, answer: Future[Any], send: Callable[..., Any], name: str, *, again: bool = False) -> None:
        task = self._tasks[answer] = send(key=_new_key(name))  # Dask forgets a task that nobody holds

        def pass_on(_: Any) -> None:
            # Dask's own executor may lose a result whose worker dies in that moment; asked again, it is made
            # again.
            try:
                answer.set_result(task.result())
            except self.lost as error:
                # Dask also suspects a task that waited where another ended the worker.
                if again or self._begun[task.key] > RETRIES:
                    answer.set_exception(error)
                else:
                    self._send(answer, send, name, again=True)
            except BaseException as error:  # a cancelled task, too, is an answer
                gone = CancelledError("the scheduler does not answer") if task.cancelled() else error
                answer.set_exception(gone)

        task.add_done_callback(pass_on)

    def _hear(self, key: str, message: Any) -> None:
        """Take what a worker says of a task: that it begins, or what the task reports."""
        if message is None:
            self._begun[key] += 1
        else:
            self._heard(message)

    def count(self) -> int:
        """How many workers there are now, or were a second ago."""
        if self.client.status != "running":
            raise CancelledError("the scheduler does not answer")
        now = time.monotonic()
        if now - self._counted > PAUSE:
            self._count = self.client.scheduler_info(n_workers=0).get("n_workers", 0)
            self._counted = now
        if now - self._renewed > RENEWAL:
            self._renew()
            self._renewed = now
        return self._count

    def share(self, value: Any) -> Shared:
        """Bring a value to the cluster, whence it goes to each worker that needs it; once, but for deaths.

        It is a task of its own, not Dask's `scatter`: that is lost for good with the worker that holds it.
        And it is bytes: what no worker between here and there has to understand.
        """
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            packed, _ = pack(value)
            return Shared(self.client.submit(bytes, packed, key=_new_key("shared")))


def _new_key(name: str) -> str:
    """A name of a task, as Dask's page shows it up to the number."""
    return f"{name}-{uuid.uuid4()}"


def _page_of(client: Any) -> str:
    """Where Dask's page is, or "" where the scheduler has none."""
    try:
        return client.dashboard_link or ""
    except KeyError:
        return ""


@contextmanager
def open_cluster(where: str, *, workers: int, threads: Threads, heard: Listener) -> Iterator[Cluster]:
    """Connect to a scheduler, or start one with workers of its own; a scheduler that dies is an error."""
    client_class, gone = import_dask("distributed").Client, import_dask("distributed.comm").CommClosedError
    with start_scheduler(where, workers=workers, threads=threads) as scheduler:
        client = _connect(client_class, scheduler.address, where)
        with _quiet("distributed", "distributed.client"):  # our message says what a person can do
            try:
                yield Cluster(client, heard=heard, renew=scheduler.renew)
            except Exception as error:
                if client.status == "running" and not isinstance(error, (CancelledError, gone)):
                    raise
                raise ConnectionError(
                    f"the scheduler of --cluster {where} is gone: start it again, and give the same command, "
                    "which goes on where it was"
                ) from error
            finally:
                client.close(timeout=PATIENCE)


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Keep loggers from printing the traces of what is told in words."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


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


def run_there(topic: str, packed: bytes, shared: Sequence[bytes]) -> Any:
    """Run a packed call in a worker, one at a time, and pass on what it reports."""
    from distributed import get_worker

    worker, last = get_worker(), 0.0
    key = worker.get_current_task()

    def pass_on(message: Any) -> None:
        nonlocal last
        if time.monotonic() - last > PAUSE:
            last = time.monotonic()
            worker.log_event(topic, (key, message))

    with _one_at_a_time, listening(pass_on):
        worker.log_event(topic, (key, None))
        try:
            function, arguments = unpack(packed, shared)
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"the worker on {socket.gethostname()} lacks what it is sent: {error}; have the same modules "
                "there"
            ) from error
        return function(*arguments)


def _connect(client_class: Any, scheduler: Any, where: str) -> Any:
    try:
        return client_class(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionError(
            f"no scheduler answers at {where}: start one with `dask scheduler`, and workers with "
            f"`dask worker {where} --nthreads 1`; --cluster takes {KINDS}"
        ) from error
