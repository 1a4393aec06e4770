"""Methods of test-time adaptation, one paper a file."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from purgegate.adapt.base import Adapter
from purgegate.adapt.bftt3d import BFTT3D
from purgegate.adapt.controls import RandomPurge, RandomStarts
from purgegate.adapt.dua import Dua
from purgegate.adapt.ln_tta import LNTTA
from purgegate.adapt.mate import Mate
from purgegate.adapt.pg_auto import AutoGate, center_isolation
from purgegate.adapt.pointnn import PointNN
from purgegate.adapt.purge_gate import SIZES, ClassDistance, PurgeGate, SourceDistance
from purgegate.adapt.shot import Shot
from purgegate.adapt.smart_pc import SmartPC
from purgegate.adapt.source import Source
from purgegate.adapt.t3a import T3A
from purgegate.adapt.tent import Tent
from purgegate.adapt.ttt_rot import TTTRot
from purgegate.fingerprints import array_fingerprint
from purgegate.gate.statistics import SourceStatistics


def gate_by_source(
    model: Any,
    *,
    statistics: SourceStatistics | None = None,
    purge: Sequence[int] = SIZES,
    norm: str = "batch",
    select: str = "cloud",
    seed: int = 0,
) -> PurgeGate:
    """PG-SP; nothing is drawn, so the seed has no effect."""
    if statistics is None:
        raise ValueError(
            "pg_sp needs the source statistics of the model: give statistics=, from "
            "SourceStatistics.from_weights(name) or SourceStatistics.collect(model, batches)"
        )
    return PurgeGate(model, SourceDistance(statistics), purge=purge, norm=norm, select=select)


def gate_by_class(
    model: Any,
    *,
    purge: Sequence[int] = SIZES,
    norm: str = "batch",
    select: str = "cloud",
    seed: int = 0,
) -> PurgeGate:
    """PG-SF; nothing is drawn, so the seed has no effect."""
    return PurgeGate(model, ClassDistance(), purge=purge, norm=norm, select=select)


def gate_before_patches(
    model: Any, *, statistics: SourceStatistics | None = None, norm: str = "blend", seed: int = 0
) -> AutoGate:
    """pg_auto; statistics serve its shift score alone. Nothing is drawn, so the seed has no effect."""
    return AutoGate(model, SourceDistance(statistics) if statistics else center_isolation, norm=norm)


METHODS: dict[str, Callable[..., Adapter]] = {
    "source": Source,  # no adaptation
    "source_bn": partial(Source, norm="batch"),  # the control: BatchNorm reset and nothing else
    "tent": Tent,  # Wang et al., ICLR 2021
    "t3a": T3A,  # Iwasawa and Matsuo, NeurIPS 2021
    "shot": Shot,  # Liang et al., ICML 2020
    "dua": Dua,  # Mirza et al., CVPR 2022
    "bftt3d": BFTT3D,  # Wang et al., CVPR 2024
    "bftt3d_bn": partial(BFTT3D, norm="batch"),  # the same with BatchNorm reset
    "ttt_rot": TTTRot,  # Sun et al., ICML 2020
    "mate": Mate,  # Mirza et al., ICCV 2023
    "smart_pc": SmartPC,  # Bahri et al., ICML 2025
    "ln_tta": LNTTA,  # the newest rival
    "pg_sp": gate_by_source,  # Purge-Gate, ICCV 2025, by source statistics
    "pg_sf": gate_by_class,  # Purge-Gate, ICCV 2025, source-free
    "random_purge": RandomPurge,  # the control: the gate with scores that are drawn
    "random_starts": RandomStarts,  # the control: the most certain of several views, nothing dropped
    "pg_auto": gate_before_patches,  # ours: strays purged before patches are cut
}


def create_adapter(name: str, model: Any, **options: Any) -> Adapter:
    """A method by name, wrapped round a model: clouds in, logits out, `reset` forgets."""
    if name not in METHODS:
        raise ValueError(f"the method must be one of {', '.join(METHODS)}; got {name!r}")
    known = [option for option in inspect.signature(METHODS[name]).parameters if option != "model"]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ValueError(f"{name} has the options {', '.join(known)}; got {', '.join(unknown)}")
    adapter: Any = METHODS[name](model, **options)
    adapter.name = name  # what its rows of results are called
    adapter.options = {option: tell(value) for option, value in options.items()}
    return adapter


def tell(value: Any) -> Any:
    """An option as a row of results tells it: a plain value, of others their digest or kind."""
    if isinstance(value, SourceStatistics):
        return value.digest()
    if isinstance(value, tuple) and value and getattr(value[0], "shape", ()):
        arrays = (torch.as_tensor(each).detach().cpu().numpy() for each in value[:2])
        return array_fingerprint(*arrays)[:16]  # clouds or features, and labels
    if hasattr(value, "tolist"):  # a number of NumPy or torch, or a few of them
        return value.tolist()
    if isinstance(value, (tuple, list, range)):
        return [tell(each) for each in value]
    if isinstance(value, PointNN):
        return vars(value)
    plain = (str, int, float, bool, dict, type(None))
    return value if isinstance(value, plain) else type(value).__name__


__all__ = ["METHODS", "Adapter", "create_adapter"]
