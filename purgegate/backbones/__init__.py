"""The classifiers that the methods adapt, by name."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from purgegate.backbones.point_mae import PointMAE
from purgegate.backbones.point_mamba import PointMamba

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "point_mae": PointMAE,  # Pang et al., ECCV 2022, as the paper uses it: width 384, 12 blocks, 6 heads
    "point_mae_tiny": partial(PointMAE, width=192, depth=6, encoder_widths=(64, 128, 256)),  # trains on a CPU
    "point_mamba": PointMamba,  # Liang et al., NeurIPS 2024: width 384, 12 blocks, no class token
    "point_mamba_tiny": partial(PointMamba, width=192, depth=6, encoder_widths=(64, 128, 256)),  # likewise
}


def create_backbone(name: str, *, classes: int, **sizes: Any) -> nn.Module:
    """A new classifier with random weights, in evaluation mode; `sizes` override those of the name."""
    if name not in BACKBONES:
        raise ValueError(f"backbone must be one of {', '.join(BACKBONES)}; got {name!r}")
    if unknown := sizes.keys() - sizes_known(name).keys():
        known = ", ".join(sizes_known(name))
        raise ValueError(f"{name} has the sizes {known}; got {', '.join(sorted(unknown))}")
    return BACKBONES[name](classes=classes, **sizes).eval()


def sizes_known(name: str) -> Mapping[str, Any]:
    """What a backbone of this name can be given."""
    return inspect.signature(BACKBONES[name]).parameters
