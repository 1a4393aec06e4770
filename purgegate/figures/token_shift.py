"""The paper's first figure: which patches of a corrupted object each score holds for shifted."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from purgegate.adapt.purge_gate import ClassDistance, Score, SourceDistance
from purgegate.gate.statistics import SourceStatistics
from purgegate.norms import statistics_from
from purgegate.points.neighbours import nearest_neighbours
from purgegate.points.sampling import resample
from purgegate.points.transforms import rows_times_matrix, turn_about
from purgegate.report.plots.style import FAINT, INK, new_figure
from purgegate.twins import evaluation_twin

VIEW = turn_about(0, np.radians(-68)) @ turn_about(2, np.radians(-62))  # from the front, somewhat above
SHIFT = ScalarMappable(Normalize(0, 1), "coolwarm")  # blue to red over grey: told apart by everybody
PLAIN = "#57606a"


def token_shift_figure(
    model: Any,
    statistics: SourceStatistics,
    clean: Float[np.ndarray, "N 3"],
    corrupted: Float[np.ndarray, "M 3"],
    *,
    title: str = "",
    norm: str = "source",
) -> Figure:
    """An object clean, corrupted, and with each point in the colour of its patch's rank by PG-SF and PG-SP.

    The clouds have z up. `norm` says where BatchNorm takes its statistics while tokens are scored: `source`
    as they were when the source statistics were collected, `batch` from this one object.
    """
    seen = resample(torch.from_numpy(corrupted)[None].float(), model.points)
    figure = new_figure(10.0, 3.1, title=title)
    panels = figure.subplots(1, 4)
    draw_cloud(panels[0], clean, title="clean")
    draw_cloud(panels[1], corrupted, title="corrupted")
    scores: dict[str, Score] = {"PG-SF": ClassDistance(), "PG-SP": SourceDistance(statistics)}
    for axes, (name, score) in zip(panels[2:], scores.items(), strict=True):
        ranks = point_ranks(model, score, seen, norm=norm)[0].numpy()
        draw_cloud(axes, seen[0].numpy(), title=f"tokens ranked by {name}", ranks=ranks)
    bar = figure.colorbar(SHIFT, ax=list(panels), shrink=0.7, aspect=16, pad=0.01)
    bar.set_ticks([0, 1], labels=["least\nshifted", "most\nshifted"])
    bar.ax.tick_params(labelsize=9, labelcolor=INK, length=0)
    bar.outline.set_linewidth(0)
    return figure


@torch.no_grad()
def point_ranks(
    model: Any, score: Score, points: Float[Tensor, "B N 3"], *, norm: str = "source"
) -> Float[Tensor, "B N"]:
    """For each point the rank of its nearest patch by score, from 0 (least shifted) to 1 (most)."""
    if hasattr(score, "check"):
        score.check(model)
    model = evaluation_twin(model)
    with statistics_from(model, norm, clouds=len(points)):
        tokens = model.tokenize(points)
        scores = score(model, tokens)
    order = scores.argsort(dim=1, stable=True).argsort(dim=1)
    ranks = order.float() / max(scores.shape[1] - 1, 1)
    patch = nearest_neighbours(tokens.centers, points, 1)[..., 0]
    return ranks.gather(1, patch)


def draw_cloud(
    axes: Axes, points: Float[np.ndarray, "N 3"], *, title: str, ranks: Float[np.ndarray, " N"] | None = None
) -> None:
    """A cloud that fills its panel, near points over far ones and larger."""
    turned = rows_times_matrix(points, VIEW.T)
    order = np.argsort(turned[:, 2])
    x, y, depth = turned[order].T
    near = (depth - depth[0]) / ((depth[-1] - depth[0]) or 1)
    color: Any = PLAIN if ranks is None else SHIFT.to_rgba(ranks[order])
    axes.scatter(x, y, s=2 + 8 * near, c=color, linewidths=0)
    reach = 1.05 * max(np.ptp(x), np.ptp(y)) / 2 or 1
    middle = (x.max() + x.min()) / 2, (y.max() + y.min()) / 2
    axes.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach))
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.set_frame_on(False)
    axes.set_title(title, fontsize=10, color=FAINT)
