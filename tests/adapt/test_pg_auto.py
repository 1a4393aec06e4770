import torch

import purgegate as pg
from purgegate.adapt.pg_auto import AutoGate
from purgegate.points.repair.strays import replace_strays, strays
from tests.models import clouds, small_model


def even_clouds(count: int = 6) -> torch.Tensor:
    """Clouds of 216 points on a grid, each moved a little: no point lies apart."""
    line = torch.linspace(-1, 1, 6)
    return torch.cartesian_prod(line, line, line) + 0.1 * clouds(count, 216)


def stray_clouds(count: int = 6) -> torch.Tensor:
    """The same with the last three points thrown far away, each to its own place."""
    points, generator = even_clouds(count), torch.Generator().manual_seed(0)
    points[:, -3:] = 4 + 20 * torch.rand((count, 3, 3), generator=generator)
    return points


def test_clouds_without_strays_meet_the_blended_model():
    model, points = small_model(), even_clouds()
    assert not strays(points).any()
    assert torch.equal(AutoGate(model)(points), pg.create_adapter("source", model, norm="blend")(points))


def test_a_single_cloud_without_strays_meets_the_source():
    model, points = small_model(), even_clouds(1)
    assert torch.equal(AutoGate(model)(points), pg.create_adapter("source", model)(points))


def test_strays_are_counted_and_have_no_part_in_the_answer():
    model, points = small_model(), stray_clouds()
    found = AutoGate(model).predict(points)
    assert found.purge.tolist() == [3] * 6
    elsewhere = points.clone()
    elsewhere[:, -3:] *= -1.5
    assert torch.equal(AutoGate(model)(elsewhere), found.logits)
    cleaned = replace_strays(points, strays(points))
    assert torch.equal(found.logits, pg.create_adapter("source", model, norm="blend")(cleaned))


def test_statistics_serve_the_shift_score_and_no_other_thing():
    model, points = small_model(), stray_clouds()
    statistics = pg.SourceStatistics.collect(model, [clouds(8, seed=5)])
    plain, informed = (
        pg.create_adapter("pg_auto", model, **options).predict(points)
        for options in ({}, {"statistics": statistics})
    )
    assert torch.equal(plain.logits, informed.logits)
    gate = pg.PurgeGate(model, pg.SourceDistance(statistics), purge=(0,), norm="blend")
    assert torch.equal(informed.scores, gate.predict(replace_strays(points, strays(points))).scores)
    assert not torch.allclose(plain.shift, informed.shift)


def test_it_works_on_a_backbone_without_class_token():
    model = pg.create_backbone(
        "point_mamba", classes=4, width=24, depth=2, groups=16, group_size=8, points=64
    )
    assert torch.isfinite(AutoGate(model.eval())(stray_clouds())).all()
