"""What a method is, said once: everybody who lists, names, draws, checks or feeds methods reads it here."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from purgegate.adapt.base import Adapter
from purgegate.imports import path_of

KINDS = ("source", "control", "test-time training", "backprop", "backprop-free", "ours", "own")

# What a method can need beside the model, and what a person is told who lacks it.
NEEDS = {
    "statistics": "the source statistics of the model",
    "source": "labelled source clouds",
    "auxiliary": "a model trained with the method's own objective (`purgegate train joint`)",
    "class token": "a model with a class token",
}


class Look(NamedTuple):
    """A line's colour and marker in every plot."""

    color: str
    marker: str = "o"


@dataclass(frozen=True)
class Described:
    """How a method is made, what it is called, how it is drawn, and what it needs."""

    make: Callable[..., Any]  # from a model and options
    title: str
    paper: str = ""
    year: int | None = None
    kind: str = "backprop-free"
    look: Look | None = None
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()  # taken where it is at hand
    preset: Mapping[str, Any] = field(default_factory=dict)  # options that make it out of another method
    published: str = ""  # its name in the paper's tables
    standard: bool = False  # whether the paper quotes it in the standard setting, not online
    family: str = ""  # of what it makes, where that is not told by the class

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not {*self.needs, *self.uses} <= NEEDS.keys():
            raise ValueError(
                f"a method must be of a kind of {', '.join(KINDS)} and need some of {', '.join(NEEDS)}; "
                f"got {self.kind!r}, {self.needs} and {self.uses}"
            )

    def __call__(self, model: Any, **options: Any) -> Adapter:
        """The method round a model."""
        return self.make(model, **{**self.preset, **options})

    @property
    def kin(self) -> str:
        """The family of what it makes, by which adapters are recognised."""
        return self.family or path_of(self.make)

    @property
    def options(self) -> dict[str, Any]:
        """Its options with their defaults."""
        parameters = inspect.signature(self.make).parameters.values()
        plain = [each for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        return {each.name: each.default for each in plain if each.name != "model"} | dict(self.preset)

    @property
    def takes_any(self) -> bool:
        """Whether it takes options that it does not name."""
        return any(each.kind == each.VAR_KEYWORD for each in inspect.signature(self.make).parameters.values())
