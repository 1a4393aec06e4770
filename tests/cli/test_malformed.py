"""A bad file is one line on stderr and exit code 2, never a traceback."""

import pytest

from tests.io.malformed import MALFORMED


@pytest.mark.parametrize(("name", "data"), MALFORMED, ids=[name for name, _ in MALFORMED])
def test_a_malformed_file_is_one_line_and_exit_code_2(purgegate, name: str, data: bytes, tmp_path) -> None:
    bad = tmp_path / name
    bad.write_bytes(data)
    run = purgegate("corrupt", bad, tmp_path / "made")
    assert run.code == 2
    assert run.err.startswith(f"purgegate: {bad} ")
    assert run.err.count("\n") == 1
    assert not (tmp_path / "made").exists()
