"""The one evaluation loop: a method meets a stream of domains, and each domain gives one row of facts."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from purgegate.adapt import describe_adapter, name_of
from purgegate.fingerprints import array_fingerprint, model_fingerprint
from purgegate.gate.purge import entropy
from purgegate.io.confusion import count_confusion
from purgegate.io.datasets import cut
from purgegate.io.labelled import Dataset
from purgegate.io.results import Row, append_rows, key_of, pack_answers, read_rows, writing
from purgegate.memory import PeakMemory
from purgegate.norms import attribute
from purgegate.points.sampling import PADDINGS, random_view
from purgegate.prepare import prepare
from purgegate.typing import StrPath
from purgegate.version import __version__

RESETS = ("domain", "batch", "never")
ORDERS = ("shuffled", "given", "sorted", "dirichlet")
DIRICHLET = 0.1  # the less, the longer the stretches in which few classes come
VIEWS = ("random", "prepared")
BOUNDS = {"batch": (1, 1 << 20), "points": (1, 1 << 20), "seed": (0, (1 << 63) - 1)}

Advance = Callable[[int], None]

log = logging.getLogger("purgegate")


class Domain(NamedTuple):
    """A stretch of the test stream: a data set under one corruption."""

    data: Dataset
    dataset: str = "clouds"
    corruption: str = "clean"
    severity: int = 0
    whole: int | None = None  # clouds of the whole set, where these are only some of them


class Settings(NamedTuple):
    """How a stream is cut, ordered and forgotten."""

    batch: int = 32
    points: int = 1024
    reset: str = "domain"  # forget before each domain, before each batch, or never (continual)
    order: str = "shuffled"  # shuffled, as given, or with label shift: sorted, dirichlet
    seed: int = 0
    padding: str = "repeat"  # of clouds with fewer points: copies, or (0, 0, 0) as released code has it
    views: str = "random"  # a random start of each cloud as it came, or "prepared", as `predict` sees a file


def evaluate(
    adapter: Any,
    domains: Sequence[Domain],
    *,
    settings: Settings | None = None,
    facts: Row | None = None,
    results: StrPath | None = None,
    confusion: bool = False,
    advance: Advance = lambda clouds: None,
) -> list[Row]:
    """Run a method over domains in their order; every cloud is scored, the last partial batch too.

    `facts` name the run in its rows (method, options, weights, …) where the adapter does not, or not enough.
    With `results`, rows are appended to that file as soon as they are known, and domains that it holds
    already are not run again. With `confusion`, rows that are run say which classes were taken for which.
    Clouds go to the device of the model.
    """
    settings = settings or Settings()
    check_settings(settings)
    if not hasattr(adapter, "reset"):
        raise ValueError(
            f"what is evaluated needs a method `reset`; {type(adapter).__name__} has none: wrap a model by "
            "pg.create_adapter('source', model)"
        )
    adapter.reset()  # before it is named: an adapted model has another fingerprint
    facts = _facts(adapter, settings, facts or {})
    for domain in domains:
        check_classes(getattr(adapter, "model", adapter), domain.data, origin=domain.dataset)
    if results:
        _check_names(facts)
    facts["options"] = facts["options"] or {}
    facts.setdefault("given", facts["options"])
    named = name_rows(facts, settings, [describe_domain(domain) for domain in domains])
    with writing(results) if results else nullcontext():
        return _run_missing(
            adapter, domains, named, settings=settings, results=results, confusion=confusion, advance=advance
        )


def _run_missing(
    adapter: Any,
    domains: Sequence[Domain],
    named: list[Row],
    *,
    settings: Settings,
    results: StrPath | None,
    confusion: bool,
    advance: Advance,
) -> list[Row]:
    """Run the domains that a file of rows lacks, and return the rows of all."""
    known = {key_of(row): row for row in read_rows(results)} if results else {}
    missing = [key_of(row) not in known for row in named]
    rows = []
    for domain, row, wanted in zip(domains, named, missing, strict=True):
        # What a continual method knows depends on all it has seen: then no domain is left out.
        if wanted or (settings.reset == "never" and any(missing)):
            row = row | _run(adapter, domain, settings, advance, confusion=confusion)
            if wanted and results:
                append_rows(results, [row])
        else:
            advance(len(domain.data.label))
        rows.append(known.get(key_of(row), row))
    return rows


def describe_model(model: Any) -> Row:
    """What a row says of the model that was adapted."""
    found = {
        "backbone": type(model).__name__,
        "weights": getattr(model, "weights_name", ""),
        "fingerprint": model_fingerprint(model),
    }
    precision = getattr(model, "precision", "float32")
    return found if precision == "float32" else found | {"precision": precision}


def describe_domain(domain: Domain) -> Row:
    """What a row says of the clouds; `data` is a fingerprint of them and of their labels."""
    data, total = domain.data, len(domain.data.label)
    return {
        "dataset": domain.dataset,
        "corruption": domain.corruption,
        "severity": domain.severity,
        "total": total,
        "whole": domain.whole or total,
        "data": array_fingerprint(data.points, data.label)[:16],
    }


def name_rows(facts: Row, settings: Settings, domains: Sequence[Row]) -> list[Row]:
    """The half of each row that is known before the run, and by which a finished one is found again.

    Rows of a continual stream tell what came before them.
    """
    stream = settings._asdict()
    for name in ("padding", "views"):
        if stream[name] == Settings._field_defaults[name]:
            del stream[name]  # the usual, which older rows do not report either
    rows = [{**facts, **domain, **stream} for domain in domains]
    if settings.reset == "never":
        passed = [f"{domain['corruption']} {domain['severity']}" for domain in domains]
        rows = [row | {"after": passed[:place]} for place, row in enumerate(rows)]
    return rows


def mix(domains: Sequence[Domain], *, points: int = 1024, padding: str = "repeat", seed: int = 0) -> Domain:
    """All clouds of several domains as one shuffled domain, each brought to the loop's number of points."""
    starts, shuffle = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    views = [
        random_view(torch.tensor(d.data.points), points, generator=starts, padding=padding) for d in domains
    ]
    label = np.concatenate([domain.data.label for domain in domains])
    order, first = shuffle.permutation(len(label)), domains[0]
    data = Dataset(torch.cat(views).numpy()[order], label[order], first.data.classes)
    whole = sum(domain.whole or len(domain.data.label) for domain in domains)
    return Domain(data, first.dataset, "mixed", first.severity, whole)


