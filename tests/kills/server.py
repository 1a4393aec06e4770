"""Runs commands in children of a process that has imported everything, and kills them when told."""

import json
import os
import signal
import sys
import time
from importlib import import_module

from purgegate.cli import main

for name in ("bench", "corrupt", "train"):  # commands are imported when they are run: here once for all
    import_module(f"purgegate.cli.{name}")


def start(arguments: list[str]) -> int:
    """Run one command in a child."""
    child = os.fork()
    if child:
        return child
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.argv = ["purgegate", *arguments]
    try:
        main()
    except SystemExit as stop:
        os._exit(int(stop.code or 0))
    finally:
        os._exit(70)


def serve() -> None:
    """One line of JSON in, commands and the seconds after which they are killed; their exit codes out."""
    for line in sys.stdin:
        commands, seconds = json.loads(line)
        children = [start(arguments) for arguments in commands]
        if seconds is not None:
            time.sleep(seconds)
            for child in children:
                os.kill(child, signal.SIGKILL)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.stdout.write(json.dumps(codes) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
