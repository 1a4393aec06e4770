"""PG-SP with six purge sizes at the paper's size, in both precisions, against one plain forward a size.

Run with `python benchmarks/bench_gate.py`. Times alternate within one run and the least of the repeats
counts, so that a noisy machine disturbs both sides alike; memory is the peak above the loaded models.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import purgegate as pg
from benchmarks.reference import plain_copy, plain_purge, reset_batch_norm
from purgegate.kernels.linear import set_precision
from purgegate.memory import PeakMemory

PURGE = (0, 2, 4, 8, 16, 32)
Sides = dict[str, Callable[[], torch.Tensor]]


def make_sides(batch: int, groups: int) -> Sides:
    """All sides on the same weights, clouds and statistics, and one source forward as the unit."""
    torch.manual_seed(0)
    model = pg.create_backbone("point_mae", classes=40, groups=groups)
    points = torch.rand(batch, 1024, 3) * 2 - 1
    with torch.no_grad():
        tokens = model.tokenize(points).placed()
    statistics = pg.SourceStatistics(tokens.mean((0, 1)), tokens.std((0, 1)))
    gate = pg.PurgeGate(model, pg.SourceDistance(statistics), purge=PURGE)
    source = pg.PurgeGate(model, pg.SourceDistance(statistics), purge=(0,))
    lower = copy.deepcopy(model)
    set_precision(lower, "bfloat16")
    gate_lower = pg.PurgeGate(lower, pg.SourceDistance(statistics), purge=PURGE)
    plain = plain_copy(model)
    reset_batch_norm(plain)
    return {
        "plain": lambda: plain_purge(plain, points, mean=statistics.mean, std=statistics.std, purge=PURGE),
        "gate": lambda: gate.predict(points).candidates,
        "bfloat16": lambda: gate_lower.predict(points).candidates,
        "source forward": lambda: source(points),
    }


def best_seconds(sides: Sides, repeats: int) -> dict[str, float]:
    """Least time of each side over alternating repeats."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(repeats):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_megabytes(run: Callable[[], torch.Tensor]) -> float:
    """Peak memory of one side above what the loaded models take."""
    with PeakMemory() as memory:
        run()
    return memory.megabytes


def main() -> None:
    """Print one row a batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 8])
    parser.add_argument("--groups", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"Point-MAE 384/12/6, {options.groups} groups, {torch.get_num_threads()} threads")
    for batch in options.batches:
        sides = make_sides(batch, options.groups)
        # First of all, and the gate before the plain side: what one frees, the next one need not ask for.
        memory = {name: peak_megabytes(sides[name]) for name in ("gate", "plain")}
        error = (sides["gate"]() - sides["plain"]()).abs().max().item()
        best = best_seconds(sides, options.repeats)
        print(
            f"batch {batch}: plain {best['plain']:.2f} s, gate {best['gate']:.2f} s: "
            f"{best['plain'] / best['gate']:.2f}x faster; "
            f"gate is {best['gate'] / best['source forward']:.2f} source forwards; "
            f"in bfloat16 {best['plain'] / best['bfloat16']:.2f}x faster, "
            f"{best['bfloat16'] / best['source forward']:.2f} source forwards; "
            f"largest difference {error:.1e}; "
            f"peak memory plain {memory['plain']:.0f} MB, gate {memory['gate']:.0f} MB"
        )


if __name__ == "__main__":
    main()
