"""The viewer: clouds, methods and what is shown of them, made when it is asked for."""

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from purgegate.adapt import METHODS, create_adapter, find_method
from purgegate.adapt.purge_gate import SourceDistance
from purgegate.answers import class_names_of
from purgegate.evaluate import device_of
from purgegate.figures.exhibits import Exhibit
from purgegate.figures.page_server import Routes, read_query
from purgegate.figures.scenes import Scene, make_scene
from purgegate.needs import load_model, supply
from purgegate.points.corruptions import CORRUPTIONS, strength_of
from purgegate.twins import evaluation_twin

POINTS = 1024  # that a model takes which does not say how many
KEPT = 256  # scenes that are remembered; one takes about 50 kB
QUESTION = {"cloud": int, "method": str, "corruption": str, "severity": int}
STATISTICS = SourceDistance.name  # the method whose statistics colour the points


class Viewer:
    """One model, some methods and some clouds; many threads may ask at once.

    Without `methods` there are all that the model can have, or of these the `featured` ones.
    Every cloud is answered alone and by a method that has seen no other, so that what is shown of it does not
    depend on what was looked at before.
    """

    def __init__(
        self,
        weights: str,
        exhibits: Sequence[Exhibit],
        *,
        methods: Sequence[str] | None = None,
        featured: bool = False,
        norm: str | None = None,
        statistics: Path | None = None,
    ) -> None:
        self.model, self.exhibits = load_model(weights), list(exhibits)
        if not self.exhibits:
            raise ValueError("there must be at least one cloud to see; got none")
        self.points = getattr(self.model, "points", POINTS)
        self.groups, self.classes = _counts(self.model, self.points)
        given = {"statistics": str(statistics)} if statistics else {}
        self.statistics = _statistics(weights, given)
        make = partial(
            lone_method, model=self.model, weights=weights, groups=self.groups, norm=norm, given=given
        )
        self.methods = (
            possible_methods(make, featured=featured)
            if methods is None
            else {name: make(name) for name in methods}
        )
        self._lock = threading.Lock()
        self._made = lru_cache(KEPT)(self._make)

    def scene(self, cloud: int, method: str = "", *, corruption: str = "", severity: int = 5) -> Scene:
        """What is to be shown of a cloud under one method, or under all."""
        if not 0 <= cloud < len(self.exhibits):
            raise ValueError(f"the cloud must lie in 0 to {len(self.exhibits) - 1}; got {cloud}")
        if method and method not in self.methods:
            raise ValueError(f"the method must be one of {', '.join(self.methods)}; got {method!r}")
        if corruption:
            strength_of(corruption, severity)
        with self._lock:  # methods have a state, and the machine has no more cores than one cloud takes
            return self._made(cloud, method, corruption, severity if corruption else 0)

    @property
    def routes(self) -> Routes:
        """What a page's server answers."""
        return {"/scene": lambda query: self.scene(**read_query(query, QUESTION))}

    def page_data(self, *, live: bool, corruption: str = "", severity: int = 5) -> Scene:
        """What a page is told at its start: names, menus, and all scenes where nobody can be asked later."""
        classes = class_names_of(self.model) or tuple(map(str, range(self.classes)))
        data: Scene = {
            "classes": list(classes),
            "groups": self.groups,
            "clouds": [{"name": each.name, "truth": each.truth} for each in self.exhibits],
            "methods": [{"name": name, "title": find_method(name).title} for name in self.methods],
            "live": live,
        }
        if live:
            levels = {name: len(kind.strengths) for name, kind in CORRUPTIONS.items()}
            return data | {"corruptions": levels, "start": {"corruption": corruption, "severity": severity}}
        scenes = [
            self.scene(place, corruption=corruption, severity=severity) for place in range(len(self.exhibits))
        ]
        return data | {"scenes": scenes}

    def _make(self, cloud: int, method: str, corruption: str, severity: int) -> Scene:
        points = self.exhibits[cloud].cloud(corruption, severity, points=self.points)
        methods = {method: self.methods[method]} if method else self.methods
        return make_scene(self.model, points, methods, statistics=self.statistics)


def lone_method(
    name: str, *, model: Any, weights: str, groups: int, norm: str | None, given: dict[str, Any]
) -> Any:
    """A method for single clouds: the gate at every size, and blended statistics where it wants a batch."""
    entry = find_method(name)
    options: dict[str, Any] = {"purge": range(groups)} if "purge" in entry.options else {}
    options |= {key: value for key, value in given.items() if key in (*entry.needs, *entry.uses)}
    options |= {"norm": norm} if norm else {}
    if "source" in entry.needs:
        raise ValueError(f"{name} needs labelled source clouds: run it with `purgegate bench`")
    adapter: Any = create_adapter(name, model, **supply(name, options, weights=weights, at_hand=True))
    if norm or getattr(adapter, "least_batch", 1) < 2:
        return adapter
    options["norm"] = "blend"
    return create_adapter(name, model, **supply(name, options, weights=weights, at_hand=True))


def featured_methods() -> list[str]:
    """The gates, whose purge size can be moved, then ours, and the source that they are compared with."""
    gates = [name for name, entry in METHODS.items() if "purge" in entry.options and entry.kind != "control"]
    return [*gates, *(name for kind in ("ours", "source") for name in METHODS if METHODS[name].kind == kind)]


def possible_methods(make: Callable[[str], Any], *, featured: bool) -> dict[str, Any]:
    """The methods that can be made for the model: those worth seeing, and perhaps all others."""
    found: dict[str, Any] = {}
    lacking: list[Exception] = []  # what a method needs and the model has not
    for name in dict.fromkeys((*featured_methods(), *(() if featured else METHODS))):
        try:
            found[name] = make(name)
        except (ValueError, FileNotFoundError) as error:
            lacking.append(error)
    if not found:
        raise lacking[-1]
    return found


@torch.no_grad()
def _counts(model: Any, points: int) -> tuple[int, int]:
    """How many tokens and classes a model has, which one of a person's own need not say: it is tried."""
    twin = evaluation_twin(model)
    cloud = torch.rand(1, points, 3, generator=torch.Generator().manual_seed(0))
    tokens = twin.tokenize(cloud.to(device_of(model)))
    return tokens.features.shape[1], twin.head(twin.encode(tokens)).shape[1]


def _statistics(weights: str, given: dict[str, Any]) -> Any:
    try:
        return supply(STATISTICS, dict(given), weights=weights)["statistics"]
    except (ValueError, FileNotFoundError):
        if given:
            raise
        return None  # a model of one's own may bring none
