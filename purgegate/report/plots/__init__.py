"""Plots of result rows by name; each is a function of rows that gives a figure."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from purgegate.io.results import Row
from purgegate.report.plots.batch_size import batch_size
from purgegate.report.plots.batchnorm import batchnorm
from purgegate.report.plots.brittleness import brittleness
from purgegate.report.plots.corruptions import corruptions
from purgegate.report.plots.cost import cost
from purgegate.report.plots.gains import gains
from purgegate.report.plots.sweep import sweep

PLOTS: dict[str, Callable[[Sequence[Row]], Figure]] = {
    "corruptions": corruptions,  # accuracy under each corruption
    "gains": gains,  # points against the control under each corruption
    "sweep": sweep,  # accuracy and entropy against the purge size
    "batch_size": batch_size,  # accuracy against the number of clouds in a batch
    "batchnorm": batchnorm,  # with and without BatchNorm reset
    "brittleness": brittleness,  # points against the control, over the source's own accuracy
    "cost": cost,  # time and memory
}
