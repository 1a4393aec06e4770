"""Throughput of the training loop against the bare forward and backward pass of the same model.

    python benchmarks/bench_training.py --steps 8 --repeats 3

Both take the same number of clouds of 1,024 points. The loop also draws and augments its batches, clips,
steps the optimiser and keeps its counts: it must not need 1.5 times as long.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import purgegate as pg
from purgegate.memory import keep_freed_memory
from purgegate.train.data import Examples, epoch_batches
from purgegate.train.loop import Run
from purgegate.train.schedule import Schedule
from purgegate.train.supervised import supervised

CLASSES, POINTS, LIMIT = 40, 1024, 1.5


def bare_steps(model: torch.nn.Module, *, batch: int, steps: int) -> None:
    """Forward and backward on one random batch, again and again."""
    points, label = torch.rand(batch, POINTS, 3), torch.randint(CLASSES, (batch,))
    model.train()
    for _ in range(steps):
        F.cross_entropy(model(points), label).backward()
        model.zero_grad(set_to_none=True)


def loop_steps(model: torch.nn.Module, examples: Examples, *, batch: int, steps: int) -> None:
    """One epoch of the training loop, the first of two, so that nothing is gathered."""
    schedule = Schedule(epochs=2, batch=batch)
    batches = epoch_batches(examples, 0, seed=0, batch=batch, points=POINTS, augment=True)
    Run(model, supervised(schedule.smoothing), schedule=schedule).train_epoch(batches, steps=steps)


def seconds(work: Callable[[], None]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Measure both in turn and print the ratio of each pair."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="point_mae_tiny")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    keep_freed_memory()
    model = pg.create_backbone(options.backbone, classes=CLASSES)
    count = options.batch * options.steps
    examples = Examples(torch.rand(count, 1200, 3), torch.randint(CLASSES, (count,)))
    sizes = {"batch": options.batch, "steps": options.steps}
    bare_steps(model, batch=options.batch, steps=1)
    pairs = [
        (seconds(lambda: bare_steps(model, **sizes)), seconds(lambda: loop_steps(model, examples, **sizes)))
        for _ in range(options.repeats)
    ]
    bare, loop = (min(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(loop / bare for bare, loop in pairs)
    print(
        f"{options.backbone}, batch {options.batch}, {torch.get_num_threads()} threads, {count} clouds a pass"
    )
    print(f"bare forward and backward  {count / bare:7.1f} clouds/s")
    print(f"training loop              {count / loop:7.1f} clouds/s")
    print(f"the loop takes {ratio:.2f} times as long (median of {options.repeats}; at most {LIMIT})")
    if ratio > LIMIT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
