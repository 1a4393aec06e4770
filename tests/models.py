"""Small models and clouds that several tests use."""

import torch
from torch import nn

import purgegate as pg
from purgegate.backbones.attention import DropPath
from purgegate.backbones.auxiliary import AUXILIARY, make_auxiliary


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
        _unsettle(model)
    return model


def joint_model(*, seed: int = 0, depth: int = 1, **sizes: int) -> nn.Module:
    """The same with a decoder, a rotation head and spheres: what test-time training asks for."""
    model = small_model(seed=seed, **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for name in AUXILIARY:
            model.auxiliary[name] = make_auxiliary(name, model, depth=depth)
    return model.eval()


def small_mamba(*, seed: int = 0, **sizes: int) -> nn.Module:
    """A small PointMamba with random weights and BatchNorm statistics that are not the trivial ones."""
    small = {"classes": 5, "width": 40, "depth": 3, "groups": 16, "group_size": 8}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = pg.create_backbone("point_mamba", **{**small, "encoder_widths": (16, 24, 32), **sizes})
        _unsettle(model)
    return model


class WithoutBatchNorm(nn.Linear):
    """A model of one's own that has no BatchNorm."""

    def tokenize(self, points):
        """The points themselves."""
        return points

    def encode(self, tokens):
        """Their mean."""
        return tokens.mean(dim=1)

    def head(self, feature):
        """A linear layer."""
        return self(feature)


def without_rates(model: nn.Module) -> nn.Module:
    """The model with all dropout and drop-path at rate 0."""
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
        if isinstance(layer, DropPath):
            layer.rate = 0.0
    return model


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of everything that the model holds."""
    return {key: value.clone() for key, value in model.state_dict().items()}


def _unsettle(model: nn.Module) -> None:
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, 0, 0.2)
