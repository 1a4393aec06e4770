"""Costs from rows, and how long units take on many workers."""

from pathlib import Path

import pytest

from purgegate.costs import Costs, seconds_on, shipped_costs
from tests.report.rows import row

COST = Path(__file__).parents[1] / "docs" / "results" / "cost" / "results.jsonl"


def test_the_costs_that_are_shipped_are_those_of_the_results():
    shipped = Path(__file__).parents[1] / "purgegate" / "costs.jsonl"
    assert shipped.read_bytes() == COST.read_bytes()


def test_a_method_costs_what_it_did_with_these_weights_or_else_with_any():
    rows = [
        row("tent", seconds=2.0, total=10, weights="a"),
        row("tent", seconds=4.0, total=10, weights="b"),
        row("tent", seconds=4.0, total=10, weights="b", threads=2),
    ]
    costs = Costs(rows)
    assert costs.per_cloud("tent", "a") == pytest.approx(0.2)
    assert costs.per_cloud("tent", "b") == pytest.approx(0.6)
    assert costs.per_cloud("tent", "c") == pytest.approx(0.4)
    assert costs.per_cloud("shot", "a") is None


def test_training_at_test_time_costs_more_than_a_forward():
    costs = shipped_costs()
    assert costs.per_cloud("smart_pc", "") > 10 * costs.per_cloud("source", "")


def test_workers_share_the_units_and_none_is_shorter_than_its_longest():
    units = [3.0, 1.0, 1.0, 1.0]
    assert seconds_on(1, units) == 6.0
    assert seconds_on(2, units) == 3.0
    assert seconds_on(100, units) == 3.0
    assert seconds_on(2, units[::-1]) == 4.0  # the longest last keeps one waiting
    assert seconds_on(4, []) == 0.0


def test_overhead_is_paid_by_each_worker_or_by_all_in_a_line():
    assert seconds_on(2, [1.0] * 4, each=0.5) == 3.0
    assert seconds_on(4, [1.0] * 4, apart=0.5) == 3.0
