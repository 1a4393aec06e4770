"""How long the fuzzing lasts: seconds with the other tests, minutes by `make fuzz`."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

INPUTS = int(os.environ.get("PURGEGATE_FUZZ", "20"))  # of each test

settings.register_profile(
    "purgegate",
    max_examples=INPUTS,
    deadline=None,
    derandomize="PURGEGATE_FUZZ"
    not in os.environ,  # the same inputs each time, unless one looks for new ones
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("purgegate")

counts: Counter[str] = Counter()


@pytest.fixture(scope="session")
def count():
    """Count inputs by kind; the sum is told at the end."""
    return counts


def pytest_terminal_summary(terminalreporter) -> None:
    if counts:
        terminalreporter.write_line("fuzzed: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))
