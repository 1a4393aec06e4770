"""Small models and clouds that several tests use."""

import torch
from torch import nn

import purgegate as pg


def clouds(batch: int, count: int = 256, *, seed: int = 0) -> torch.Tensor:
    """Random clouds, the same for the same seed."""
    return torch.rand(batch, count, 3, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small_model(*, seed: int = 0, classes: int = 5, groups: int = 16, width: int = 48) -> nn.Module:
    """A small Point-MAE with random weights and BatchNorm statistics that are not the trivial ones."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = pg.create_backbone(
            "point_mae",
            classes=classes,
            width=width,
            depth=3,
            heads=4,
            groups=groups,
            group_size=8,
            encoder_widths=(128, 256, 512),
        )
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm1d):
                layer.running_mean.normal_(0, 0.2)
                layer.running_var.uniform_(0.5, 1.5)
                nn.init.uniform_(layer.weight, 0.5, 1.5)
                nn.init.normal_(layer.bias, 0, 0.2)
    return model
