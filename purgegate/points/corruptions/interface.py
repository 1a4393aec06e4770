"""What a corruption takes and what it gives."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

Corrupted = Float32[np.ndarray, "M 3"]  # M: points of the corrupted cloud


@runtime_checkable
class Draws(Protocol):
    """A source of random values: numpy's `Generator`, or the `RandomState` that made the published sets."""

    def uniform(self, *args: Any, **kwargs: Any) -> Any:
        """Draw from a range."""

    def normal(self, *args: Any, **kwargs: Any) -> Any:
        """Draw from a Gaussian."""

    def choice(self, *args: Any, **kwargs: Any) -> Any:
        """Draw among values, or among the first n whole numbers."""
