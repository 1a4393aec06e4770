import numpy as np
import pytest
import torch

from purgegate.points.corruptions.camera import place_camera, visible_points
from purgegate.points.repair.parts import complete, horizontal_offset, solidity, viewpoint
from tests.points.repair.clouds import ODD, boxes, shuffled


def one_sided(azimuth: float = 40.0, *, clouds: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """What a camera in front of boxes sees of them, and the direction towards it."""
    camera = place_camera(np.radians(azimuth), np.radians(115), distance=4.0)
    seen = [visible_points(box.double().numpy(), camera) for box in boxes(clouds, 3000)]
    fewest = min(map(len, seen))
    points = torch.stack([torch.from_numpy(each[:fewest]) for each in seen]).float()
    return points, torch.from_numpy(camera.position / 4).float()


def depths_reference(cloud: torch.Tensor, direction: torch.Tensor) -> float:
    """The share of a cloud in the unit ball that lies 0.16 deeper than another point in its cell of 0.08."""
    up = torch.tensor([0.0, 0.0, 1.0])
    right = torch.linalg.cross(up, direction)
    right = right / right.norm()
    cells = torch.stack([cloud @ right, cloud @ torch.linalg.cross(direction, right)], dim=1)
    cells, depth, hidden = ((cells + 1.08) / 0.08).int().tolist(), cloud @ direction, 0
    for i, cell in enumerate(cells):
        same = [j for j, other in enumerate(cells) if other == cell]
        hidden += bool(depth[i] < depth[same].max() - 0.16)
    return hidden / len(cloud)


def missing(points: torch.Tensor, cloud: torch.Tensor) -> torch.Tensor:
    """The greatest distance from a point of a whole cloud to the nearest one of another."""
    return torch.cdist(points, cloud).amin(dim=2).amax(dim=1)


def test_a_sensor_at_one_place_is_found():
    points, toward = one_sided()
    view, hidden = viewpoint(points)
    assert (view @ toward).min() > np.cos(np.radians(35))
    assert hidden.max() < 0.02
    assert viewpoint(boxes())[1].min() > 0.2


def test_the_share_hidden_is_that_of_a_plain_count():
    cloud = boxes(1, 300)[0]
    middle = (cloud.amax(dim=0) + cloud.amin(dim=0)) / 2
    ball = (cloud - middle) / (cloud - middle).norm(dim=1).max()
    view, hidden = viewpoint(cloud[None])
    assert hidden.item() == pytest.approx(depths_reference(ball, view[0]), abs=0.01)


def test_a_side_that_was_not_seen_is_there_again():
    points, _ = one_sided()
    whole = boxes(3, 800, seed=1)
    whole[..., 2] = whole[..., 2].abs()  # the upper half: no symmetry shows an underside
    completed, report = complete(points)
    assert completed.shape == points.shape
    assert missing(whole, points).min() > 0.8
    assert missing(whole, completed).max() < 0.35
    assert report.added.min() > 0.5


def test_offset_is_large_of_one_side_and_small_of_the_whole():
    points, _ = one_sided()
    assert horizontal_offset(points).min() > 0.15
    assert horizontal_offset(boxes()).max() < 0.05
    lifted = torch.cat([boxes(), boxes() * torch.tensor([1.0, 1.0, 0.01]) + torch.tensor([0, 0, 1.1])], dim=1)
    assert horizontal_offset(lifted).max() < 0.05
    assert horizontal_offset(lifted, up=0).min() > 0.15


def test_what_contradicts_the_view_is_not_added():
    # A flat triangle, seen from its front: its mirror images would stand where nothing was seen.
    corner = torch.rand(1, 4000, 3, generator=torch.Generator().manual_seed(0))
    flat = corner[:, (corner[0, :, 0] + corner[0, :, 2] < 0.9)][:, :1024] * torch.tensor([1.0, 0.01, 1.0])
    completed, report = complete(flat)
    far = torch.cdist(completed, flat).amin(dim=2)
    assert (far > 0.2).float().mean() < 0.05
    assert report.added.item() < 0.8


@pytest.mark.parametrize("up", [0, 1, 2])
def test_any_axis_can_be_up(up):
    points, _ = one_sided()
    turned = points.roll(up - 2, dims=2)
    completed, report = complete(turned, up=up)
    wanted, own = complete(points)
    torch.testing.assert_close(completed, wanted.roll(up - 2, dims=2))
    torch.testing.assert_close(report.view, own.view.roll(up - 2, dims=1))


def test_order_place_and_scale_do_not_matter():
    points, _ = one_sided()
    wanted, own = complete(points)
    found, report = complete(shuffled(points))
    moved, _ = complete(8 * points + 4)
    torch.testing.assert_close(report.added, own.added)
    # Images lie as far apart as what they are images of, and the first of equally far points is taken.
    for other in (found, (moved - 4) / 8):
        assert (torch.cdist(other, wanted).amin(dim=2) > 1e-3).float().mean() < 0.02


def test_clouds_of_a_batch_do_not_influence_each_other():
    points, _ = one_sided()
    completed, report = complete(points)
    for i in range(len(points)):
        alone, own = complete(points[i : i + 1])
        assert torch.equal(alone[0], completed[i])
        assert own.added[0] == report.added[i]


@pytest.mark.parametrize("name", ODD)
def test_odd_clouds_stay_finite(name):
    completed, report = complete(ODD[name])
    assert completed.shape == ODD[name].shape
    assert completed.isfinite().all()
    assert all(each.isfinite().all() for each in report)
    assert horizontal_offset(ODD[name]).isfinite().all()


def test_a_plane_is_not_solid_and_a_ball_is():
    generator = torch.Generator().manual_seed(0)
    ball = torch.randn(1, 4000, 3, generator=generator)
    assert solidity(ball) == pytest.approx(1, abs=0.1)
    assert solidity(ball * torch.tensor([1.0, 0.5, 0.0])) == pytest.approx(0, abs=1e-3)
    assert solidity(ball * torch.tensor([4.0, 1.0, 1.0])) == pytest.approx(0.25, abs=0.02)
    assert solidity(torch.ones(1, 5, 3)) == 0
