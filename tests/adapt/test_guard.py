"""What would be wrong without a word is said once, with the way out."""

import logging

import pytest
import torch

import purgegate as pg
from purgegate.adapt.guard import LAST, Guard
from tests.models import clouds, small_model


@pytest.fixture
def said(caplog):
    """The warnings so far."""
    caplog.set_level(logging.WARNING, "purgegate")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_batch_of_one_class_under_its_own_statistics_is_warned_of_once(said):
    data, model = pg.load_dataset("shapes"), pg.load_backbone("point_mae_tiny.shapes")
    points = torch.from_numpy(data.points[data.label == 3][:24, :1024])
    control = pg.create_adapter("source_bn", model)
    for _ in range(2):
        control(points)
    (warning,) = said()
    assert "as those of few classes do" in warning
    assert 'norm="pool" or norm="source"' in warning


def test_a_batch_of_many_classes_is_not_warned_of(said):
    data, model = pg.load_dataset("shapes"), pg.load_backbone("point_mae_tiny.shapes")
    points = torch.from_numpy(data.points[::24, :1024])
    for method in ("source_bn", "tent", "pg_sf", "pg_auto"):
        pg.create_adapter(method, model)(points)
    assert said() == []


@pytest.mark.parametrize("change", [lambda x: 100 * x, lambda x: x + 50, lambda x: x / 100])
def test_clouds_out_of_the_model_s_frame_are_warned_of_with_the_way_out(said, change):
    source = pg.create_adapter("source", small_model())
    for seed in range(2):
        source(change(clouds(3, seed=seed)))
    (warning,) = said()
    assert "pg.prepare(cloud, model)" in warning


def test_a_method_that_scales_clouds_itself_does_not_warn_of_their_scale(said):
    pg.create_adapter("pg_auto", small_model())(100 * clouds(3))
    assert said() == []


def test_a_method_that_has_come_to_answer_one_class_is_warned_of_once(said):
    guard, one = Guard("Tent"), torch.eye(5)[[2] * 8]
    for _ in range(LAST // 8 - 1):
        guard.see_answers(one)
    assert said() == []
    for _ in range(3):
        guard.see_answers(one)
    (warning,) = said()
    assert warning.startswith("Tent: 64 of the last 64 answers are class 2")


def test_tent_on_single_clouds_is_warned_of_when_it_collapses(said):
    tent = pg.create_adapter("tent", small_model(), norm="blend", lr=0.1)
    for seed in range(LAST + 40):
        tent(clouds(1, 64, seed=seed))
    assert any("has collapsed" in warning for warning in said())


def test_a_measurement_takes_no_forward_for_warnings(monkeypatch):
    from purgegate.io.labelled import Dataset

    monkeypatch.setattr(Guard, "see_source", lambda *_: pytest.fail("compared"))
    data = Dataset(clouds(10, 64).numpy(), torch.arange(10).numpy() % 5, ())
    assert pg.evaluate(pg.create_adapter("source_bn", small_model()), [pg.Domain(data)])


def test_a_measurement_is_silent_and_leaves_the_adapter_as_watchful_as_before(said):
    data = pg.load_dataset("shapes")
    some = data._replace(points=100 * data.points[:8], label=data.label[:8])  # out of any frame
    adapter = pg.create_adapter("source", pg.load_backbone("point_mae_tiny.shapes"))
    pg.evaluate(adapter, [pg.Domain(some)])
    assert said() == []
    adapter(torch.from_numpy(some.points[:, :1024]))
    assert "clouds reach" in said()[0]
    adapter.watch = False
    pg.evaluate(adapter, [pg.Domain(some)])
    assert not adapter.watch
