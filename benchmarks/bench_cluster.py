"""What Dask costs a unit, and what is to be expected of many workers: `python benchmarks/bench_cluster.py`.

Empty units are measured on 1 to 8 worker processes of this machine, units of 1 s in turn on --workers 2 and
on --cluster local:2, and the one writer on a file of as many rows as the full grid has. From these and the
cost rows of the methods follows the efficiency of 16, 128 and 1,000 workers: work done, by what as many
workers could do in that time.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


class Work(NamedTuple):
    """A unit as the simulation sees it."""

    seconds: float
    clouds: int  # that are read for it


def nothing(task: dict) -> dict:
    """An empty unit, which gets and gives as many bytes as a real one."""
    return task


def second(task: float) -> float:
    """A unit of one second that needs no processor, so that other work on the machine does not count."""
    time.sleep(task)
    return task


def time_units(run: Any, function: Callable[[Any], Any], tasks: list) -> float:
    """Seconds for tasks on workers that have started."""
    start = time.perf_counter()
    assert len(list(run(function, tasks))) == len(tasks)
    return time.perf_counter() - start


def begin(run: Any, workers: int) -> None:
    """Have all workers started, and counted anew."""
    list(run(second, [0.2] * 2 * workers))
    time.sleep(1.1)


def time_empty(units: int, rounds: int) -> Iterator[tuple[int, float]]:
    """Seconds that an empty unit takes on so many workers, at best."""
    task = {**shipped_rows()[0], "recipe": "x" * 2000}
    for count in (1, 2, 4, 8):
        with worker_map(1, cluster=f"local:{count}", ordered=False) as run:
            begin(run, count)
            yield count, min(time_units(run, nothing, [task] * units) for _ in range(rounds)) / units


def compare(rounds: int) -> tuple[list[float], list[float]]:
    """Seconds for 10 units of 1 s on 2 workers, in turn on processes and on Dask."""
    processes, dask = worker_map(2, ordered=False), worker_map(1, cluster="local:2", ordered=False)
    with processes as here, dask as there:
        begin(here, 2)
        begin(there, 2)
        pairs = [[time_units(run, second, [1.0] * 10) for run in (here, there)] for _ in range(rounds)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


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


def costs() -> dict[str, float]:
    """Seconds per cloud of the methods whose cost was measured."""
    found = {method: shipped_costs().per_cloud(LIKE.get(method, method), "") for method in METHODS}
    return {method: seconds for method, seconds in found.items() if seconds is not None}


def grid(*, seeds: int, models: int, severities: int, sets: list[int], continual: bool = False) -> list[Work]:
    """All units in the order of recipes: by seed, set, model, method, domain."""
    domains = CORRUPTIONS * severities
    stream, known = [domains] if continual else [1] * domains, costs()
    groups = itertools.product(range(seeds), sets, range(models))
    return [
        Work(known[method] * count * cells, count * cells)
        for _, count, _ in groups
        for method in known
        for cells in stream
    ]


def longest_first(units: list[Work], seeds: int) -> list[Work]:
    """The order in which the grid is run on many workers: by seed, and then by length."""
    size = len(units) // seeds
    return [x for start in range(0, len(units), size) for x in sorted(units[start : start + size])[::-1]]


def efficiencies(units: list[Work], workers: int, *, seeds: int, each: float, apart: float) -> list[float]:
    """Of so many workers: as listed, longest first, with one file server, without overhead, and at best."""
    total, longest = sum(unit.seconds for unit in units), max(unit.seconds for unit in units)
    listed, first = ([unit.seconds for unit in order] for order in (units, longest_first(units, seeds)))
    reading = sum(unit.clouds for unit in units) / len(units) * POINTS * 12 / NETWORK
    taken = (
        seconds_on(workers, listed, each=each, apart=apart),
        seconds_on(workers, first, each=each, apart=apart),
        seconds_on(workers, first, each=each, apart=max(apart, reading)),  # the slower of two in a row
        seconds_on(workers, first),
        max(total / workers, longest),  # no order can do better: the longest unit is one piece
    )
    return [total / workers / seconds for seconds in taken]


def show(title: str, units: list[Work], *, seeds: int, each: float, apart: float) -> None:
    """The efficiency of many workers, and why it is not more."""
    hours, longest = sum(unit.seconds for unit in units) / 3600, max(units).seconds / 60
    print(f"\n{title}: {len(units):,} units, {hours:,.0f} CPU hours, the longest {longest:,.0f} min")
    print("workers  as listed  longest first  one file server  without overhead  at best")
    for workers in WORKERS:
        shares = efficiencies(units, workers, seeds=seeds, each=each, apart=apart)
        print("{:>7,} {:>10.1%} {:>14.1%} {:>16.1%} {:>17.1%} {:>8.1%}".format(workers, *shares))


def main() -> None:
    """Measure, then reckon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"empty units, {options.units} each, best of {options.rounds}\nworkers  ms a unit")
    spent = {}
    for count, seconds in time_empty(options.units, options.rounds):
        spent[count] = seconds
        print(f"{count:>7} {1000 * seconds:>10.2f}", flush=True)
    here, there = compare(options.rounds)
    print(
        f"\n10 units of 1 s on 2 workers, best of {options.rounds} in turn: processes {min(here):.3f} s, ",
        end="",
    )
    print(f"Dask {min(there):.3f} s, {min(there) / min(here) - 1:+.1%}")
    sets = list(CLOUDS.values())
    full = grid(seeds=SEEDS, models=MODELS, severities=SEVERITIES, sets=sets)
    few, many = time_writer(100), time_writer(len(full))
    print(f"the writer: {1000 * few:.1f} ms a row in a file of 100, {1000 * many:.1f} ms of {len(full):,}")
    overhead = {"each": spent[1], "apart": min(spent.values()) + many}
    print(f"methods: {', '.join(costs())}")
    show("the full grid", full, seeds=SEEDS, **overhead)
    one = grid(seeds=1, models=1, severities=1, sets=sets[:1])
    show("one recipe: ModelNet40-C, severity 5, one model, one seed", one, seeds=1, **overhead)
    streams = grid(seeds=SEEDS, models=MODELS, severities=SEVERITIES, sets=sets, continual=True)
    show("the full grid as continual streams", streams, seeds=SEEDS, **overhead)
    read = sum(unit.clouds for unit in full) * POINTS * 12
    print(
        f"\nclouds read by the full grid: {read / 1e12:.1f} TB, {read / NETWORK / 3600:.1f} hours of 1 Gbit/s"
    )


if __name__ == "__main__":
    main()
