"""Keep a point-cloud classifier working when the world changes: token purging, no gradients, no labels."""

from purgegate.adapt import METHODS, create_adapter
from purgegate.adapt.purge_gate import ClassDistance, Prediction, PurgeGate, SourceDistance
from purgegate.backbones import BACKBONES, create_backbone
from purgegate.backbones.loading import load_backbone, save_backbone
from purgegate.evaluate import Domain, Settings, evaluate
from purgegate.gate.statistics import SourceStatistics
from purgegate.io.bundled import list_weights
from purgegate.io.clouds import read_cloud
from purgegate.io.datasets import load_corrupted, load_dataset
from purgegate.points.corruptions import CORRUPTIONS, corrupt
from purgegate.tokens import Tokens
from purgegate.version import __version__ as __version__

__all__ = [
    "BACKBONES",
    "CORRUPTIONS",
    "METHODS",
    "ClassDistance",
    "Domain",
    "Prediction",
    "PurgeGate",
    "Settings",
    "SourceDistance",
    "SourceStatistics",
    "Tokens",
    "corrupt",
    "create_adapter",
    "create_backbone",
    "evaluate",
    "list_weights",
    "load_backbone",
    "load_corrupted",
    "load_dataset",
    "read_cloud",
    "save_backbone",
]
