"""What every test may use: the shared data, where it is present."""

from pathlib import Path

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
