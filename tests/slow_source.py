"""A method that takes its time, for runs that are broken off in the middle of a unit."""

import time

import torch

from purgegate.adapt.base import Prediction
from purgegate.adapt.source import Source

PAUSE = 0.1


class SlowSource(Source):
    """The source model, and a pause before every batch."""

    def decide(self, points: torch.Tensor) -> Prediction:
        time.sleep(PAUSE)
        return super().decide(points)
