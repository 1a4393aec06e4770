"""A method that takes its time, for runs that are broken off in the middle of a unit."""

import time

import torch

from purgegate.adapt.source import Source


class SlowSource(Source):
    """The source model, and a pause before every batch."""

    def answer(self, points: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        return super().answer(points)
