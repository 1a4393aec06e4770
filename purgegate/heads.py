"""From a cloud's feature to class logits."""

from torch import nn

HIDDEN = 256


def classifier(features: int, classes: int) -> nn.Sequential:
    """The published head: two hidden layers with BatchNorm and dropout."""
    return nn.Sequential(
        nn.Linear(features, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(HIDDEN, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(HIDDEN, classes),
    )