def _run(
    adapter: Any, domain: Domain, settings: Settings, advance: Advance, *, confusion: bool = False
) -> Row:
    """One pass over one domain."""
    if settings.reset == "domain":
        adapter.reset()
    label = domain.data.label
    told, seconds, uncertain, purged = np.zeros_like(label), 0.0, 0.0, 0.0
    lost = 0
    model = getattr(adapter, "model", adapter)
    device = device_of(model)
    watched = [adapter] if hasattr(adapter, "watch") else []  # its first batch would take another forward
    with attribute(watched, "watch", False), PeakMemory(device) as memory:
        for index, points in _stream(domain, settings, model):
            if settings.reset == "batch":
                adapter.reset()
            points = points.to(device)
            start = time.perf_counter()
            logits, purge = (found.cpu() for found in _answer(adapter, points))  # waits for the device
            seconds += time.perf_counter() - start
            numbers = logits.isfinite().all(dim=1).numpy()
            lost += len(index) - int(numbers.sum())
            told[index] = np.where(numbers, logits.argmax(dim=1).numpy(), -1)
            uncertain += float(entropy(logits).sum())
            purged += float(purge.sum())
            advance(len(index))
    if lost:
        log.warning(
            "%s on %s: %d of %d answers are NaN or infinite and count as wrong: its options let it diverge",
            *(name_of(adapter), domain.corruption, lost, len(label)),
        )
    right = told == label
    confused = {"confusion": count_confusion(label, told, _names(model, domain.data))} if confusion else {}
    return {
        "correct": int(right.sum()),
        "answers": pack_answers(right),
        **confused,
        "seconds": round(seconds, 4),
        "memory": round(memory.megabytes, 1),
        "threads": torch.get_num_threads(),
        "entropy": uncertain / len(right),
        "purge": purged / len(right),
        "purgegate": __version__,
        "torch": torch.__version__,
    }


def _stream(domain: Domain, settings: Settings, model: Any) -> Iterable[tuple[np.ndarray, Tensor]]:
    """Batches in the order asked for, as indices and clouds, from a random start or prepared as a file's."""
    points, starts = domain.data.points, torch.Generator().manual_seed(settings.seed)
    order = order_of(domain.data.label, settings.order, seed=settings.seed)
    for place in cut(len(order), settings.batch):
        index = order[place]
        some = torch.from_numpy(points[index])
        if settings.views == "prepared":
            yield index, torch.cat([prepare(cloud, model) for cloud in some])
        else:
            yield index, random_view(some, settings.points, generator=starts, padding=settings.padding)


