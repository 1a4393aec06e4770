"""Work spread over processes here, or over Dask's workers anywhere, by one interface."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import Any, NamedTuple, Protocol, runtime_checkable

from purgegate.cluster import Listener, listening, open_cluster
from purgegate.schedulers import check_workers

Function = Callable[..., Any]
Share = Callable[[Any], Any]
Provide = Callable[[Any, Share], Any]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PATIENCE = 1.0  # seconds until workers are counted again while no task ends


class AbsentError(Exception):
    """A worker does not see what a task needs, which is then sent along."""


class Watch(NamedTuple):
    """Who is told of the work while it goes on."""

    joined: Callable[[int, str], None] = lambda workers, page: None  # how many there are; their page, or ""
    heard: Listener = lambda message: None  # what a task reports of itself
    lost: Callable[[Any, str], None] | None = None  # a task whose workers died again and again, and why


@runtime_checkable
class Crew(Protocol):
    """What runs tasks: an executor that can share values and count its workers."""

    lost: tuple[type[Exception], ...]  # errors of a task whose workers died again and again
    spare: int  # tasks that wait beside each worker while it is at another
    page: str  # where the work can be watched in a browser, or ""

    def submit(self, function: Function, *arguments: Any) -> Future[Any]:
        """Begin a task."""

    def count(self) -> int:
        """How many workers there are now."""

    def share(self, value: Any) -> Any:
        """What stands for a value that many tasks need; as an argument it becomes the value again."""


class Map:
    """A `map` over a crew, with results in the order of the tasks or as soon as they are known."""

    def __init__(self, crew: Crew, *, ordered: bool, watch: Watch) -> None:
        self.crew, self.ordered, self.watch = crew, ordered, watch

    def __call__(
        self, function: Function, tasks: Iterable[Any], *, provide: Provide | None = None
    ) -> Iterator[Any]:
        """Results of tasks; `provide` makes what a worker that lacks it gets as a second argument.

        Few tasks are built before their time.
        """
        if self.ordered:
            return self._in_order(function, iter(tasks))
        return self._as_known(function, iter(tasks), provide)

    def share(self, value: Any) -> Any:
        """What stands for a value that many tasks need."""
        return self.crew.share(value)

    def _room(self, taken: int) -> int:
        count = self.crew.count()
        self.watch.joined(count, self.crew.page)
        return max(max(count, 1) * (1 + self.crew.spare) - taken, 0)

    def _in_order(self, function: Function, tasks: Iterator[Any]) -> Iterator[Any]:
        waiting: deque[Future[Any]] = deque()
        while True:
            waiting.extend(
                self.crew.submit(function, task) for task in islice(tasks, self._room(len(waiting)))
            )
            if not waiting:
                return
            try:
                result = waiting.popleft().result()
            except self.crew.lost as error:
                raise OSError(f"{error}: give the same command again, on fewer or larger workers") from error
            yield result

    def _as_known(self, function: Function, tasks: Iterator[Any], provide: Provide | None) -> Iterator[Any]:
        waiting: dict[Future[Any], tuple[Any, bool]] = {}
        absent: list[Any] = []  # tasks that must bring what they need
        bring = False  # once a worker lacks something, all tasks do

        def fill() -> None:
            room = self._room(len(waiting))
            again, absent[:] = absent[:room], absent[room:]
            for task in [*again, *islice(tasks, room - len(again))]:
                given = [provide(task, self.share)] if bring and provide else []
                waiting[self.crew.submit(function, task, *given)] = task, bring

        fill()
        while waiting:
            # Not for long: workers may have joined, for whom there is no task yet.
            done = wait(waiting, timeout=PATIENCE, return_when=FIRST_COMPLETED).done
            known = [(future, *waiting.pop(future)) for future in done]
            fill()  # first, so that no worker waits for what is done with the results
            for future, task, brought in known:
                try:
                    result = future.result()
                except AbsentError:
                    if provide is None or brought:
                        raise
                    absent.append(task)
                    bring = True
                except self.crew.lost as error:
                    if self.watch.lost is None:
                        raise
                    self.watch.lost(task, str(error))
                else:
                    yield result
            if not waiting:
                fill()


class Alone:
    """A plain `map` in this process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __call__(
        self, function: Function, tasks: Iterable[Any], *, provide: Provide | None = None
    ) -> Iterator[Any]:
        """Results of tasks, each done when it is asked for."""
        self.watch.joined(1, "")
        for task in tasks:
            with listening(self.watch.heard):
                result = function(task)
            yield result

    def share(self, value: Any) -> Any:
        """The value itself."""
        return value


@contextmanager
def worker_map(
    workers: int, *, cluster: str | None = None, ordered: bool = True, watch: Watch | None = None
) -> Iterator[Map | Alone]:
    """Give a `map` over that many processes, which share the threads; one worker is this process itself.

    With `cluster`, over the workers of a Dask scheduler: its address, "local:N" or "slurm".
    """
    if cluster is None:
        check_workers(workers)
    watch = watch or Watch()
    if workers == 1 and cluster is None:
        yield Alone(watch)
        return
    with _crew(workers, cluster, ordered=ordered, heard=watch.heard) as crew:
        yield Map(crew, ordered=ordered, watch=watch)


@contextmanager
def _crew(workers: int, cluster: str | None, *, ordered: bool, heard: Listener) -> Iterator[Crew]:
    if cluster is not None:
        # A task that waits shares the blame when its worker dies, so none does where tasks are long.
        with open_cluster(cluster, workers=workers, threads=_shared_threads, heard=heard) as found:
            found.spare = int(ordered)
            yield found
    else:
        with _Processes(workers).open() as crew:
            yield crew


class _Processes:
    """Processes of this machine."""

    lost: tuple[type[Exception], ...] = ()
    spare, page = 1, ""

    def __init__(self, workers: int) -> None:
        # Spawned, not forked: a fork copies the locks of this process's threads in whatever state they are.
        self.pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent)
        self.workers = workers

    @contextmanager
    def open(self) -> Iterator["_Processes"]:
        try:
            with _environment(_shared_threads(self.workers)):
                yield self
        except BrokenProcessPool as error:
            raise OSError(
                "a worker process was ended, perhaps for want of memory: give the same command again, with "
                "fewer --workers"
            ) from error
        finally:
            self.pool.shutdown(cancel_futures=True)

    def submit(self, function: Function, *arguments: Any) -> Future[Any]:
        return self.pool.submit(function, *arguments)

    def count(self) -> int:
        return self.workers

    def share(self, value: Any) -> Any:
        return value


def _shared_threads(workers: int) -> dict[str, str]:
    """Variables by which so many processes of this machine share its threads."""
    return dict.fromkeys(THREADS, str(max((os.cpu_count() or 1) // workers, 1)))


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
