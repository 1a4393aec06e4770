"""Keep a point-cloud classifier working when the world changes: token purging, no gradients, no labels."""

import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from purgegate.version import __version__ as __version__

if TYPE_CHECKING:  # what type checkers and editors see; a test holds that it is what PUBLIC says
    from purgegate.adapt import METHODS as METHODS
    from purgegate.adapt import create_adapter as create_adapter
    from purgegate.adapt.base import Prediction as Prediction
    from purgegate.adapt.purge_gate import ClassDistance as ClassDistance
    from purgegate.adapt.purge_gate import PurgeGate as PurgeGate
    from purgegate.adapt.purge_gate import SourceDistance as SourceDistance
    from purgegate.backbones import BACKBONES as BACKBONES
    from purgegate.backbones import create_backbone as create_backbone
    from purgegate.backbones.loading import load_backbone as load_backbone
    from purgegate.backbones.loading import save_backbone as save_backbone
    from purgegate.evaluate import Domain as Domain
    from purgegate.evaluate import Settings as Settings
    from purgegate.evaluate import evaluate as evaluate
    from purgegate.gate.statistics import SourceStatistics as SourceStatistics
    from purgegate.io.bundled import list_weights as list_weights
    from purgegate.io.clouds import read_cloud as read_cloud
    from purgegate.io.datasets import load_corrupted as load_corrupted
    from purgegate.io.datasets import load_dataset as load_dataset
    from purgegate.points.corruptions import CORRUPTIONS as CORRUPTIONS
    from purgegate.points.corruptions import corrupt as corrupt
    from purgegate.pools import Pool as Pool
    from purgegate.prepare import prepare as prepare
    from purgegate.reference import SourceReference as SourceReference
    from purgegate.serve.client import Client as Client
    from purgegate.stream import Stream as Stream
    from purgegate.tokens import Tokens as Tokens

# Public name -> its module, imported when the name is first used: `import purgegate` alone brings no torch.
PUBLIC = {
    "METHODS": "adapt",
    "create_adapter": "adapt",
    "ClassDistance": "adapt.purge_gate",
    "Prediction": "adapt.base",
    "PurgeGate": "adapt.purge_gate",
    "SourceDistance": "adapt.purge_gate",
    "BACKBONES": "backbones",
    "create_backbone": "backbones",
    "load_backbone": "backbones.loading",
    "save_backbone": "backbones.loading",
    "Domain": "evaluate",
    "Settings": "evaluate",
    "evaluate": "evaluate",
    "SourceStatistics": "gate.statistics",
    "list_weights": "io.bundled",
    "read_cloud": "io.clouds",
    "load_corrupted": "io.datasets",
    "load_dataset": "io.datasets",
    "CORRUPTIONS": "points.corruptions",
    "corrupt": "points.corruptions",
    "Pool": "pools",
    "prepare": "prepare",
    "SourceReference": "reference",
    "Client": "serve.client",
    "Stream": "stream",
    "Tokens": "tokens",
}

__all__ = sorted(PUBLIC)


if not TYPE_CHECKING:  # which would take any name for a public one

    def __getattr__(name: str) -> Any:
        """A public name, or a module of the package, imported now."""
        if name in PUBLIC:
            found = getattr(import_module(f"{__name__}.{PUBLIC[name]}"), name)
            globals()[name] = found
            return found
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        near = get_close_matches(name, PUBLIC, n=1)
        advice = f"the nearest is {near[0]!r}" if near else f"it has {', '.join(__all__)}"
        raise AttributeError(f"purgegate has no {name!r}; {advice}")


def __dir__() -> list[str]:
    """What is loaded, and the public names that are not yet."""
    return sorted({*globals(), *PUBLIC})


class _Package(ModuleType):
    """A package in which a public name is never replaced by the module of the same name.

    Python would do so with `evaluate` when it imports `purgegate.evaluate`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