def order_of(label: np.ndarray, order: str, *, seed: int) -> np.ndarray:
    """In which order a stream shows its clouds."""
    generator = np.random.default_rng(seed)
    if order == "dirichlet":
        return _by_slots(label, generator)
    plain = {"given": lambda: np.arange(len(label)), "sorted": lambda: np.argsort(label, kind="stable")}
    return plain[order]() if order in plain else generator.permutation(len(label))


def _by_slots(label: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """As many stretches as classes; each class spreads over them by shares from a Dirichlet distribution."""
    classes = np.unique(label)
    slots: list[list[np.ndarray]] = [[] for _ in classes]
    for number in classes:
        members = generator.permutation(np.flatnonzero(label == number))
        ends = np.round(generator.dirichlet(np.full(len(slots), DIRICHLET)).cumsum() * len(members))
        for slot, part in zip(slots, np.split(members, ends[:-1].astype(int)), strict=True):
            slot.append(part)
    return np.concatenate([generator.permutation(np.concatenate(slot)) for slot in slots])


def _answer(adapter: Any, points: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and how many tokens were purged for each of them."""
    if hasattr(adapter, "predict"):
        prediction = adapter.predict(points)
        return prediction.logits, prediction.purge
    logits = adapter(points).detach()
    return logits, torch.zeros(len(logits))


def device_of(model: Any) -> torch.device:
    """Where the model is; one without parameters is on the CPU."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def _facts(adapter: Any, settings: Settings, told: Row) -> Row:
    """What an adapter and its model say of themselves, where the caller does not."""
    model = (
        {}
        if {"backbone", "weights", "fingerprint"} <= told.keys()
        else describe_model(getattr(adapter, "model", adapter))
    )
    return {**name_adapter(adapter, settings.seed), **model, **told}


def name_adapter(adapter: Any, seed: int) -> Row:
    """Method and options of a row; a seed of the adapter's own only where it is not the stream's."""
    found = describe_adapter(adapter)
    options = found["options"]
    if options:
        options = {name: value for name, value in options.items() if (name, value) != ("seed", seed)}
    return {**found, "options": options}


def check_settings(settings: Settings) -> None:
    """Refuse what the loop does not know."""
    for name, choices in (
        ("reset", RESETS),
        ("order", ORDERS),
        ("padding", PADDINGS),
        ("views", VIEWS),
    ):
        if getattr(settings, name) not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}; got {getattr(settings, name)!r}")
    for name, (least, most) in BOUNDS.items():
        value = getattr(settings, name)
        if not isinstance(value, Integral) or not least <= int(value) <= most:
            raise ValueError(f"{name} must be at least {least} and at most {most:,}; got {value!r}")


def check_classes(model: Any, data: Dataset, *, origin: str) -> None:
    """Refuse clouds without labels, or of other classes than the model's as far as both tell."""
    if len(data.label) == 0 or data.label.min() < 0:
        raise ValueError(f"every cloud of {origin} needs a label to be scored; some have none")
    names, classes = tuple(getattr(model, "class_names", ())), data.classes
    count, most = getattr(model, "classes", None), int(data.label.max())
    if isinstance(count, int) and most >= count:
        raise ValueError(
            f"{origin} has labels up to {most}, but the model answers {count} classes: take weights that "
            "were trained on them"
        )
    if names and classes and not _are_numbers(classes) and names != classes:
        raise ValueError(
            f"{origin} has other classes than the model ({', '.join(classes[:3])}, … and "
            f"{', '.join(names[:3])}, …): take weights that were trained on them"
        )


def _names(model: Any, data: Dataset) -> tuple[str, ...]:
    """The classes of the data, by the names that the model has for them where the data has none."""
    return (_are_numbers(data.classes) and tuple(getattr(model, "class_names", ()))) or data.classes


def _are_numbers(classes: tuple[str, ...]) -> bool:
    return classes == tuple(str(number) for number in range(len(classes)))


def _check_names(facts: Row) -> None:
    """Refuse, or warn of, what would take rows of another model, score or option for its own."""
    if not facts["fingerprint"] and not facts["weights"]:
        raise ValueError(
            "a model without a state dict needs a name to find its rows again: give facts={'weights': name}"
        )
    if not facts["method"]:
        raise ValueError(
            "a score that is no plain function needs a name to find its rows again: give it an attribute "
            "`name`"
        )
    if facts["options"] is None:
        log.warning(
            "rows of %s with other options would be taken for these: give it an attribute `options`, a dict, "
            "or facts={'options': {…}}",
            facts["method"],
        )
