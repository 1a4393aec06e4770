"""How a source model was trained, from the log of its run."""

import csv
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from purgegate.report.plots.style import INK, Look, draw_line, new_figure, panels_of, tidy, whole_numbers
from purgegate.typing import StrPath

LOOKS = (
    Look("#0072b2"),
    Look("#d55e00", "s"),
    Look("#009e73", "^"),
    Look("#cc79a7", "D"),
    Look("#e69f00", "v"),
)
Curve = dict[int, float]  # from epoch to value


def training(path: StrPath) -> Figure:
    """Losses and accuracies against epochs."""
    log = read_log(path)
    figure = new_figure(9.0, 3.9, title="Training: loss and accuracy of each epoch")
    left, right = panels_of(figure, 1, 2)[0]
    parts = [name for name in log if name.endswith("_loss")]
    tidy(left, x="epoch", y="mean loss")
    _draw(
        left,
        {name.replace("_", " "): log[name] for name in ("loss", *parts) if len(parts) > 1 or name == "loss"},
    )
    tidy(right, x="epoch", y="accuracy, %")
    shares = [name for name in ("train_accuracy", "test_accuracy") if name in log]
    percent = {name: {epoch: 100 * share for epoch, share in log[name].items()} for name in shares}
    _draw(right, {name.split("_")[0]: curve for name, curve in percent.items()})
    return figure


def read_log(path: StrPath) -> dict[str, Curve]:
    """The columns of a `log.csv` of `purgegate train`; an epoch without a value is left out."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: give the log.csv in the folder of `purgegate train`")
    log: dict[str, Curve] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file, strict=True):
                for name in (name for name, text in row.items() if text):
                    log.setdefault(name, {})[int(row["epoch"])] = float(row[name])
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(
            f"{path} must be a log of `purgegate train`; it cannot be read: {error!r}"
        ) from error
    if not log.get("loss"):
        raise ValueError(f"{path} must be a log of `purgegate train` with at least one epoch; it has no loss")
    return log


def _draw(axes: Axes, curves: dict[str, Curve]) -> None:
    for (name, curve), look in zip(curves.items(), LOOKS, strict=False):
        draw_line(axes, curve, look=look, label=name)
    whole_numbers(axes)
    if curves:
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
