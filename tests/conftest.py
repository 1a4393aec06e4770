"""What every test may use: the shared data, where it is present, and the command line."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of golden numbers and real shapes beside the project; tests that need it skip without it."""
    if not SHARED.is_dir():
        pytest.skip(
            "needs the golden numbers and real shapes in ../shared, which are not part of the project"
        )
    return SHARED


class Run(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def purgegate(monkeypatch, capsys):
    """Run `purgegate` with arguments in this process, as a person types it."""
    from purgegate.cli import main

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["purgegate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return Run(stop.value.code, *capsys.readouterr())

    return run
