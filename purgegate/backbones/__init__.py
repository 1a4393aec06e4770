"""The registry of classifiers that the methods adapt."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from purgegate.backbones.point_mae import PointMAE
from purgegate.backbones.point_mamba import PointMamba

# Name -> a class, or a partial of one with other sizes. An entry is all that a backbone of one's own needs:
# it is made with `classes=` and sizes, and has these as `config`. With `recognises` and `sizes_of`, as
# PointMAE and PointMamba have them, foreign checkpoints are loaded too.
BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "point_mae": PointMAE,  # Pang et al., ECCV 2022, as the paper uses it: width 384, 12 blocks, 6 heads
    "point_mae_tiny": partial(PointMAE, width=192, depth=6, encoder_widths=(64, 128, 256)),  # trains on a CPU
    "point_mamba": PointMamba,  # Liang et al., NeurIPS 2024: width 384, 12 blocks, no class token
    "point_mamba_tiny": partial(PointMamba, width=192, depth=6, encoder_widths=(64, 128, 256)),  # likewise
}


def create_backbone(name: str, *, classes: int, **sizes: Any) -> nn.Module:
    """A new classifier with random weights, in evaluation mode; `sizes` override those of the name."""
    if not isinstance(name, str) or name not in BACKBONES:
        raise ValueError(f"backbone must be one of {', '.join(BACKBONES)}; got {name!r}")
    if unknown := sizes.keys() - sizes_known(name).keys():
        known = ", ".join(sizes_known(name))
        raise ValueError(f"{name} has the sizes {known}; got {', '.join(sorted(unknown))}")
    return BACKBONES[name](classes=classes, **sizes).eval()


def class_of(name: str) -> type[nn.Module]:
    """The class of a backbone, whatever its sizes."""
    made = BACKBONES[name]
    found: Any = made.func if isinstance(made, partial) else made
    return found


def name_of(model: nn.Module) -> str:
    """The first name under which the model's class is registered."""
    found = next((name for name in BACKBONES if class_of(name) is type(model)), None)
    if found is None:
        raise ValueError(
            f"the class of a saved model must be in BACKBONES; {type(model).__name__} is not: enter it, "
            f"as in purgegate.BACKBONES['mine'] = {type(model).__name__}"
        )
    return found


def has_class(model: nn.Module) -> bool:
    """Whether the model's class is registered."""
    return any(class_of(name) is type(model) for name in BACKBONES)


def sizes_known(name: str) -> Mapping[str, Any]:
    """What a backbone of this name can be given."""
    return inspect.signature(BACKBONES[name]).parameters
