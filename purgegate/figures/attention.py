"""The paper's premise, measured: how flat the first block's attention becomes as noise grows."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from purgegate.backbones.base import HasClassToken
from purgegate.figures.objects import clean_clouds, corrupted_clouds
from purgegate.gate.purge import entropy
from purgegate.io.labelled import Dataset
from purgegate.norms import statistics_from
from purgegate.points.sampling import resample
from purgegate.report.plots.style import (
    FAINT,
    Look,
    draw_line,
    legend,
    new_figure,
    panels_of,
    tidy,
    whole_numbers,
)
from purgegate.tokens import Tokens
from purgegate.twins import evaluation_twin

CHOSEN = ("uniform", "gaussian", "background", "impulse", "distortion")
CLEAN = 0  # the severity of what is not corrupted
LOOKS = (
    *(Look("#d55e00", "o"), Look("#e69f00", "s"), Look("#0072b2", "D"), Look("#56b4e9", "^")),
    *(Look("#009e73", "v"), Look("#cc79a7", "P"), Look("#882255", "X"), Look("#332288", "<")),
)


class Flatness(NamedTuple):
    """One measurement."""

    corruption: str
    severity: int
    flatness: float


@torch.no_grad()
def attention_flatness(model: Any, points: Float[Tensor, "B N 3"], *, norm: str = "source") -> float:
    """Share of the patches that the class token attends to in the first block, a mean over clouds and heads.

    It is exp(entropy) / G of a head's attention over the G patches, the class token's own place left out: 1
    when all patches weigh the same, 1/G when one has all the weight.
    """
    heads, twin = _heads_of(model), evaluation_twin(model)
    with statistics_from(twin, norm, clouds=len(points)):
        logits = attention_logits(twin, twin.tokenize(points), heads=heads)
    return float(entropy(logits).exp().mean()) / logits.shape[-1]


def attention_logits(model: Any, tokens: Tokens, *, heads: int) -> Float[Tensor, "B H G"]:
    """What the class token's attention in the first block is the softmax of, over the patches, by head."""
    query, keys = model.class_attention(tokens)
    logits = torch.einsum("hd,bghd->bhg", query.unflatten(0, (heads, -1)), keys.unflatten(-1, (heads, -1)))
    return logits / math.sqrt(len(query) / heads)


def measure_flatness(
    model: Any,
    data: Dataset,
    *,
    corruptions: Sequence[str] = CHOSEN,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
    norm: str = "source",
    advance: Callable[[], None] = lambda: None,
) -> list[Flatness]:
    """Flatness on the same objects, clean (severity 0) and under each corruption at each severity."""
    points = model.points
    clean = attention_flatness(model, _batch(clean_clouds(data, points=points), points), norm=norm)
    rows = [Flatness(name, CLEAN, clean) for name in corruptions]
    for name in corruptions:
        for severity in severities:
            clouds = corrupted_clouds(data, name, severity=severity, points=points, seed=seed)
            rows.append(
                Flatness(name, severity, attention_flatness(model, _batch(clouds, points), norm=norm))
            )
            advance()
    return rows


def attention_figure(rows: Sequence[Flatness], *, subtitle: str = "") -> Figure:
    """Change of flatness against severity, one line a corruption."""
    title = "Number of tokens that the class token attends to, against clean clouds"
    figure = new_figure(8.0, 4.4, title=title, subtitle=subtitle)
    axes = panels_of(figure, 1, 1)[0][0]
    clean = {row.corruption: row.flatness for row in rows if row.severity == CLEAN}
    for place, name in enumerate(clean):
        own = {row.severity: row.flatness for row in rows if row.corruption == name}
        line = {severity: 100 * (own[severity] / clean[name] - 1) for severity in sorted(own)}
        draw_line(axes, line, look=LOOKS[place % len(LOOKS)], label=name)
    tidy(axes, x="severity (0: clean)", y="change of effective tokens, %\n(up: flatter, down: sharper)")
    axes.axhline(0, color=FAINT, linewidth=0.8, zorder=1)
    whole_numbers(axes)
    legend(figure, [axes])
    return figure


def _batch(clouds: list[Float[np.ndarray, "_ 3"]], points: int) -> Float[Tensor, "B N 3"]:
    return resample(torch.from_numpy(np.stack(clouds)), points)


def _heads_of(model: Any) -> int:
    heads = getattr(model, "config", {}).get("heads")
    if not isinstance(model, HasClassToken) or not heads:
        raise ValueError(
            "attention needs a model with `class_attention` and its number of heads in `config`; "
            f"{type(model).__name__} lacks them"
        )
    return heads
