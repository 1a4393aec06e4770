"""The alarm is a bet against the source: a fair one is rarely won, and a change wins it soon."""

import numpy as np
import pytest

from purgegate.alarm import Watch, change_point


def rings(watch: Watch, values) -> int | None:
    for place, value in enumerate(values, start=1):
        if watch.push(float(value)):
            return place
    return None


@pytest.mark.parametrize("size", [20, 200])
def test_false_alarms_are_rarer_than_alpha_whatever_the_reference(size):
    generator, alpha = np.random.default_rng(0), 0.1
    false = [
        rings(Watch(generator.exponential(size=size).tolist(), alpha=alpha), generator.exponential(size=500))
        for _ in range(200)
    ]
    assert sum(each is not None for each in false) <= alpha * len(false)


def test_without_the_margin_for_a_small_reference_the_promise_would_not_hold(monkeypatch):
    generator = np.random.default_rng(0)
    monkeypatch.setattr(Watch, "margin", 0.0)
    false = [
        rings(Watch(generator.exponential(size=20).tolist(), alpha=0.1), generator.exponential(size=500))
        for _ in range(100)
    ]
    assert sum(each is not None for each in false) > 30


@pytest.mark.parametrize(("factor", "less_sure"), [(4.0, True), (0.2, False)])
def test_a_change_rings_and_the_alarm_knows_since_when_and_which_way(factor, less_sure):
    generator = np.random.default_rng(1)
    watch = Watch(generator.exponential(size=1000).tolist())
    values = np.r_[generator.exponential(size=300), factor * generator.exponential(size=200)]
    place = rings(watch, values)
    assert 300 < place < 400
    found = watch.read()
    assert found.rang == place
    assert abs(found.since - 301) < 15
    assert (found.rank > 0.5) == less_sure
    assert ("less sure" in found.line()) == less_sure


def test_ties_are_fair():
    watch = Watch([0.0] * 1000)
    assert watch.rank(0.0) == 0.5
    assert rings(watch, [0.0] * 5000) is None


def test_the_first_clouds_serve_where_there_is_no_reference():
    generator = np.random.default_rng(2)
    watch = Watch(None, learn=100)
    assert rings(watch, generator.exponential(size=99)) is None
    assert watch.read().state == "learning"
    watch.push(1.0)
    assert watch.read().state == "quiet"
    assert rings(watch, 5 * generator.exponential(size=200)) is not None


def test_a_state_taken_and_loaded_goes_on_alike():
    generator = np.random.default_rng(3)
    usual = generator.exponential(size=300).tolist()
    for given in (usual, None):
        first, second = Watch(given, learn=40), Watch(given, learn=40)
        for value in generator.exponential(size=60):
            first.push(value, shift=float(value), stages=("strays",))
        second.load_state(first.state())
        for value in 4 * generator.exponential(size=60):
            assert first.push(value, shift=2.0) == second.push(value, shift=2.0)
            assert first.read() == second.read()
        first.reset()
        assert first.read().seen == 0


def test_a_change_point_is_found_where_there_is_one():
    generator = np.random.default_rng(5)
    places = [
        change_point(np.r_[generator.normal(0, 1, 300), generator.normal(1.5, 1, 40)]) for _ in range(20)
    ]
    assert max(abs(place - 300) for place in places) < 10
    assert sum(change_point(generator.normal(0, 1, 340)) is not None for _ in range(100)) <= 5
    assert change_point([]) is change_point([1.0]) is change_point([2.0] * 9) is None
    assert change_point([1.0, 1.0, 2.0]) == 2


@pytest.mark.parametrize("scored", [True, False], ids=["with a shift score", "without"])
def test_the_alarm_knows_where_the_change_lies_and_how_far_it_goes(scored):
    generator = np.random.default_rng(4)
    watch = Watch(generator.exponential(size=1000).tolist())
    for place in range(600):
        far = place >= 400
        entropy, shift = (
            generator.exponential() * (3 if far else 1),
            generator.normal(2.0 if far else 1.0, 0.1),
        )
        watch.push(entropy, shift=shift if scored else None, stages=("tilt",) if far else ())
    found = watch.read()
    assert abs(found.located - 401) < 5
    assert found.before == (pytest.approx(1.0, abs=0.05) if scored else None)
    assert found.shift == (pytest.approx(2.0, abs=0.1) if scored else None)
    assert dict(found.stages)["tilt"] >= 195


def test_impossible_alarms_are_refused():
    with pytest.raises(ValueError, match="alpha must lie between"):
        Watch([1.0, 2.0], alpha=0.0)
    with pytest.raises(ValueError, match="at least 2"):
        Watch([1.0])
