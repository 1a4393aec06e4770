"""What Dask costs a unit, and what is to be expected of many workers: `python benchmarks/bench_cluster.py`.

Empty units are measured on 1 to 8 worker processes of this machine, units of 1 s beside those of --workers 2,
and the one writer on a file of as many rows as the full grid has. From these and the cost rows of the methods
follows the efficiency of 16, 128 and 1,000 workers: work done, by what as many workers could do in that time.
"""

import argparse
import itertools
import tempfile
import time
from pathlib import Path

from purgegate.adapt import METHODS
from purgegate.costs import seconds_on, shipped_costs, shipped_rows
from purgegate.io.results import append_rows
from purgegate.workers import worker_map

WORKERS = (16, 128, 1000)
CLOUDS = {"ModelNet40-C": 2468, "ScanObjectNN-C": 581, "ShapeNet-C": 2874}  # test sets
CORRUPTIONS, SEVERITIES, SEEDS, MODELS, POINTS = 15, 5, 3, 5, 1024
# No rows of cost.toml are theirs: they are these, with other tokens purged or statistics of the batch.
LIKE = {"bftt3d_bn": "bftt3d", "random_purge": "pg_sp", "random_starts": "source_bn"}
NETWORK = 125e6  # bytes a second of one file server, 1 Gbit/s


def nothing(task: dict) -> dict:
    """An empty unit, which gets and gives as many bytes as a real one."""
    return task


def second(task: float) -> float:
    """A unit of one second that needs no processor, so that other work on the machine does not count."""
    time.sleep(task)
    return task


def time_units(function, tasks: list, **where) -> float:
    """Seconds for tasks on workers that have started."""
    count = int(where["cluster"].split(":")[1]) if "cluster" in where else where["workers"]
    with worker_map(**{"workers": 1, **where}, ordered=False) as run:
        list(run(second, [0.2] * 2 * count))
        time.sleep(1.1)  # the count of the workers is renewed
        start = time.perf_counter()
        assert len(list(run(function, tasks))) == len(tasks)
        return time.perf_counter() - start


def time_writer(rows: int) -> float:
    """Seconds to add a row to a file that has so many."""
    row = shipped_rows()[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        append_rows(path, [row] * rows)
        start = time.perf_counter()
        for _ in range(20):
            append_rows(path, [row])
        return (time.perf_counter() - start) / 20


def cost_of(method: str) -> float:
    """Seconds per cloud."""
    found = shipped_costs().per_cloud(LIKE.get(method, method), "")
    assert found, f"{method} needs a row in docs/results/cost"
    return found


def grid(
    seeds: int, models: int, severities: int, sets: list[int], *, continual: bool = False
) -> list[float]:
    """Seconds of all units in the order of recipes: by seed, model, method, domain."""
    domains = CORRUPTIONS * severities
    stream = [domains] if continual else [1] * domains
    groups = itertools.product(range(seeds), sets, range(models))
    return [cost_of(m) * count * cells for _, count, _ in groups for m in METHODS for cells in stream]


def longest_first(units: list[float], seeds: int) -> list[float]:
    """The order in which the grid is run on many workers: by seed, and then by length."""
    size = len(units) // seeds
    return [x for start in range(0, len(units), size) for x in sorted(units[start : start + size])[::-1]]


def show(title: str, units: list[float], *, seeds: int, each: float, apart: float) -> None:
    """Efficiency of so many workers in the recipe's order, with the longest first, and why not more."""
    total = sum(units)
    longest = max(units) / 60
    print(f"\n{title}: {len(units):,} units, {total / 3600:,.0f} CPU hours, the longest {longest:,.0f} min")
    print(f"{'workers':>8} {'as listed':>10} {'longest first':>14} {'without overhead':>17} {'at best':>8}")
    for workers in WORKERS:
        orders = units, longest_first(units, seeds)
        listed, first = (seconds_on(workers, order, each=each, apart=apart) for order in orders)
        free = seconds_on(workers, orders[1])
        best = max(total / workers, max(units))  # no order can do better: the longest unit is one piece
        shares = (total / workers / found for found in (listed, first, free, best))
        print("{:>8,} {:>10.1%} {:>14.1%} {:>17.1%} {:>8.1%}".format(workers, *shares))


def main() -> None:
    """Measure, then reckon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=400)
    options = parser.parse_args()
    task = {**shipped_rows()[0], "recipe": "x" * 2000}
    print(f"empty units, {options.units} each\n{'workers':>8} {'ms a unit':>10}")
    spent = {}
    for count in (1, 2, 4, 8):
        spent[count] = time_units(nothing, [task] * options.units, cluster=f"local:{count}") / options.units
        print(f"{count:>8} {1000 * spent[count]:>10.2f}", flush=True)
    pools = time_units(second, [1.0] * 10, workers=2)
    dask = time_units(second, [1.0] * 10, cluster="local:2")
    print(
        f"\n10 units of 1 s on 2 workers: processes {pools:.2f} s, Dask {dask:.2f} s, {dask / pools - 1:+.1%}"
    )
    full = grid(SEEDS, MODELS, SEVERITIES, list(CLOUDS.values()))
    few, many = time_writer(100), time_writer(len(full))
    print(f"the writer: {1000 * few:.1f} ms a row in a file of 100, {1000 * many:.1f} ms of {len(full):,}")
    each, apart = spent[1], min(spent.values()) + many
    sets, modelnet = list(CLOUDS.values()), [CLOUDS["ModelNet40-C"]]
    one, streams = grid(1, 1, 1, modelnet), grid(SEEDS, MODELS, SEVERITIES, sets, continual=True)
    show("the full grid", full, seeds=SEEDS, each=each, apart=apart)
    show("one recipe: ModelNet40-C, severity 5, one model, one seed", one, seeds=1, each=each, apart=apart)
    show("the full grid as continual streams", streams, seeds=SEEDS, each=each, apart=apart)
    read = sum(CLOUDS.values()) * SEEDS * MODELS * len(METHODS) * CORRUPTIONS * SEVERITIES * POINTS * 12
    hours = read / NETWORK / 3600
    print(f"\nclouds read by the full grid: {read / 1e12:.1f} TB, {hours:.1f} hours of a server of 1 Gbit/s")


if __name__ == "__main__":
    main()
