"""Farthest point sampling to 1,024 points, of small and large clouds, against a bare C loop.

Run with `python benchmarks/bench_sampling.py`; it needs a C compiler (`cc`).
"""

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from purgegate.points.sampling import farthest_points, farthest_points_reference

SHAPES = (32, 1024), (32, 2048), (1, 64_000)  # clouds, points of each

BARE_LOOP = """
#include <math.h>
void fps(const float *p, long n, long m, long *index, float *nearest) {
  for (long i = 0; i < n; i++) nearest[i] = INFINITY;
  long last = 0;
  for (long s = 0; s < m; s++) {
    index[s] = last;
    float x = p[3 * last], y = p[3 * last + 1], z = p[3 * last + 2], best = -1;
    for (long i = 0; i < n; i++) {
      float a = p[3 * i] - x, b = p[3 * i + 1] - y, c = p[3 * i + 2] - z;
      float d = a * a + b * b + c * c;
      if (d < nearest[i]) nearest[i] = d;
      if (nearest[i] > best) { best = nearest[i]; last = i; }
    }
  }
}
"""


def compile_loop(folder: Path) -> ctypes.CDLL:
    """The C loop as a shared library, with all of the compiler's vectorisation."""
    (folder / "fps.c").write_text(BARE_LOOP)
    flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", folder / "fps.so", folder / "fps.c"], check=True)
    return ctypes.CDLL(str(folder / "fps.so"))


def run_loop(library: ctypes.CDLL, points: np.ndarray, count: int) -> np.ndarray:
    """The C loop over all clouds, one thread a core."""
    index = np.empty((len(points), count), dtype=np.int64)

    def one(cloud: int) -> None:
        nearest = np.empty(points.shape[1], dtype=np.float32)
        pointer = ctypes.c_void_p
        arrays = (array.ctypes.data_as(pointer) for array in (points[cloud], index[cloud], nearest))
        source, target, scratch = arrays
        library.fps(source, ctypes.c_long(points.shape[1]), ctypes.c_long(count), target, scratch)

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(one, range(len(points))))
    return index


def best_milliseconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Least time over the repeats."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def main() -> None:
    """Print the times of every shape and whether the indices agree."""
    print(f"{torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as folder:
        library = compile_loop(Path(folder))
        for batch, count in SHAPES:
            points = torch.rand(batch, count, 3, generator=torch.Generator().manual_seed(0))
            compare(library, points)


def compare(library: ctypes.CDLL, points: torch.Tensor, wanted: int = 1024) -> None:
    """Print the three times for one batch."""
    start = torch.zeros(len(points), dtype=torch.long)
    plain = best_milliseconds(lambda: farthest_points_reference(points, wanted, start), repeats=1)
    same = torch.equal(farthest_points(points, wanted), farthest_points_reference(points, wanted, start))
    ours = best_milliseconds(lambda: farthest_points(points, wanted))
    bare = best_milliseconds(lambda: run_loop(library, points.numpy(), wanted))
    print(
        f"{len(points)} x {points.shape[1]}: ours {ours:.1f} ms, C loop {bare:.1f} ms, plain {plain:.0f} "
        f"ms; ours takes {ours / bare:.2f} of the C loop; identical to the plain reference: {same}"
    )


if __name__ == "__main__":
    main()
