"""Throughput of the corruptions, in clouds per second on a core: `python benchmarks/bench_corruptions.py`."""

import time

import numpy as np

from purgegate.io.builder import points_taken
from purgegate.points.corruptions import CORRUPTIONS, corrupt
from purgegate.points.shapes import Shapes, make_shapes

SEVERITY, POINTS, SECONDS = 5, 1024, 2.0


def measure(data: Shapes, name: str, *, mesh: bool) -> float:
    """Clouds per second, over as many shapes as fit into the time."""
    corrupt(data.points[0], name, severity=SEVERITY, generator=np.random.default_rng(0))  # warm up
    start, done = time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < SECONDS:
        index = done % len(data.points)
        points = data.points[index, : points_taken(name, POINTS)]
        generator = np.random.default_rng([SEVERITY, done])
        seen = data.meshes[index] if mesh else None
        corrupt(points, name, severity=SEVERITY, generator=generator, mesh=seen)
        done += 1
    return done / spent


if __name__ == "__main__":
    data = make_shapes("test")
    print(f"severity {SEVERITY}, {POINTS:,} points, one core\n")
    print(f"{'corruption':<32} clouds/s")
    for corruption, kind in CORRUPTIONS.items():
        for mesh in (True, False) if kind.sees_mesh else (False,):
            title = corruption + (" (mesh)" if mesh else " (points only)" if kind.sees_mesh else "")
            print(f"{title:<32} {measure(data, corruption, mesh=mesh):8,.0f}", flush=True)
