"""What `--cluster` names: a Dask scheduler that runs, or one that is started with workers of its own."""

import importlib
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Threads = Callable[[int], dict[str, str]]  # variables by which so many processes share the threads

KINDS = "ADDRESS of a running scheduler (tcp://host:8786), local:N, slurm or slurm:N"
MOST_A_PROCESSOR, MOST_JOBS = 16, 10_000  # workers that are started at once
ADDRESS = re.compile(r"(\w+://)?[^\s/]+:\d+")


class Where(NamedTuple):
    """What to start, "local" or "slurm" with so many workers, or nothing where a scheduler runs."""

    kind: str
    workers: int | None


class Scheduler(NamedTuple):
    """What a client connects to, and how jobs whose time is over are given in again."""

    address: Any
    renew: Callable[[], None] = lambda: None


def read_where(where: str) -> Where:
    """Take `--cluster` apart, or refuse it."""
    kind, colon, number = where.partition(":")
    if kind in ("local", "slurm") and "/" not in where:
        if not colon or (number.isdecimal() and int(number) > 0):
            return Where(kind, int(number) if colon else None)
    elif ADDRESS.fullmatch(where):
        return Where("", None)
    raise ValueError(f"--cluster must be {KINDS}; got {where!r}")


@contextmanager
def start_scheduler(where: str, *, workers: int, threads: Threads) -> Iterator[Scheduler]:
    """What a client connects to: an address, or a cluster that lives as long as the work."""
    kind, number = read_where(where)
    count = number or workers
    if kind:
        check_workers(count, most=MOST_JOBS if kind == "slurm" else None)
    if kind == "local":
        # Who starts a dead worker again is dismissed where it is dead anew after so long; here, never.
        patience = {"distributed.deploy.lost-worker-timeout": "1000 days"}
        with import_dask("dask").config.set(patience), _local(count, threads(count)) as cluster:
            yield Scheduler(cluster)
    elif kind == "slurm":
        with _slurm(count) as cluster:
            yield Scheduler(cluster, renew=lambda: cluster.scale(jobs=count))
    else:
        yield Scheduler(where)


def check_workers(count: int, *, most: int | None = None) -> None:
    """Refuse to start none, or more than a machine has memory for; in a queue there may be more."""
    most = most or MOST_A_PROCESSOR * (os.cpu_count() or 1)
    if not 1 <= count <= most:
        raise ValueError(f"the number of workers must be at least 1 and at most {most:,}; got {count}")


def import_dask(name: str) -> Any:
    """A module of Dask, or the way to have it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(f"--cluster needs Dask: pip install 'purgegate[cluster]' ({error})") from error


def _local(count: int, env: dict[str, str]) -> Any:
    """Worker processes on this machine, without a limit on their memory, as those of --workers are."""
    return import_dask("distributed").LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, memory_limit=0, env=env,
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
    )  # fmt: skip


def _import_jobqueue() -> Any:
    """dask-jobqueue, but not its hand on Ctrl-C, by which a run broken off would end as a whole one."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return import_dask("dask_jobqueue")
    finally:
        signal.signal(signal.SIGINT, before)


def _slurm(count: int) -> Any:
    """Jobs of a SLURM queue, described in Dask's jobqueue.yaml; each core of a job is a worker."""
    jobqueue, config = _import_jobqueue(), import_dask("dask").config
    cores, memory, processes, options = (
        config.get(f"jobqueue.slurm.{name}", None)
        for name in ("cores", "memory", "processes", "scheduler-options")
    )
    if None in (cores, memory):
        raise ValueError(
            "--cluster slurm needs the cores and memory of a job in ~/.config/dask/jobqueue.yaml; got "
            f"{cores} and {memory}"
        )
    cluster = jobqueue.SLURMCluster(
        processes=processes or cores, scheduler_options={"dashboard_address": ":0", **(options or {})}
    )

    async def give_in() -> None:
        # As `scale` does, which would only log that a job was refused.
        while len(cluster.worker_spec) < count:
            cluster.worker_spec.update(cluster.new_worker_spec())
        await cluster._correct_state()

    try:
        cluster.sync(give_in)
    except (OSError, RuntimeError) as error:
        for job in cluster._created:  # that one never began is not expected when all are closed
            job.status = import_dask("distributed.core").Status.closed
        cluster.close()
        said = " ".join(str(error).split())
        raise OSError(f"--cluster slurm could not give its jobs to sbatch: {said}") from error
    return cluster
