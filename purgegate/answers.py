"""What a person is told of a cloud: its class, how sure that is, and what was done to it."""

from typing import Any, NamedTuple

from purgegate.adapt.base import Prediction
from purgegate.alarm import Alarm
from purgegate.gate.purge import entropy
from purgegate.reference import KNOWN, Seen, SourceReference


class Answer(NamedTuple):
    """The answer to one cloud."""

    label: int
    name: str
    confidence: float
    purged: int  # points or tokens that were left out
    # With a reference of the source, how far the source model finds the cloud: 1 is usual. Else the method's
    # own score of what it answered, or None where it has none.
    shift: float | None
    stages: tuple[str, ...] = ()  # the repairs that acted
    top: tuple[tuple[str, float], ...] = ()  # the likeliest classes with their shares, the likeliest first
    purged_share: float = 0.0  # of the cloud's points or tokens
    # Only with a reference of the source:
    novelty: float | None = None  # from 0 to 1, how unlike every class
    unknown: bool | None = None  # whether it is more so than 95 % of the source's own clouds
    # What only a stream knows:
    alarm: Alarm | None = None  # None where it is switched off
    learned: bool | None = None  # False for a cloud that would have done harm


def answers_of(found: Prediction, class_names: tuple[str, ...], *, top: int = 1) -> list[Answer]:
    """One answer per cloud of a prediction, with its `top` likeliest classes."""
    shares, best = found.logits.softmax(dim=1).topk(min(top, found.logits.shape[1]))
    likeliest = [
        tuple((_class(number, class_names), share) for number, share in zip(*pair, strict=True))
        for pair in zip(best.tolist(), shares.tolist(), strict=True)
    ]
    return [
        Answer(
            label=int(best[row, 0]),
            name=first[0][0],
            confidence=first[0][1],
            purged=int(found.purge[row]),
            shift=None if found.shift[row].isnan() else float(found.shift[row]),
            stages=_stages(found, row),
            top=first,
            purged_share=int(found.purge[row]) / found.whole if found.whole else 0.0,
        )
        for row, first in enumerate(likeliest)
    ]


def compared(
    answers: list[Answer], found: Prediction, seen: Seen, reference: SourceReference
) -> list[Answer]:
    """The answers with what clean clouds of the source say of them: shift, novelty, unknown."""
    novelty = reference.novelty(seen.energy, entropy(found.logits).cpu()).tolist()
    shift = reference.shift(seen.distance).tolist()
    return [
        each._replace(shift=s, novelty=n, unknown=n > KNOWN)
        for each, s, n in zip(answers, shift, novelty, strict=True)
    ]


def class_names_of(model: Any) -> tuple[str, ...]:
    """The names of a model's classes, as far as it knows them."""
    return tuple(getattr(model, "class_names", ()))


def _stages(found: Prediction, row: int) -> tuple[str, ...]:
    """The repairs that acted on a cloud: strays are purged from each for itself, the rest acts on a batch."""
    clean = found.strays is not None and not found.strays[row].any()
    return tuple(stage for stage in found.stages if not (clean and stage == "strays"))


def _class(number: int, names: tuple[str, ...]) -> str:
    return names[number] if number < len(names) else str(number)
