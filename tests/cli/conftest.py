"""The command line, run in this process."""

import sys
from typing import NamedTuple

import pytest

from purgegate.cli import main


class Run(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def purgegate(monkeypatch, capsys):
    """Run `purgegate` with arguments, as a person types it."""

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["purgegate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return Run(stop.value.code, *capsys.readouterr())

    return run
