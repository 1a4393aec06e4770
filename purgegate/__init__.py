"""Keep a point-cloud classifier working when the world changes: token purging, no gradients, no labels."""

from purgegate.adapt.purge_gate import ClassDistance, Prediction, PurgeGate, SourceDistance
from purgegate.backbones import BACKBONES, create_backbone
from purgegate.backbones.loading import load_backbone, save_backbone
from purgegate.gate.statistics import SourceStatistics
from purgegate.tokens import Tokens

__version__ = "0.1.0"

__all__ = [
    "BACKBONES",
    "ClassDistance",
    "Prediction",
    "PurgeGate",
    "SourceDistance",
    "SourceStatistics",
    "Tokens",
    "create_backbone",
    "load_backbone",
    "save_backbone",
]
