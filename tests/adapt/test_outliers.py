import numpy as np
import pytest
import torch

from purgegate.adapt.outliers import (
    RadiusRemoval,
    StatisticalRemoval,
    radius_outliers,
    statistical_outliers,
)
from purgegate.adapt.source import Source
from tests.models import clouds, small_model


def cube(extra: list[list[float]]) -> torch.Tensor:
    """An even grid of 216 points a tenth apart, and a few others behind them."""
    axis = torch.arange(6) / 10
    return torch.cat([torch.cartesian_prod(axis, axis, axis), torch.tensor(extra)])[None]


FAR = [[3.0, 0.0, 0.0], [0.0, -3.0, 1.0]]


@pytest.mark.parametrize("tool", [StatisticalRemoval, RadiusRemoval])
def test_where_no_point_is_an_outlier_it_is_the_control(tool):
    model, points = small_model(), clouds(6)
    none = {"ratio": 1e9} if tool is StatisticalRemoval else {"radius": 10.0}
    assert torch.equal(tool(model, **none)(points), Source(model, norm="batch")(points))


@pytest.mark.parametrize("tool", [StatisticalRemoval, RadiusRemoval])
def test_points_far_away_are_taken_out_counted_and_have_no_say(tool):
    near, far = cube([[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]]), cube(FAR)
    found = tool(small_model(), norm="source").predict(far)
    assert found.purge.tolist() == [2]
    assert found.strays.nonzero().tolist() == [[0, 216], [0, 217]]
    assert found.stages == ("strays",)
    assert torch.equal(found.logits, Source(small_model())(near))


def test_the_statistical_rule_by_hand():
    points = clouds(2, 40)
    distance = torch.cdist(points, points).numpy().astype(np.float64)
    mean = np.sort(distance, axis=2)[:, :, :20].mean(axis=2)
    bound = mean.mean(axis=1) + 1.3 * mean.std(axis=1, ddof=1)
    wanted = mean > bound[:, None]
    assert 0 < wanted.sum() < 20
    assert np.array_equal(statistical_outliers(points, ratio=1.3).numpy(), wanted)


def test_the_radius_rule_by_hand():
    points = clouds(2, 200)
    count = (torch.cdist(points, points) <= 0.4).sum(dim=2)
    wanted = count <= 3
    assert 0 < wanted.sum() < 200
    assert torch.equal(radius_outliers(points, least=3, radius=0.4), wanted)


def test_a_cloud_of_outliers_alone_is_left_as_it_is():
    points = torch.cat([10 * clouds(1), 0.1 * clouds(1)])
    assert not radius_outliers(points, least=4, radius=0.15).any()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_few_or_equal_points_are_no_outliers(count: int):
    equal = torch.zeros(1, count, 3)
    assert not statistical_outliers(equal).any()
    assert not radius_outliers(equal, least=4, radius=0.1).any()


def test_numbers_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="neighbours must be at least 2, the point itself included; got 1"):
        StatisticalRemoval(small_model(), neighbours=1)
    with pytest.raises(ValueError, match="radius positive; got 4 and 0"):
        RadiusRemoval(small_model(), radius=0.0)
