"""The selective scan at the published size against torch, and PointMamba against Point-MAE of equal size.

Run with `python benchmarks/bench_scan.py`. Times are processor time on one thread, so that a busy machine
disturbs them little; both sides alternate within one run and the least of the repeats counts.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import purgegate as pg
from purgegate.backbones.scan import selective_scan, selective_scan_reference

Sides = dict[str, Callable[[], object]]
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


def by_clouds(scan: Callable[..., Tensor], inputs: dict[str, Tensor]) -> Tensor:
    """The scan of one cloud after the other, for one that would fill the memory."""
    shared = {name: inputs[name] for name in ("A", "D")}
    parts = zip(*(inputs[name].split(1) for name in ("u", "delta", "B", "C")), strict=True)
    return torch.cat([scan(u, delta, B=b, C=c, **shared) for u, delta, b, c in parts])


def scan_sides(inputs: dict[str, Tensor]) -> Sides:
    """The forward of each scan without gradients, and with them the forward and backward."""
    scans: dict[str, Callable[[], Tensor]] = {
        "reference": lambda: selective_scan_reference(**inputs),
        "doubling": lambda: by_clouds(doubling_scan, inputs),
        "compiled": lambda: selective_scan(**inputs),
    }
    weights = torch.randn(inputs["u"].shape, generator=torch.Generator().manual_seed(1))

    def forward(name: str) -> Tensor:
        with torch.no_grad():
            return scans[name]()

    def both(name: str) -> tuple[Tensor, ...]:
        return torch.autograd.grad(scans[name](), list(inputs.values()), weights)

    sides: Sides = {f"forward {name}": lambda name=name: forward(name) for name in scans}
    sides |= {f"training {name}": lambda name=name: both(name) for name in ("reference", "compiled")}
    return sides


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
    sides = scan_sides(make_inputs(batch, length))
    best = best_seconds(sides, repeats)
    print(f"scan, batch {batch}, {length} places, {CHANNELS} channels, {STATES} states:")
    for task in ("forward", "training"):
        base = best[f"{task} reference"]
        times = {name.split()[1]: seconds for name, seconds in best.items() if name.startswith(task)}
        print(f"  {task}: " + ", ".join(f"{x} {1e3 * s:.0f} ms ({base / s:.1f}x)" for x, s in times.items()))
    error = (sides["forward compiled"]() - sides["forward reference"]()).abs().max().item()
    pairs = zip(sides["training compiled"](), sides["training reference"](), strict=True)
    errors = [((mine - plain).abs().max() / plain.abs().max()).item() for mine, plain in pairs]
    print(f"  largest difference {error:.1e}; of gradients, to their greatest value {max(errors):.1e}")


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
