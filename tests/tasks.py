"""Tasks for workers in other processes, light to import, and workers of a Dask scheduler."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from purgegate.cluster import report
from purgegate.workers import AbsentError

HERE = Path(__file__).parents[1]


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def measure(task: tuple[list[str], float]) -> int:
    """The length of a text that was shared."""
    (text,), seconds = task
    time.sleep(seconds)
    return len(text)


def end(task: tuple[int, str]) -> int:
    """Take the worker along, where the task is negative; a file keeps count."""
    number, file = task
    if number < 0:
        with Path(file).open("a") as deaths:
            deaths.write(f"{number}\n")
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def needy(task: int, given: tuple[str, list[int]] | None = None) -> tuple[int, int]:
    """A task that no worker can do without what is sent."""
    if given is None:
        raise AbsentError("nothing there")
    return task, given[1][0] + len(given[0])


def steps(task: int) -> int:
    for step in range(3):
        report((task, step))
        time.sleep(1.1)
    return task


def shadow(folder: Path, *, version: str | None) -> Path:
    """Where our package is another version with nothing else in it, or none at all."""
    package = folder / f"other {version}" / "purgegate"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("" if version else "raise ImportError")
    (package / "version.py").write_text(f"__version__ = {version!r}")
    return package.parent


class Dask:
    """A scheduler, which lacks our package, and its workers, each a process; all are ended with it."""

    def __init__(self, folder: Path) -> None:
        file, path = folder / "scheduler.json", shadow(folder / "scheduler", version=None)
        self.processes: list[subprocess.Popen[bytes]] = []
        options = ("--host", "127.0.0.1", "--port", 0, "--scheduler-file", file, "--no-dashboard")
        self.scheduler = self._start("dask_scheduler", *options, cwd=path, path=path)
        self.address = _wait_for(lambda: file.exists() and json.loads(file.read_text() or "{}")["address"])

    def worker(self, *, cwd: Path = HERE, path: Path = HERE) -> subprocess.Popen[bytes]:
        options = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        return self._start("dask_worker", self.address, *options, cwd=cwd, path=path)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _start(
        self, name: str, *options: Any, cwd: Path = HERE, path: Path = HERE
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{name}", *map(str, options)]
        env = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{HERE}", "OMP_NUM_THREADS": "1"}
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen(command, cwd=cwd, env=env, **quiet))
        return self.processes[-1]


def _wait_for(found: Any, *, seconds: float = 60) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if value := found():
                return value
        except (json.JSONDecodeError, KeyError):
            pass  # not written yet
        time.sleep(0.05)
    raise TimeoutError("the scheduler did not start")
