"""From a finished run to a file that says what it holds: weights, source statistics, accuracy, command."""

import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from purgegate.backbones import name_of
from purgegate.fingerprints import model_fingerprint
from purgegate.gate.statistics import SourceStatistics
from purgegate.io.checkpoints import save_checkpoint
from purgegate.train.data import Examples, epoch_batches
from purgegate.train.loop import Run, count_correct


def export(
    run: Run,
    path: Path,
    *,
    examples: Examples,
    test: Examples,
    class_names: tuple[str, ...],
    facts: dict[str, Any],
) -> SourceStatistics:
    """Write the run's model in half precision; accuracy and statistics are those of the rounded weights.

    Variant b of the statistics was gathered in the last epoch; variant a, which is returned too, takes one
    more pass over the training clouds.
    """
    model = rounded(run.model)
    gathered = SourceStatistics.from_moments(run.moments, fingerprint=model_fingerprint(model))
    collected = collect(model, examples, run)
    training = {
        "correct": count_correct(model, test),
        "total": len(test),
        "recipe": asdict(run.schedule),
        "seconds": sum(row["seconds"] for row in run.rows),
        **facts,
    }
    metadata = {
        "backbone": name_of(model),
        "config": model.config,
        "class_names": class_names,
        "training": training,
        "statistics": {"a": _plain(collected), "b": _plain(gathered)},
    }
    save_checkpoint(model, path, metadata=metadata, dtype=torch.float16)
    return collected


def save_epoch(run: Run, path: Path, *, class_names: tuple[str, ...]) -> None:
    """Write the model as it is after the run's latest epoch, in half precision, without statistics."""
    metadata = {"backbone": name_of(run.model), "config": run.model.config, "class_names": class_names}
    save_checkpoint(rounded(run.model), path, metadata=metadata, dtype=torch.float16)


def rounded(model: nn.Module) -> nn.Module:
    """A copy whose weights are exact in half precision."""
    return copy.deepcopy(model).half().float().eval()


def collect(model: Any, examples: Examples, run: Run) -> SourceStatistics:
    """Statistics of clean training clouds, each as a subset that no epoch of the run has seen."""
    batches = epoch_batches(
        examples,
        run.schedule.epochs,
        seed=run.schedule.seed,
        batch=run.schedule.batch,
        points=model.points,
        augment=False,
    )
    device = next(model.parameters()).device
    return SourceStatistics.collect(model, (batch.clean.to(device) for batch in batches))


def _plain(statistics: SourceStatistics) -> dict[str, Any]:
    return {
        "mean": statistics.mean.tolist(),
        "std": statistics.std.tolist(),
        "count": statistics.count,
    }
