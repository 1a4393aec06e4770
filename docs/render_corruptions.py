"""Render the sheet of the corruptions: `python docs/render_corruptions.py` writes docs/corruptions.png."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float

from purgegate.points.corruptions import CORRUPTIONS, corrupt
from purgegate.points.shapes import CLASSES, make_shapes
from purgegate.points.transforms import swap_up, turn_about
from purgegate.typing import Cloud, Mesh

SHAPE, EXAMPLE = "chair", 4
SEVERITIES, ACROSS = (1, 3, 5), 3
VIEW = turn_about(0, np.radians(-68)) @ turn_about(2, np.radians(-62))
REACH = 1.16  # half a side of a tile


def draw(axis: plt.Axes, points: Float[np.ndarray, "N 3"]) -> None:
    """Draw a cloud from the front, somewhat above: near points are larger and darker."""
    x, y, depth = (points @ VIEW.T).T
    order = np.argsort(depth)
    near = np.clip((depth[order] + 1) / 2, 0, 1)
    axis.scatter(
        x[order], y[order], s=1.0 + 3.2 * near**2, c=near, cmap="YlGnBu", vmin=-0.55, vmax=1.0, linewidths=0
    )
    axis.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xticks=[], yticks=[])
    axis.set_frame_on(False)


def corrupted(points: Cloud, mesh: Mesh, name: str, severity: int) -> Float[np.ndarray, "M 3"]:
    """Corrupt the object, and stand it up again where the corruption has turned it to y up."""
    source = points if name == "density_inc" else points[: len(points) // 2]
    bad = corrupt(source, name, severity=severity, generator=np.random.default_rng(severity), mesh=mesh)
    return swap_up(bad) if CORRUPTIONS[name].sees_mesh else bad


def main() -> None:
    """Draw one object under every corruption at three severities, three corruptions a row."""
    data = make_shapes("test", count=EXAMPLE + 1)
    index = EXAMPLE * len(CLASSES) + CLASSES.index(SHAPE)
    rows = -(-len(CORRUPTIONS) // ACROSS)
    figure = plt.figure(figsize=(13.4, 1.95 * rows), dpi=100)
    for place, name in enumerate(CORRUPTIONS):
        row, column = divmod(place, ACROSS)
        left, width = (column + 0.02) / ACROSS, 0.96 / ACROSS / len(SEVERITIES)
        word = "view" if CORRUPTIONS[name].sees_mesh else "severity"
        figure.text(
            left, 1 - (row + 0.03) / rows, name, fontsize=12, weight="bold", va="top", color="#1d2f5a"
        )
        for step, severity in enumerate(SEVERITIES):
            axis = figure.add_axes((left + step * width, 1 - (row + 0.91) / rows, width, 0.79 / rows))
            draw(axis, corrupted(data.points[index], data.meshes[index], name, severity))
            axis.text(
                0.5,
                -0.06,
                f"{word} {severity}",
                transform=axis.transAxes,
                ha="center",
                fontsize=8,
                color="#777777",
            )
    figure.savefig(Path(__file__).with_name("corruptions.png"))


if __name__ == "__main__":
    main()
