import numpy as np
import pytest
import torch

from purgegate.points.repair.tilt import normals, straighten, tilt
from purgegate.points.transforms import turn_about
from tests.points.repair.clouds import ODD, boxes, shuffled


def turned(points: torch.Tensor, degrees: float, axis: int = 0) -> torch.Tensor:
    return points @ torch.from_numpy(turn_about(axis, np.radians(degrees))).to(points).T


def normals_reference(cloud: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Normals and weights at evenly spaced points along the box diagonal, in plain torch."""
    cloud = cloud.double()
    diagonal = cloud.amax(dim=0) - cloud.amin(dim=0)
    cloud = cloud[(cloud @ (diagonal / diagonal.norm())).argsort()]
    seeds = cloud[torch.arange(count) * len(cloud) // count]
    near = cloud[torch.cdist(seeds, cloud).argsort(dim=1)[:, :16]]
    near = near - near.mean(dim=1, keepdim=True)
    values, vectors = torch.linalg.eigh(near.mT @ near)
    return vectors[..., 0], (1 - values[:, 0].clamp(min=0) / values[:, 1]) ** 2


def frame_reference(directions: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The turn and the frame of one cloud's normals, by singular values and eigenvectors."""
    turn, total = torch.eye(3).double(), weights.sum()
    for _ in range(30):
        pull = ((turn @ directions.T) ** 3 * weights) @ directions + 0.01 * total * turn
        left, _, right = torch.linalg.svd(pull)
        turn = left @ right
    frame = turn.clone()
    for row in range(3):
        hold = 0.05 * total * torch.outer(turn[row], turn[row])
        for _ in range(5):
            near = weights * (directions @ frame[row]) ** 8
            vector = torch.linalg.eigh((directions * near[:, None]).T @ directions + hold).eigenvectors[:, 2]
            frame[row] = vector * (vector @ turn[row]).sign()
    return turn, frame


def test_an_upright_box_stays_as_it_is():
    points = boxes()
    found, report = straighten(points)
    assert report.angle.max() < 1.5
    assert report.gain.abs().max() < 0.002
    torch.testing.assert_close(found, points, rtol=0, atol=0.04)


@pytest.mark.parametrize("degrees", [-25, 10, 30])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_tilted_box_comes_back_upright(degrees, axis):
    points = boxes()
    found, report = straighten(turned(points, degrees, axis))
    torch.testing.assert_close(found, points, rtol=0, atol=0.06)
    torch.testing.assert_close(report.angle, torch.full((4,), float(abs(degrees))), rtol=0, atol=2)
    assert report.gain.min() > 0.01


def test_a_sheared_box_has_right_angles_again():
    shear = torch.tensor([[1.0, 0.3, 0.0], [0.0, 1.0, 0.25], [0.0, 0.0, 1.0]])
    _, report = straighten(boxes() @ shear.T)
    left = report.frame @ shear  # undone up to the lengths of the sides
    off = left - torch.diag_embed(left.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 0.1
    turned_only = report.turn @ shear
    rest = turned_only - torch.diag_embed(turned_only.diagonal(dim1=1, dim2=2))
    assert off.square().mean() < rest.square().mean() / 10


def test_the_order_of_points_does_not_matter():
    points = turned(boxes(), 20)
    for one, other in zip(tilt(points), tilt(shuffled(points)), strict=True):
        torch.testing.assert_close(one, other)


def test_clouds_of_a_batch_do_not_influence_each_other():
    points = turned(boxes(), 20)
    found, report = straighten(points)
    for i in range(len(points)):
        alone, own = straighten(points[i : i + 1])
        torch.testing.assert_close(alone[0], found[i])
        assert own.gain[0] == report.gain[i]


def test_place_and_scale_do_not_matter():
    points = turned(boxes(), 20)
    moved, report = straighten(8 * points + 5)
    found, own = straighten(points)
    torch.testing.assert_close(report.angle, own.angle, rtol=0, atol=0.1)
    torch.testing.assert_close(moved, 8 * found + 5, rtol=0, atol=0.03)


def test_normals_are_those_of_plain_eigenvectors():
    points = turned(boxes(2), 17) + 0.01 * torch.randn(2, 1024, 3, generator=torch.Generator().manual_seed(0))
    directions, flat = normals(points)
    for cloud, own, weights in zip(points, directions, flat, strict=True):
        wanted, wanted_weights = normals_reference(cloud, own.shape[0])
        torch.testing.assert_close(weights, wanted_weights, rtol=1e-5, atol=1e-7)
        # Where a patch is as deep as wide its normal is anything.
        sure = wanted_weights > 0.01
        torch.testing.assert_close(
            (own * wanted).sum(dim=1).abs()[sure], torch.ones(int(sure.sum())).double()
        )


def test_the_frame_is_that_of_plain_singular_values():
    points = turned(boxes(3), 22) @ torch.tensor([[1.0, 0.2, 0.0], [0.0, 1.0, 0.0], [0.1, 0.0, 1.0]])
    found = tilt(points)
    for i, (directions, weights) in enumerate(zip(*normals(points), strict=True)):
        turn, frame = frame_reference(directions, weights)
        torch.testing.assert_close(found.turn[i], turn.float(), rtol=0, atol=1e-3)
        torch.testing.assert_close(found.frame[i], frame.float(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ODD)
def test_odd_clouds_stay_finite(name):
    found, report = straighten(ODD[name])
    assert found.shape == ODD[name].shape
    assert found.isfinite().all()
    assert all(each.isfinite().all() for each in report)


def test_a_cloud_without_faces_stays_as_it_is():
    for name in ("one place", "the origin", "one point", "two points", "a line"):
        found, report = straighten(ODD[name])
        assert report.angle.item() == 0
        torch.testing.assert_close(found, ODD[name])


def test_real_things_are_upright_until_they_are_turned(shared):
    with np.load(shared / "data" / "modelnet40_test.npz") as file:
        points = torch.from_numpy(file["points"][::40, :1024]).float()
    assert tilt(points).gain.median() < 0.005
    for axis in range(3):
        assert tilt(turned(points, 20, axis)).gain.median() > 0.05


def test_a_turn_never_mirrors():
    clouds = torch.randn(64, 60, 3, generator=torch.Generator().manual_seed(0))
    found = tilt(clouds)
    torch.testing.assert_close(torch.linalg.det(found.turn), torch.ones(64))
    torch.testing.assert_close(found.turn @ found.turn.mT, torch.eye(3).expand(64, 3, 3))
    assert found.gain.min() >= 0
    assert torch.linalg.det(found.frame).min() >= 0.49
