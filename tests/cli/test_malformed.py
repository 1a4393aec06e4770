"""A bad file is one line on stderr and exit code 2, never a traceback."""

import sys
from pathlib import Path

import pytest

from purgegate.cli import main
from tests.io.malformed import MALFORMED


@pytest.mark.parametrize(("name", "data"), MALFORMED, ids=[name for name, _ in MALFORMED])
def test_a_malformed_file_is_one_line_and_exit_code_2(
    name: str,
    data: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = tmp_path / name
    bad.write_bytes(data)
    monkeypatch.setattr(sys, "argv", ["purgegate", "corrupt", str(bad), str(tmp_path / "made")])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.startswith(f"purgegate: {bad} ")
    assert said.count("\n") == 1
    assert not (tmp_path / "made").exists()
