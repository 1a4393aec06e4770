"""Methods of test-time adaptation: one paper, one file; `METHODS` describes each of them."""

from collections.abc import Sequence
from typing import Any

from purgegate.adapt.base import Adapter, Method, Prediction
from purgegate.adapt.bftt3d import BFTT3D
from purgegate.adapt.cache import PrototypeCache
from purgegate.adapt.controls import RandomPurge, RandomStarts
from purgegate.adapt.described import Described, Look
from purgegate.adapt.dua import Dua
from purgegate.adapt.foa import Foa, FoaShift
from purgegate.adapt.lame import Lame
from purgegate.adapt.ln_tta import LNTTA
from purgegate.adapt.mate import Mate
from purgegate.adapt.memo import Memo
from purgegate.adapt.options import check_kinds, describe_option
from purgegate.adapt.outliers import RadiusRemoval, StatisticalRemoval
from purgegate.adapt.pg_auto import AutoGate
from purgegate.adapt.purge_gate import SIZES, ClassDistance, PurgeGate, SourceDistance
from purgegate.adapt.sar import Sar
from purgegate.adapt.shot import Shot
from purgegate.adapt.smart_pc import SmartPC
from purgegate.adapt.source import Source
from purgegate.adapt.svwa import Svwa
from purgegate.adapt.t3a import T3A
from purgegate.adapt.tent import Tent
from purgegate.adapt.ttt_rot import TTTRot
from purgegate.gate.statistics import SourceStatistics
from purgegate.imports import import_object, is_path
from purgegate.norms import Norm


def gate_by_source(
    model: Any,
    *,
    statistics: SourceStatistics | None = None,
    purge: Sequence[int] = SIZES,
    norm: Norm = "batch",
    select: str = "cloud",
    seed: int = 0,
) -> PurgeGate:
    """PG-SP: the gate by distance from the source statistics."""
    if statistics is None:
        raise ValueError(
            "pg_sp needs the source statistics of the model: give statistics=, from "
            "SourceStatistics.from_weights(name) or SourceStatistics.collect(model, batches)"
        )
    return PurgeGate(model, SourceDistance(statistics), purge=purge, norm=norm, select=select, seed=seed)


def gate_by_class(
    model: Any,
    *,
    purge: Sequence[int] = SIZES,
    norm: Norm = "batch",
    select: str = "cloud",
    seed: int = 0,
) -> PurgeGate:
    """PG-SF: the gate by distance from the class token's query, with no source data."""
    return PurgeGate(model, ClassDistance(), purge=purge, norm=norm, select=select, seed=seed)


METHODS: dict[str, Described] = {
    "source": Described(
        Source, "Source", kind="source", look=Look("#7a7a7a", "s"), published="Source Only"
    ),
    "source_bn": Described(
        Source, "Source + BN reset", kind="control", look=Look("#000000", "D"), preset={"norm": "batch"}
    ),
    "tent": Described(
        Tent, "TENT", "Wang et al., ICLR", 2021, kind="backprop", look=Look("#009e73", "v"), published="TENT"
    ),
    "t3a": Described(
        T3A, "T3A", "Iwasawa and Matsuo, NeurIPS", 2021, look=Look("#e69f00", "P"), published="T3A"
    ),
    "shot": Described(
        Shot, "SHOT", "Liang et al., ICML", 2020, kind="backprop", look=Look("#cc79a7", "X"), published="SHOT"
    ),
    "dua": Described(Dua, "DUA", "Mirza et al., CVPR", 2022, look=Look("#56b4e9", "<"), published="DUA"),
    "bftt3d": Described(
        BFTT3D, "BFTT3D", "Wang et al., CVPR", 2024, look=Look("#882255", "p"), needs=("source",),
        published="BFTT3D",
    ),
    "bftt3d_bn": Described(
        BFTT3D, "BFTT3D + BN reset", "Wang et al., CVPR", 2024, look=Look("#aa4499", "h"), needs=("source",),
        preset={"norm": "batch"},
    ),
    "ttt_rot": Described(
        TTTRot, "TTT-Rot", "Sun et al., ICML", 2020, kind="test-time training", look=Look("#999933", "*"),
        needs=("auxiliary",), published="TTT-Rot",
    ),
    "mate": Described(
        Mate, "MATE", "Mirza et al., ICCV", 2023, kind="test-time training", look=Look("#117733", "d"),
        needs=("auxiliary",), published="MATE", standard=True,
    ),
    "smart_pc": Described(
        SmartPC, "SMART-PC", "Bahri et al., ICML", 2025, kind="test-time training",
        look=Look("#332288", "H"), needs=("auxiliary",), published="SMART-PC", standard=True,
    ),
    "ln_tta": Described(LNTTA, "LN-TTA", look=Look("#661100", ">"), needs=("class token",)),
    "pg_sp": Described(
        gate_by_source, "PG-SP", "Purge-Gate, ICCV", 2025, look=Look("#d55e00", "o"), needs=("statistics",),
        published="PG-SP", family=SourceDistance.name,
    ),
    "pg_sf": Described(
        gate_by_class, "PG-SF", "Purge-Gate, ICCV", 2025, look=Look("#0072b2", "^"), needs=("class token",),
        published="PG-SF", family=ClassDistance.name,
    ),
    "lame": Described(Lame, "LAME", "Boudiaf et al., CVPR", 2022, look=Look("#ddaa33", "3")),
    "foa_shift": Described(
        FoaShift, "FOA-shift", "Niu et al., ICML", 2024, look=Look("#ee3377", "."), needs=("source",)
    ),
    "foa": Described(
        Foa, "FOA", "Niu et al., ICML", 2024, look=Look("#cc3311", ","), needs=("source", "class token")
    ),
    "sar": Described(Sar, "SAR", "Niu et al., ICLR", 2023, kind="backprop", look=Look("#225522", "4")),
    "memo": Described(
        Memo, "MEMO", "Zhang et al., NeurIPS", 2022, kind="backprop", look=Look("#bb5566", "|")
    ),
    "svwa": Described(Svwa, "SVWA", "Bahri et al., WACV", 2025, kind="backprop", look=Look("#004488", "_")),
    "cache": Described(
        PrototypeCache, "Prototype cache", "after Uni-Adapter, AAAI", 2026, look=Look("#777700", "X")
    ),
    "sor_bn": Described(
        StatisticalRemoval, "Statistical removal + BN reset", kind="control", look=Look("#b07030", "x")
    ),
    "ror_bn": Described(
        RadiusRemoval, "Radius removal + BN reset", kind="control", look=Look("#905080", "+")
    ),
    "random_purge": Described(RandomPurge, "Random purge", kind="control", look=Look("#88ccee", "1")),
    "random_starts": Described(RandomStarts, "Random starts", kind="control", look=Look("#6699cc", "2")),
    "pg_auto": Described(
        AutoGate, "PG-Auto", kind="ours", look=Look("#44aa99", "8"), uses=("statistics",)
    ),
}  # fmt: skip


