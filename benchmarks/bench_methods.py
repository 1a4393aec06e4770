"""Every method on one stream of clouds: time a cloud in source forwards, against BFTT3D, and peak memory.

    python benchmarks/bench_methods.py --clouds 32 --batch 32 --rounds 3

Methods take turns within one run and the least time of the rounds counts, so that a noisy machine disturbs
all alike; on one thread it is processor time, which is disturbed least. Memory is the peak above the loaded
model while a method is made and answers its first batch. BFTT3D holds as many prototypes as on ModelNet40.
DUA costs this much for the first 80 clouds of a domain only; every later one is a source forward.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import purgegate as pg
from benchmarks.reference_bftt3d import PlainBFTT3D
from purgegate.adapt.bftt3d import Memory, remember
from purgegate.adapt.pointnn import PointNN
from purgegate.memory import PeakMemory
from purgegate.points.sampling import resample

WEIGHTS = "point_mae_tiny.modelnet40_joint"  # the one that every method runs on
PROTOTYPES = 61  # of each of 40 classes: a quarter of ModelNet40's 9,843 training clouds
METHODS = (
    *(
        "source",
        "source_bn",
        "t3a",
        "ln_tta",
        "tent",
        "shot",
        "dua",
        "pg_sp",
        "pg_sf",
        "pg_auto",
        "random_purge",
    ),
    *("bftt3d", "ttt_rot", "mate", "smart_pc"),
)
PLAIN = "bftt3d, plainly"  # as published, every tensor made
Makers = dict[str, Callable[[], Any]]


def make_batches(clouds: int, batch: int) -> list[Tensor]:
    """Test clouds of the embedded data set, spread over its classes, as batches of 1,024 points."""
    points = torch.from_numpy(pg.load_dataset("shapes").points)
    index = torch.linspace(0, len(points) - 1, clouds).long()
    return list(resample(points[index], 1024).split(batch))


def make_memory(points: Tensor, *, classes: int) -> Memory:
    """Prototypes in ModelNet40's number: features of some clouds, each many times, blurred to be distinct."""
    few = remember(points, torch.arange(len(points)), encoder=PointNN(), every=1)
    label = torch.arange(classes).repeat_interleave(PROTOTYPES)
    features = few.features[torch.arange(len(label)) % len(points)]
    blur = 0.01 * torch.randn(features.shape, generator=torch.Generator().manual_seed(0))
    return Memory(F.normalize(features + blur), label)


def make_makers(points: Tensor) -> Makers:
    """How each method is made, all round the same model."""
    model: Any = pg.load_backbone(WEIGHTS)
    needs: dict[str, dict[str, Any]] = {
        "pg_sp": {"statistics": pg.SourceStatistics.from_weights(WEIGHTS)},
        "bftt3d": {"source": make_memory(points, classes=model.classes)},
    }
    makers: Makers = {
        name: lambda name=name: pg.create_adapter(name, model, **needs.get(name, {})) for name in METHODS
    }
    return makers | {PLAIN: lambda: PlainBFTT3D(model, *needs["bftt3d"]["source"])}


def peak_megabytes(make: Callable[[], Any], points: Tensor) -> float:
    """Peak memory of a method from its making to its first answer."""
    with PeakMemory() as memory:
        make()(points)
    return memory.megabytes


def now() -> float:
    """Seconds by the clock, or of the processor where one thread does all the work."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def best_seconds(makers: Makers, batches: Sequence[Tensor], *, rounds: int) -> dict[str, float]:
    """Least time of each method over the whole stream, from the source model on."""
    best = dict.fromkeys(makers, float("inf"))
    for _ in range(rounds):
        for name, make in makers.items():
            adapter = make()
            start = now()
            for points in batches:
                adapter(points)
            best[name] = min(best[name], now() - start)
    return best


def mate_seconds(makers: Makers, point: Tensor, *, rounds: int) -> tuple[float, float]:
    """Least times of one of MATE's steps, and of a source forward, both on a single cloud."""
    mate, source, times = makers["mate"](), makers["source"](), []
    for _ in range(3 * rounds):
        start = now()
        mate.step(point)
        middle = now()
        source(point)
        times.append((middle - start, now() - middle))
    steps, forwards = zip(*times, strict=True)
    return min(steps), min(forwards)


def print_table(seconds: dict[str, float], megabytes: dict[str, float]) -> None:
    """One line a method; `seconds` are those of one cloud."""
    print("| method | ms a cloud | source forwards | BFTT3D takes | plainly | peak MB |")
    print("|:--|--:|--:|--:|--:|--:|")
    for name, own in seconds.items():
        ratios = " | ".join(
            [f"{own / seconds['source']:.2f}", *(f"{seconds[name] / own:.2f}x" for name in ("bftt3d", PLAIN))]
        )
        print(f"| {name} | {1e3 * own:.2f} | {ratios} | {megabytes[name]:.0f} |")


def main() -> None:
    """Print the table, then what MATE's adaptation to one cloud costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clouds", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    batches = make_batches(options.clouds, options.batch)
    makers = make_makers(batches[0])
    best_seconds(makers, [batches[0][:2]], rounds=1)  # compiles and loads what is needed later
    megabytes = {name: peak_megabytes(make, batches[0]) for name, make in makers.items()}
    stream = best_seconds(makers, batches, rounds=options.rounds)
    seconds = {name: total / options.clouds for name, total in stream.items()}
    print(f"{WEIGHTS}, {options.clouds} clouds in batches of {options.batch}, {options.threads} threads\n")
    print_table(seconds, megabytes)
    step, forward = mate_seconds(makers, batches[0][:1], rounds=options.rounds)
    print(
        f"\nOne adaptation of MATE (a step on 48 copies of a cloud): {1e3 * step:.0f} ms, that is "
        f"{step / seconds['source']:.1f} source forwards in batches of {options.batch}, "
        f"{step / forward:.1f} of one cloud alone"
    )


if __name__ == "__main__":
    main()
