"""A bad file is one line that names it, whatever is wrong with it."""

import tracemalloc
from pathlib import Path

import pytest

from purgegate.io.clouds import read_cloud
from purgegate.io.datasets import load_dataset
from tests.io.malformed import MALFORMED

NAMES = [name for name, _ in MALFORMED]


def test_the_malformed_files_are_many_and_different() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 30


@pytest.fixture(params=MALFORMED, ids=NAMES)
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name, data = request.param
    (tmp_path / name).write_bytes(data)
    return tmp_path / name


@pytest.mark.parametrize("read", [read_cloud, load_dataset])
def test_a_malformed_file_is_one_line_that_names_it(read, bad: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"^{bad} ") as caught:
            read(bad)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) > len(str(bad)) + 20
    assert most < 300_000_000  # what a file only declares is not allocated