OURS = next(name for name, method in METHODS.items() if method.kind == "ours")  # what is shipped


def find_method(name: str) -> Described:
    """What is known of a method, by its name or by the import path of a person's own."""
    if not isinstance(name, str):
        raise ValueError(f"a method is given by its name, a text; got {type(name).__name__}")
    if name in METHODS:
        return METHODS[name]
    if not is_path(name):
        raise ValueError(
            f"the method must be one of {', '.join(METHODS)}, or package.module:Name; got {name!r}"
        )
    made = import_object(name)
    if not callable(made):
        raise ValueError(f"{name} must be a class or function that takes a model; got {type(made).__name__}")
    return Described(made, name.partition(":")[2], kind="own", needs=tuple(getattr(made, "needs", ())))


def create_adapter(name: str, model: Any, **options: Any) -> Adapter:
    """A method by name, wrapped round a model: clouds in, logits out, `reset` forgets."""
    method = find_method(name)
    known = method.options
    unknown = [option for option in options if option not in known]
    if unknown and not method.takes_any:
        raise ValueError(f"{name} has the options {', '.join(known)}; got {', '.join(unknown)}")
    check_kinds(method.make, options)
    try:
        adapter: Any = method(model, **options)
    except (TypeError, AttributeError, RuntimeError) as error:  # options of another kind than it can take
        given = ", ".join(f"{option}={describe_option(value)!r}" for option, value in options.items())
        raise ValueError(f"{name} cannot be made with {given or 'this model'}: {error}") from error
    if not isinstance(adapter, Adapter):
        raise ValueError(
            f"{name} must answer clouds and have a method `reset`; it makes {type(adapter).__name__}"
        )
    if isinstance(adapter, Method):
        adapter.name = name_of(adapter)
        return adapter
    effective = {option: describe_option(value) for option, value in {**known, **options}.items()}
    for attribute, value in (("name", name), ("options", effective)):
        if not hasattr(adapter, attribute):
            setattr(adapter, attribute, value)
    return adapter


def name_of(adapter: Any) -> str:
    """What a method is called: the entry of its kind whose preset is in force, or its import path."""
    if not isinstance(adapter, Method):
        return getattr(adapter, "name", type(adapter).__name__)
    fitting = [
        (len(entry.preset), name)
        for name, entry in METHODS.items()
        if entry.kin == adapter.family and entry.preset.items() <= adapter.options.items()
    ]
    return max(fitting, key=lambda each: each[0])[1] if fitting else adapter.family


def describe_adapter(adapter: Any) -> dict[str, Any]:
    """Name and options by which rows of an adapter are told from others, and those that a table shows."""
    name, options = name_of(adapter), getattr(adapter, "options", None)
    given = dict(getattr(adapter, "given", options or {}))
    if entry := METHODS.get(name):
        fed, preset = (*entry.needs, *entry.uses), entry.preset.items()
        given = {option: v for option, v in given.items() if option not in fed and (option, v) not in preset}
    return {"method": name, "options": options, "given": given}


__all__ = ["METHODS", "OURS", "Adapter", "Described", "Method", "Prediction", "create_adapter"]
