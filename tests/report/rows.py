"""Result rows that several tests use."""

from typing import Any

from purgegate.io.results import Row
from purgegate.report.names import COLUMNS

SHARED = {
    "dataset": "modelnet40_c",
    "backbone": "point_mae_tiny",
    "weights": "tiny",
    "fingerprint": "0123abcd",
    "severity": 5,
    "batch": 32,
    "points": 1024,
    "reset": "domain",
    "order": "shuffled",
    "total": 200,
    "seconds": 0.4,
    "memory": 100.0,
    "entropy": 0.5,
    "purge": 0.0,
}


def row(method: str = "source", corruption: str = "uniform", *, correct: int = 100, **facts: Any) -> Row:
    """One row; by default half of 200 clouds are right."""
    return {**SHARED, "method": method, "corruption": corruption, "seed": 0, "correct": correct, **facts}


def full(method: str, correct: int = 100, **facts: Any) -> list[Row]:
    """A method's rows for the 15 corruptions, with two clouds more for each that follows."""
    return [row(method, name, correct=correct + 2 * place, **facts) for place, name in enumerate(COLUMNS)]
