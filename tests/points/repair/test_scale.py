import pytest
import torch

from purgegate.points.repair.scale import rescale
from tests.points.repair.clouds import ODD, boxes, shuffled


def test_the_centroid_is_the_origin_and_most_points_lie_within_reach():
    found, _ = rescale(3 * boxes() + 7, reach=0.8)
    torch.testing.assert_close(found.mean(dim=1), torch.zeros(4, 3), rtol=0, atol=1e-5)
    within = (found.norm(dim=2) <= 0.8 + 1e-6).float().mean(dim=1)
    assert ((within >= 0.99) & (within < 0.992)).all()


def test_the_report_undoes_it():
    points = 3 * boxes() + 7
    found, report = rescale(points, reach=1.0)
    torch.testing.assert_close(found * report.radius[:, None, None] + report.centroid[:, None], points)


def test_place_scale_and_order_do_not_matter():
    points = boxes()
    torch.testing.assert_close(rescale(5 * points - 2)[0], rescale(points)[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(rescale(shuffled(points))[0], shuffled(rescale(points)[0]))


def test_one_far_point_changes_little():
    points = boxes()
    far = torch.cat([points[:, 1:], torch.full((4, 1, 3), 3.0)], dim=1)
    assert (rescale(far)[1].radius / rescale(points)[1].radius - 1).abs().max() < 0.02


@pytest.mark.parametrize("name", ODD)
def test_odd_clouds_stay_finite(name):
    assert rescale(ODD[name])[0].isfinite().all()


def test_a_cloud_of_equal_points_moves_to_the_origin():
    assert torch.equal(rescale(ODD["one place"])[0].round(decimals=5), torch.zeros(1, 40, 3))
