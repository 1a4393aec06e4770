"""Which classes were taken for which: the optional `confusion` of a row, which a recipe asks for."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from purgegate.io.results import Row

NONE = "no answer"  # of clouds whose answers are no numbers, told as -1
Confusion = dict[str, dict[str, int]]  # how many clouds of a class were taken for which; others are none


def count_confusion(
    truth: Int64[np.ndarray, " n"], told: Int64[np.ndarray, " n"], names: Sequence[str]
) -> Confusion:
    """Counts by name of the true class, then of the answer; classes without a name go by their number."""

    def name(number: int) -> str:
        if number < 0:
            return NONE
        return names[number] if number < len(names) else str(number)

    found: Confusion = {}
    for (own, other), count in sorted(Counter(zip(truth.tolist(), told.tolist(), strict=True)).items()):
        found.setdefault(name(own), {})[name(other)] = count
    return found


def confusion_of(row: Row) -> Confusion | None:
    """A row's confusion, or None where it has none; one that contradicts the row is an error."""
    found = row.get("confusion")
    if found is None:
        return None
    try:
        counts = [count for others in found.values() for count in others.values()]
        right = sum(others.get(own, 0) for own, others in found.items())
        fits = all(type(count) is int and count > 0 for count in counts)
    except AttributeError:
        counts, right, fits = [], 0, False
    if not fits or (sum(counts), right) != (row["total"], row["correct"]):
        raise ValueError(
            f"the confusion of {row['method']}, {row['corruption']} must count {row['total']} clouds, "
            f"{row['correct']} of them right: the row was changed by hand, or damaged"
        )
    return found
