"""One classifier on several runtimes: patches to logits, as many times as fast as torch in float32.

    python benchmarks/bench_runtimes.py --threads 1 --repeats 5
    python benchmarks/bench_runtimes.py --data modelnet40_test.npz --clouds 600

The first prints times by size and batch, of random weights; runtimes take turns within one run and the least
time counts, so that a noisy machine disturbs all alike. The second prints how many answers of the bundled
weights are right, and how many differ from torch's in float32. What is not installed, or not in this
processor, is left out.
"""

import argparse
import copy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import purgegate as pg
from purgegate.backbones.onnx import export_backbone
from purgegate.backbones.onnx.runtimes import compiler
from purgegate.kernels.linear import set_precision
from purgegate.points.sampling import resample

SIZES = {"tiny": "point_mae_tiny", "paper's": "point_mae"}
WEIGHTS = "point_mae_tiny.modelnet40"
TORCH = "torch float32"
# Name -> runtime, precision of the file, precision of the runtime.
GRAPHS = {
    "ONNX Runtime float32": ("onnxruntime", "float32", "float32"),
    "ONNX Runtime int8": ("onnxruntime", "int8", "float32"),
    "OpenVINO float32": ("openvino", "float32", "float32"),
    "OpenVINO bfloat16": ("openvino", "float32", "bfloat16"),
}

Side = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # centres and patches to logits


def make_sides(model: Any) -> dict[str, Side]:
    """The model on everything that is there."""
    sides = {TORCH: on_torch(model)}
    lowered = copy.deepcopy(model)
    set_precision(lowered, "bfloat16")
    candidates: dict[str, Callable[[], Side]] = {"torch bfloat16": lambda: on_torch(lowered)}
    candidates |= {name: lambda how=how: on_graph(model, *how) for name, how in GRAPHS.items()}
    centers, patches = model.cut(torch.rand(1, model.points, 3))
    for name, make in candidates.items():
        try:
            side = make()
            side(centers, patches)
            sides[name] = side
        except ValueError as error:
            print(f"without {name}: {error}", file=sys.stderr)
    return sides


def on_torch(model: Any) -> Side:
    """As the program runs it itself."""

    @torch.no_grad()
    def run(centers: torch.Tensor, patches: torch.Tensor) -> torch.Tensor:
        return model.head(model.encode(model.embed(centers, patches)))

    return run


def on_graph(model: Any, runtime: str, exported: str, precision: str) -> Side:
    """As a program in any language runs the exported file."""
    with tempfile.TemporaryDirectory() as folder:
        export_backbone(model, Path(folder) / "model.onnx", precision=exported)
        graph = compiler(runtime, precision=precision)((Path(folder) / "model.onnx").read_bytes())
    share = np.zeros((), np.float32)

    def run(centers: torch.Tensor, patches: torch.Tensor) -> torch.Tensor:
        inputs = {"patches": patches.numpy(), "centers": centers.numpy(), "share": share}
        return torch.from_numpy(graph(inputs)[0])

    return run


def best_seconds(
    sides: dict[str, Side], inputs: tuple[torch.Tensor, torch.Tensor], repeats: int
) -> dict[str, float]:
    """Least time of each side over alternating repeats, after one that counts nothing."""
    best = dict.fromkeys(sides, float("inf"))
    for counted in range(-1, repeats):
        for name, run in sides.items():
            start = clock()
            run(*inputs)
            seconds = clock() - start
            best[name] = min(best[name], seconds) if counted >= 0 else best[name]
    return best


def clock() -> float:
    """Seconds; on one thread those of the processor, which other programs disturb least."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def print_times(sizes: list[str], batches: list[int], repeats: int) -> None:
    """A table of ratios, and the milliseconds of the unit."""
    columns: dict[str, dict[str, str]] = {}
    for size in sizes:
        torch.manual_seed(0)
        model: Any = pg.create_backbone(SIZES[size], classes=40)
        sides = make_sides(model)
        for batch in batches:
            best = best_seconds(sides, model.cut(torch.rand(batch, 1024, 3) * 2 - 1), repeats)
            cells = {name: f"{best[TORCH] / seconds:.2f}×" for name, seconds in best.items()}
            columns[f"{size} size, batch {batch}"] = cells | {TORCH: f"{1e3 * best[TORCH]:.1f} ms"}
    print_table(columns)


@torch.no_grad()
def print_answers(data: Path, clouds: int) -> None:
    """A table of right and of changed answers, clean and under noise."""
    model: Any = pg.load_backbone(WEIGHTS)
    found = pg.load_dataset(data)
    chosen = np.linspace(0, len(found.label) - 1, clouds).astype(int)
    noise = np.random.default_rng(0)
    noisy = [pg.corrupt(found.points[place], "gaussian", severity=5, generator=noise) for place in chosen]
    sides = make_sides(model)
    columns: dict[str, dict[str, str]] = {}
    for kind, points in {"clean": found.points[chosen], "gaussian": np.stack(noisy)}.items():
        batches = [model.cut(part) for part in resample(torch.from_numpy(points).float(), 1024).split(32)]
        answers = {
            name: torch.cat([run(*batch).argmax(dim=1) for batch in batches]) for name, run in sides.items()
        }
        label = torch.from_numpy(found.label[chosen])
        columns[f"{kind}, right of {clouds}"] = {
            name: str(int((each == label).sum())) for name, each in answers.items()
        }
        columns[f"{kind}, changed"] = {
            name: str(int((each != answers[TORCH]).sum())) for name, each in answers.items()
        }
    print_table(columns)


def print_table(columns: dict[str, dict[str, str]]) -> None:
    """Columns by name as Markdown; a row is what all columns have."""
    print(f"\n| {torch.get_num_threads()} thread(s) | {' | '.join(columns)} |")
    print("|---" * (1 + len(columns)) + "|")
    for name in next(iter(columns.values())):
        print(f"| {name} | {' | '.join(cells.get(name, '–') for cells in columns.values())} |")


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=[*SIZES])
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 1])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--data", type=Path, help="labelled clouds of ModelNet40: count answers, not time")
    parser.add_argument("--clouds", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.data:
        print_answers(options.data, options.clouds)
    else:
        print_times(options.sizes, options.batches, options.repeats)


if __name__ == "__main__":
    main()
