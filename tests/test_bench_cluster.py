"""The simulation of many workers in benchmarks/bench_cluster.py."""

import pytest

from benchmarks.bench_cluster import CLOUDS, MODELS, SEEDS, SEVERITIES, costs, efficiencies, grid


def test_the_full_grid_is_that_of_the_paper_s_methods():
    full = grid(seeds=SEEDS, models=MODELS, severities=SEVERITIES, sets=list(CLOUDS.values()))
    assert len(costs()) == 17
    assert len(full) == 17 * 15 * 5 * 3 * 5 * 3


@pytest.mark.parametrize("workers", [16, 128])
def test_each_cause_costs_something_and_none_beats_the_bound(workers: int):
    units = grid(seeds=2, models=1, severities=2, sets=[581])
    listed, first, server, free, best = efficiencies(units, workers, seeds=2, each=0.02, apart=0.02)
    assert server <= first < free <= best <= 1 + 1e-9
    assert listed <= first


def test_the_longest_unit_bounds_many_workers():
    units = grid(seeds=1, models=1, severities=1, sets=[2468])
    shares = efficiencies(units, 1000, seeds=1, each=0.0, apart=0.0)
    bound = sum(unit.seconds for unit in units) / 1000 / max(units).seconds
    assert shares[3:] == [pytest.approx(bound)] * 2
