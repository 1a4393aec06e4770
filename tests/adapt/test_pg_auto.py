from collections import deque

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.adapt.pg_auto import WINDOW, AutoGate, Found, Window
from purgegate.points.repair.strays import replace_strays, strays
from tests.models import clouds, small_model

FIRST = {"stages": ("strays",), "views": 1, "norm": "blend"}  # what the method was at first


def even_clouds(count: int = 6) -> torch.Tensor:
    """Clouds of 216 points on a grid, each moved a little: no point lies apart."""
    line = torch.linspace(-1, 1, 6)
    return torch.cartesian_prod(line, line, line) + 0.1 * clouds(count, 216)


def stray_clouds(count: int = 6) -> torch.Tensor:
    """The same with the last three points thrown far away, each to its own place."""
    points, generator = even_clouds(count), torch.Generator().manual_seed(0)
    points[:, -3:] = 4 + 20 * torch.rand((count, 3, 3), generator=generator)
    return points


def boxes(count: int = 8, *, turned: float = 0.0) -> torch.Tensor:
    """Points on the faces of boxes, turned about x by so many degrees."""
    generator = torch.Generator().manual_seed(1)
    points = 2 * torch.rand(count, 600, 3, generator=generator) - 1
    points[torch.arange(count)[:, None], torch.arange(600), torch.arange(600) % 3] = points[
        torch.arange(count)[:, None], torch.arange(600), torch.arange(600) % 3
    ].sign()
    points = points * torch.tensor([1.0, 0.6, 0.4])
    sine, cosine = np.sin(np.radians(turned)), np.cos(np.radians(turned))
    turn = torch.tensor([[1.0, 0, 0], [0, cosine, -sine], [0, sine, cosine]], dtype=torch.float32)
    return points @ turn.T


def test_clouds_without_strays_meet_the_blended_model_in_its_first_form():
    model, points = small_model(), even_clouds()
    assert not strays(points).any()
    blended = pg.create_adapter("source", model, norm="blend")(points)
    assert torch.equal(AutoGate(model, **FIRST)(points), blended)


def test_a_single_cloud_without_strays_meets_the_source_in_its_first_form():
    model, points = small_model(), even_clouds(1)
    assert torch.equal(AutoGate(model, **FIRST)(points), pg.create_adapter("source", model)(points))


@pytest.mark.parametrize("options", [{}, FIRST])
def test_strays_are_counted_and_have_no_part_in_the_answer(options):
    model, points = small_model(), stray_clouds()
    found = AutoGate(model, **options).predict(points)
    assert found.purge.tolist() == [3] * 6
    assert found.stages[0] == "strays"
    assert torch.equal(found.strays, strays(points))
    elsewhere = points.clone()
    elsewhere[:, -3:] *= -1.5
    assert torch.equal(AutoGate(model, **options)(elsewhere), found.logits)


def test_the_first_form_is_the_blended_model_on_the_other_points():
    model, points = small_model(), stray_clouds()
    cleaned = replace_strays(points, strays(points))
    blended = pg.create_adapter("source", model, norm="blend")(cleaned)
    assert torch.equal(AutoGate(model, **FIRST)(points), blended)


def test_statistics_serve_the_shift_score_and_no_other_thing():
    model, points = small_model(), stray_clouds()
    statistics = pg.SourceStatistics.collect(model, [clouds(8, seed=5)])
    adapters = [pg.create_adapter("pg_auto", model, **each) for each in ({}, {"statistics": statistics})]
    plain, informed = (adapter.predict(points) for adapter in adapters)
    assert torch.equal(plain.logits, informed.logits)
    assert not torch.allclose(plain.shift, informed.shift)
    assert adapters[0].options == adapters[1].options


def test_the_answer_is_the_mean_of_the_views():
    found = AutoGate(small_model(), norm="source").predict(even_clouds())
    assert found.candidates.shape == (6, 2, 5)
    mean = found.candidates.softmax(dim=-1).mean(dim=1)
    assert torch.allclose(found.logits.softmax(dim=-1), mean, atol=1e-6)
    alone = AutoGate(small_model(), norm="source", views=1).predict(even_clouds())
    assert torch.equal(alone.logits, found.candidates[:, 0])


