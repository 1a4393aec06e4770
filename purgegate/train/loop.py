"""The training loop: one checkpoint an epoch, and a resumed run ends where an unbroken one does."""

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from purgegate.gate.scores import standardise
from purgegate.gate.statistics import RunningMoments
from purgegate.io.files import check_file, make_folder, write_whole
from purgegate.io.locks import only_writer
from purgegate.kernels.linear import learned_products_in
from purgegate.norms import evaluating, momentum
from purgegate.train.data import Batch, Examples, epoch_batches, steps_in
from purgegate.train.schedule import PRECISIONS, Schedule, learning_rate, make_adamw
from purgegate.train.supervised import Objective

CHECKPOINT = "checkpoint.pth"
LOG = "log.csv"
PARTS = {"recipe", "rows", "model", "optimizer", "moments"}  # of a checkpoint

# Source statistics are gathered in this last part of the last epoch, when the weights hardly move any more.
GATHERED = 1 / 4

# Of running BatchNorm statistics, at the greatest learning rate: they come to rest together with the weights.
# The first steps are averaged, so that a short run has forgotten what the statistics began with.
MOMENTUM = 0.1

Row = dict[str, int | float]


@runtime_checkable
class Progress(Protocol):
    """Who wants to see a run go on."""

    def begin(self, epoch: int, *, epochs: int, steps: int) -> None:
        """An epoch begins."""

    def step(self, loss: float, accuracy: float) -> None:
        """A step is done; both are means over the epoch so far."""

    def end(self, row: Row) -> None:
        """An epoch is done, and kept."""


