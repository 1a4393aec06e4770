"""A method that takes its time, for runs that are broken off in the middle of a unit."""

import time

import torch

from purgegate.adapt.source import Source

PAUSE = 0.1


class SlowSource(Source):
    """The source model, and a pause before every batch."""

    def answer(self, points: torch.Tensor) -> torch.Tensor:
        time.sleep(PAUSE)
        return super().answer(points)
