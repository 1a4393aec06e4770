"""Data sets by name or path, as clean or corrupted test sets."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from purgegate.typing import Mesh


class Dataset(NamedTuple):
    """Clouds of equal size with their labels; meshes, where known, in the same order."""

    points: Float32[np.ndarray, "n N 3"]
    label: Int64[np.ndarray, " n"]
    classes: tuple[str, ...]
    meshes: Sequence[Mesh] | None = None