class Run:
    """A model on its way: weights, optimiser, the log's rows, and the tokens gathered in the last epoch.

    `facts` are what else a run must have in common with one that it resumes, beside the schedule.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        *,
        schedule: Schedule,
        facts: dict[str, str] | None = None,
    ) -> None:
        self.model, self.objective, self.schedule = model, objective, schedule
        self.facts = {"model": str(getattr(model, "config", "")), **(facts or {})}
        self.optimizer = make_adamw(model, lr=schedule.lr, weight_decay=schedule.weight_decay)
        self.rows: list[Row] = []
        self.moments = RunningMoments()

    def train_epoch(self, batches: Iterable[Batch], *, steps: int, progress: Progress | None = None) -> Row:
        """One pass over the batches; the epoch's row of the log."""
        epoch, meter = len(self.rows), _Meter()
        settled = steps * self.schedule.epochs - max(int(GATHERED * steps), 1)
        device = next(self.model.parameters()).device
        self.model.train()
        precision = learned_products_in(PRECISIONS[self.schedule.precision])
        with _seeded(self.schedule.seed, epoch) as generator, precision:
            for step, batch in enumerate(batches, start=epoch * steps):
                batch = Batch(*(x.to(device) for x in batch))
                rate = learning_rate(self.schedule, step, steps=steps * self.schedule.epochs)
                self._set_learning_rate(rate)
                with momentum(self.model, max(MOMENTUM * rate / self.schedule.lr, 1 / (step + 1))):
                    losses, logits = self.objective(self.model, batch, generator)
                self._descend(torch.stack(list(losses.values())).sum())
                if step >= settled:
                    self._gather(batch)
                meter.add(losses, logits, batch.label)
                if progress:
                    progress.step(sum(meter.losses.values()), meter.accuracy)
        self.model.eval()
        return {"epoch": epoch + 1, **meter.row(), "lr": self.optimizer.param_groups[0]["lr"]}

    def _descend(self, loss: Tensor) -> None:
        if not torch.isfinite(loss):
            raise ValueError(
                f"the loss became {loss.item()}: lower the learning rate from {self.schedule.lr}"
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        self.optimizer.step()

    @torch.no_grad()
    def _gather(self, batch: Batch) -> None:
        # As the gate will see source tokens: unaugmented, under running BatchNorm statistics.
        with evaluating(self.model):
            tokens = self.model.tokenize(batch.clean)  # type: ignore[operator]
        self.moments.add(standardise(tokens.placed()).flatten(0, 1))

    def _set_learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def save(self, path: Path) -> None:
        """Write a checkpoint that appears whole or not at all."""
        content = {
            "recipe": asdict(self.schedule) | self.facts,
            "rows": self.rows,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "moments": vars(self.moments),
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_whole(path, buffer.getvalue())

    def restore(self, path: Path) -> None:
        """Go on where `save` was called; another schedule, model or data set is refused."""
        content = _read(path)
        found, asked = content["recipe"], asdict(self.schedule) | self.facts
        if found != asked:
            changed = ", ".join(name for name in asked if found.get(name) != asked[name])
            raise ValueError(
                f"{path} belongs to a run with another {changed}: "
                "repeat its schedule to resume it, or train into another folder"
            )
        try:
            self.model.load_state_dict(content["model"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.rows = list(content["rows"])
            vars(self.moments).update(content["moments"])
        except Exception as error:  # of the right parts, with anything in them
            raise ValueError(f"{path} is damaged: remove it to train from the start") from error


def fit(
    run: Run,
    examples: Examples,
    *,
    out: Path,
    test: Examples | None = None,
    test_every: int = 1,
    progress: Progress | None = None,
    keep: Callable[[Run], None] | None = None,
) -> None:
    """Train to the last epoch, with a checkpoint and a log in `out`; a run broken off there is resumed.

    All randomness of an epoch comes from the seed and the epoch, so weights and optimiser are all there is to
    keep. The last epoch's weights are the result: to choose an epoch on the test set would be to train on it.
    """
    make_folder(out)
    with only_writer(out):
        if (out / CHECKPOINT).exists():
            run.restore(out / CHECKPOINT)
        schedule, steps = run.schedule, steps_in(examples, run.schedule.batch)
        points: Any = run.model.points
        for epoch in range(len(run.rows), schedule.epochs):
            if progress:
                progress.begin(epoch + 1, epochs=schedule.epochs, steps=steps)
            batches = epoch_batches(
                examples,
                epoch,
                seed=schedule.seed,
                batch=schedule.batch,
                points=points,
                augment=schedule.augment,
            )
            row = run.train_epoch(batches, steps=steps, progress=progress)
            if test is not None and (epoch + 1 == schedule.epochs or (epoch + 1) % test_every == 0):
                row["test_accuracy"] = accuracy(run.model, test)
            run.rows.append(row)
            run.save(out / CHECKPOINT)
            write_log(run.rows, out / LOG)
            if keep:
                keep(run)
            if progress:
                progress.end(row)


def accuracy(model: nn.Module, examples: Examples) -> float:
    """Share of the clouds that are classified rightly."""
    return count_correct(model, examples) / len(examples)


@torch.no_grad()
def count_correct(
    model: nn.Module,
    examples: Examples,
    *,
    batch: int = 64,
    advance: Callable[[int], None] = lambda clouds: None,
) -> int:
    """How many clouds are classified rightly by their first points, once each, under running statistics."""
    device, size, correct = next(model.parameters()).device, model.points, 0
    with evaluating(model):
        for points, label in zip(examples.points.split(batch), examples.label.split(batch), strict=True):
            correct += int((model(points[:, :size].to(device)).argmax(dim=1).cpu() == label).sum())
            advance(len(label))
    return correct


def write_log(rows: list[Row], path: Path) -> None:
    """Write the rows as CSV, all anew: a resumed run leaves no double ones."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


class _Meter:
    """Means over the clouds of an epoch so far."""

    def __init__(self) -> None:
        self.started, self.seen, self.correct = time.perf_counter(), 0, 0
        self.losses: dict[str, float] = {}

    def add(self, losses: dict[str, Tensor], logits: Tensor | None, label: Tensor) -> None:
        self.seen += len(label)
        share = len(label) / self.seen
        for name, loss in losses.items():
            before = self.losses.get(name, 0.0)
            self.losses[name] = before + share * (loss.item() - before)
        if logits is not None:
            self.correct += int((logits.argmax(dim=1) == label).sum())

    @property
    def accuracy(self) -> float:
        return self.correct / self.seen

    def row(self) -> Row:
        parts = {f"{name}_loss": loss for name, loss in self.losses.items()}
        seconds = time.perf_counter() - self.started
        return {"loss": sum(parts.values()), **parts, "train_accuracy": self.accuracy, "seconds": seconds}


@contextmanager
def _seeded(seed: int, epoch: int) -> Iterator[torch.Generator]:
    """A generator for the epoch; dropout, which takes none, draws from torch's own, seeded for a while."""
    number = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
    with torch.random.fork_rng():
        torch.manual_seed(number)
        yield torch.Generator().manual_seed(number)


def _read(path: Path) -> dict[str, Any]:
    check_file(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle may lead to any
        raise ValueError(f"{path} is not a whole checkpoint: remove it to train from the start") from error
    if not isinstance(content, dict) or not content.keys() >= PARTS:
        raise ValueError(f"{path} is no checkpoint of a training: give another folder")
    return content