def test_a_tilted_stream_is_straightened_and_an_upright_one_is_not():
    model = small_model()
    assert AutoGate(model).predict(boxes()).stages == ()
    assert AutoGate(model).predict(boxes(turned=25.0)).stages == ("tilt",)
    assert AutoGate(model, stages=("strays", "scale")).predict(boxes(turned=25.0)).stages == ()


def test_a_stream_of_halves_is_completed():
    on_face = torch.arange(600) % 3
    whole, places = boxes(), torch.arange(600)
    halves = torch.stack([cloud[cloud[places, on_face] > 0][:250] for cloud in whole])  # 3 of 6 sides
    assert AutoGate(small_model()).predict(halves).stages == ("parts",)
    assert AutoGate(small_model(), stages=("strays", "tilt")).predict(halves).stages == ()


def test_place_and_scale_do_not_matter():
    model, points = small_model(), even_clouds()
    found = AutoGate(model)(points)
    assert torch.allclose(AutoGate(model)(3 * points + 7), found, atol=1e-3)


def test_a_stage_goes_on_a_little_below_its_bound_and_ends_further_below():
    window = Window()
    middling = [Found(0.0, 1.0, 0.026)] * WINDOW
    assert window.decide(middling) == ""
    assert window.decide([Found(0.0, 1.0, 0.2)] * WINDOW) == "tilt"
    assert window.decide(middling) == "tilt"
    assert window.decide([Found(0.0, 1.0, 0.01)] * WINDOW) == ""


def test_a_few_odd_clouds_do_not_turn_a_stream():
    window = Window()
    window.decide([Found(0.0, 1.0, 0.0)] * WINDOW)
    assert window.decide([Found(0.9, 0.0, 0.9)] * 4) == ""
    assert Window().decide([Found(0.9, 0.0, 0.9)]) == "parts"


def test_a_repair_that_unsettles_the_answers_is_left_out():
    gate = AutoGate(small_model())
    sure, unsure = torch.tensor([9.0, 0, 0, 0, 0]), torch.zeros(5)
    candidates = torch.stack([unsure, sure])[None].repeat(4, 1, 1)
    assert torch.equal(gate._mean(candidates, "tilt"), candidates[:, 1])
    assert not torch.equal(AutoGate(small_model())._mean(candidates, ""), candidates[:, 1])


def test_t3a_takes_the_place_of_the_last_layer():
    model, points = small_model(), even_clouds()
    plain, other = AutoGate(model)(points), AutoGate(model, classifier="t3a")(points)
    assert other.shape == plain.shape
    assert not torch.allclose(plain, other, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stages": ("strays", "fog")}, "stages must be some of strays, tilt, parts, scale; got fog"),
        ({"views": 3}, "views must be 1 or 2; got 3"),
        ({"classifier": "svm"}, "classifier must be None or 't3a'; got 'svm'"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AutoGate(small_model(), **options)


def test_it_works_on_a_backbone_without_class_token():
    model = pg.create_backbone(
        "point_mamba", classes=4, width=24, depth=2, groups=16, group_size=8, points=64
    )
    assert torch.isfinite(AutoGate(model.eval())(stray_clouds())).all()


def test_a_stream_whose_pool_makes_the_head_less_certain_is_answered_by_the_source_s_statistics():
    model, points = small_model(), even_clouds()
    gate = AutoGate(model, stages=(), views=1)
    gate.window.losses["head 0"] = deque([5.0] * WINDOW, maxlen=10 * WINDOW)
    found = gate.predict(points)
    assert gate.window.few[0]
    assert torch.allclose(found.logits, pg.create_adapter("source", model)(points), atol=1e-5)
    assert torch.allclose(gate(points), found.logits, atol=1e-4)
    assert gate.pools["view 0"].weight == 2 * len(points)


def test_a_stream_of_few_classes_that_needs_no_repair_is_looked_at_once():
    gate, candidates = AutoGate(small_model()), torch.randn(3, 2, 5)
    gate.window.few[0] = True
    assert torch.equal(gate._mean(candidates, ""), candidates[:, 0])
    assert not torch.equal(gate._mean(candidates, "tilt"), candidates[:, 0])
