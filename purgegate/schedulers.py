"""What `--cluster` names: a Dask scheduler that runs, or one that is started with workers of its own."""

import importlib
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Threads = Callable[[int], dict[str, str]]  # variables by which so many processes share the threads

KINDS = "ADDRESS of a running scheduler (tcp://host:8786), local:N, slurm or slurm:N"
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
    if kind == "local":
        with _local(count, threads(count)) as cluster:
            yield Scheduler(cluster)
    elif kind == "slurm":
        with _slurm(count) as cluster:
            yield Scheduler(cluster, renew=lambda: cluster.scale(jobs=count))
    else:
        yield Scheduler(where)


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
        dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR,
    )  # fmt: skip


def _slurm(count: int) -> Any:
    """Jobs of a SLURM queue, described in Dask's jobqueue.yaml; each core of a job is a worker."""
    jobqueue, config = import_dask("dask_jobqueue"), import_dask("dask").config
    known = {name: config.get(f"jobqueue.slurm.{name}") for name in ("cores", "processes")}
    scheduler = {"dashboard_address": ":0"} | config.get("jobqueue.slurm.scheduler-options")
    try:
        cluster = jobqueue.SLURMCluster(
            processes=known["processes"] or known["cores"], scheduler_options=scheduler
        )
    except ValueError as error:
        raise ValueError(
            f"--cluster slurm needs the cores and memory of a job in ~/.config/dask/jobqueue.yaml: {error}"
        ) from error
    try:
        cluster.scale(jobs=count)
        cluster.sync(cluster._correct_state)  # the jobs are given in now; else a refusal would only be logged
    except (OSError, RuntimeError) as error:
        cluster.close()
        raise OSError(f"--cluster slurm could not give its jobs to sbatch: {error}") from error
    return cluster
