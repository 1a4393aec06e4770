"""The selective scan at the published size against torch, and PointMamba against Point-MAE of equal size.

Run with `python benchmarks/bench_scan.py`. Times are processor time on one thread, so that a busy machine
disturbs them little; both sides alternate within one run and the least of the repeats counts.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import purgegate as pg
from purgegate.kernels.scan import selective_scan, selective_scan_reference

Sides = dict[str, Callable[[], Any]]
CHANNELS, STATES = 768, 16


def make_inputs(batch: int, length: int) -> dict[str, Tensor]:
    """Arguments of a scan as a mixer of the published width makes them."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    found = {
        "u": draw(batch, length, CHANNELS),
        "delta": F.softplus(draw(batch, length, CHANNELS) - 2),
        "A": -torch.arange(1.0, 1 + STATES) * torch.exp(0.3 * draw(CHANNELS, STATES)),
        "B": draw(batch, length, STATES),
        "C": draw(batch, length, STATES),
        "D": draw(CHANNELS),
    }
    return {name: value.requires_grad_() for name, value in found.items()}


def doubling_scan(u: Tensor, delta: Tensor, *, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """A parallel scan in torch: each pass joins every place with the one twice as far before it."""
    decay = torch.exp(delta[..., None] * A)
    h, shift = (delta * u)[..., None] * B[:, :, None], 1
    while shift < u.shape[1]:
        h = torch.cat([h[:, :shift], h[:, shift:] + decay[:, shift:] * h[:, :-shift]], dim=1)
        decay = torch.cat([decay[:, :shift], decay[:, shift:] * decay[:, :-shift]], dim=1)
        shift *= 2
    return (h * C[:, :, None]).sum(dim=-1) + D * u


def doubling_by_clouds(inputs: dict[str, Tensor]) -> Tensor:
    """The parallel scan of one cloud after the other: all at once would fill the memory."""
    shared = {name: inputs[name] for name in ("A", "D")}
    parts = zip(*(inputs[name].split(1) for name in ("u", "delta", "B", "C")), strict=True)
    with torch.no_grad():
        return torch.cat([doubling_scan(u, delta, B=b, C=c, **shared) for u, delta, b, c in parts])


def forward_sides(inputs: dict[str, Tensor]) -> Sides:
    """The forward of each scan, without gradients."""

    def forward(scan: Callable[[], Tensor]) -> Tensor:
        with torch.no_grad():
            return scan()

    return {
        "reference": lambda: forward(lambda: selective_scan_reference(**inputs)),
        "compiled": lambda: forward(lambda: selective_scan(**inputs)),
    }


def training_sides(inputs: dict[str, Tensor]) -> Sides:
    """The forward and backward of each scan."""
    weights = torch.randn(inputs["u"].shape, generator=torch.Generator().manual_seed(1))
    leaves = list(inputs.values())
    return {
        "reference": lambda: torch.autograd.grad(selective_scan_reference(**inputs), leaves, weights),
        "compiled": lambda: torch.autograd.grad(selective_scan(**inputs), leaves, weights),
    }


def model_sides(batch: int) -> Sides:
    """A whole forward of each backbone at about 12.3 million parameters."""
    points = torch.rand(batch, 1024, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    models = {
        "PointMamba": pg.create_backbone("point_mamba", classes=40),
        "Point-MAE": pg.create_backbone("point_mae", classes=40, width=282),
    }

    def forward(model: nn.Module) -> Tensor:
        with torch.no_grad():
            return model(points)

    for name, model in models.items():
        count = sum(parameter.numel() for parameter in model.parameters())
        print(f"{name}: width {model.width}, {count / 1e6:.2f} million parameters")
    return {name: lambda model=model: forward(model) for name, model in models.items()}


def best_seconds(sides: Sides, repeats: int) -> dict[str, float]:
    """Least processor time of each side over alternating repeats."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(repeats):
        for name, run in sides.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def report_scan(batch: int, length: int, repeats: int) -> None:
    """Print times and differences of the scans at one length."""
    inputs = make_inputs(batch, length)
    print(f"scan, batch {batch}, {length} places, {CHANNELS} channels, {STATES} states:")
    for task, sides in {"forward": forward_sides(inputs), "training": training_sides(inputs)}.items():
        compare(task, sides, repeats if task == "training" else 4 * repeats)
    doubling = best_seconds({"doubling": lambda: doubling_by_clouds(inputs)}, 1)["doubling"]
    print(f"  forward of a parallel scan in torch (doubling): {1e3 * doubling:.0f} ms")


def compare(task: str, sides: Sides, repeats: int) -> None:
    """Print the times of both sides, and the largest difference of a value to the greatest of its tensor."""
    plain, mine = ([x] if isinstance(x, Tensor) else x for x in (sides[name]() for name in sides))
    error = max(((a - b).abs().max() / a.abs().max()).item() for a, b in zip(plain, mine, strict=True))
    best = best_seconds(sides, repeats)
    print(
        f"  {task}: reference {1e3 * best['reference']:.0f} ms, compiled {1e3 * best['compiled']:.0f} ms: "
        f"{best['reference'] / best['compiled']:.1f}x faster; largest relative difference {error:.1e}"
    )


def main() -> None:
    """Print the scan's ratios at each length, then the whole forward's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for length in options.lengths:
        report_scan(options.batch, length, options.repeats)
    best = best_seconds(model_sides(options.batch), options.repeats)
    print(
        f"whole forward, batch {options.batch}: Point-MAE {best['Point-MAE']:.2f} s, "
        f"PointMamba {best['PointMamba']:.2f} s: {best['PointMamba'] / best['Point-MAE']:.2f} of it"
    )


if __name__ == "__main__":
    main()
