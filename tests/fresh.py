"""A new Python, in which nothing is imported yet: that of the tests has everything."""

import os
import subprocess
import sys
from typing import NamedTuple

HEAVY = {"torch", "numba", "matplotlib", "scipy", "numpy"}
REPORT = "import atexit, sys; atexit.register(lambda: print('LOADED', *sys.modules))\n"


class Run(NamedTuple):
    """What was printed, and the modules that were imported."""

    printed: str
    loaded: set[str]


def run_fresh(code: str, **environment: str) -> Run:
    """Run a program; one that fails fails the test, unless it asked to exit."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT + code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in done.stderr, done.stderr
    printed, _, loaded = done.stdout.partition("LOADED")
    return Run(printed, {*loaded.split()})
