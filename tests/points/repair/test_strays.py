import numpy as np
import torch

from purgegate.points.repair.strays import isolation, replace_strays, strays


def sphere(count: int = 500, *, seed: int = 0) -> torch.Tensor:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return torch.from_numpy(points / np.linalg.norm(points, axis=1, keepdims=True)).float()


def with_strays(*, seed: int = 0) -> torch.Tensor:
    """A sphere of 500 points, and ten more in the cube round it, none within 0.3 of the surface."""
    draws = torch.from_numpy(np.random.default_rng(seed).uniform(-2, 2, (200, 3))).float()
    return torch.cat([sphere(seed=seed), draws[(draws.norm(dim=1) - 1).abs() > 0.3][:10]])


def test_points_off_the_surface_are_strays_and_those_on_it_are_not():
    found = strays(torch.stack([with_strays(seed=seed) for seed in range(8)]))
    assert found[:, 500:].float().mean() > 0.9
    assert found[:, :500].float().mean() < 0.01


def test_isolation_is_a_ratio_of_distances_by_a_plain_count():
    cloud = with_strays()[::3]
    distance = torch.cdist(cloud.double(), cloud.double()).sort(dim=1).values[:, 1:6]
    wanted = distance[:, 0] / distance.mean(dim=1).quantile(0.9)
    torch.testing.assert_close(isolation(cloud[None])[0], wanted.float(), rtol=1e-4, atol=1e-5)


def test_isolation_knows_no_scale_place_turn_or_order():
    cloud = with_strays()
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0))).Q
    order = torch.randperm(len(cloud), generator=torch.Generator().manual_seed(1))
    moved = (100 * cloud @ turn + 7)[order]
    torch.testing.assert_close(
        isolation(moved[None])[0], isolation(cloud[None])[0, order], rtol=1e-2, atol=1e-3
    )


def test_copies_of_a_stray_do_not_hide_it():
    cloud = with_strays()
    doubled = torch.cat([cloud, cloud[500:]])
    torch.testing.assert_close(isolation(doubled[None])[0, :510], isolation(cloud[None])[0])
    assert strays(doubled[None])[0, 500:].float().mean() > 0.9


def test_a_clean_cloud_with_a_thin_part_is_left_alone():
    dense = sphere(900)
    assert not strays(dense[None]).any()
    thin = dense[(dense[:, 2] < 0) | (torch.arange(900) % 6 == 0)]
    assert not strays(thin[None]).any()


def test_a_large_cloud_is_measured_as_a_small_one_is(monkeypatch):
    cloud = torch.cat([with_strays(), with_strays()[:7]])[None]
    plain = isolation(cloud)
    monkeypatch.setattr("purgegate.points.repair.strays.LARGE", 1)
    assert torch.equal(isolation(cloud), plain)


def test_one_point_apart_is_too_few_in_a_large_cloud():
    cloud = torch.cat([sphere(1000), torch.tensor([[1.0, 1.0, 1.0]])])
    assert isolation(cloud[None])[0, -1] > 2
    assert not strays(cloud[None]).any()


def test_strays_are_replaced_by_points_that_stay():
    points = torch.arange(24.0).reshape(2, 4, 3)
    stray = torch.tensor([[True, False, False, True], [False, False, False, False]])
    found = replace_strays(points, stray)
    assert torch.equal(found[0], points[0, [1, 2, 1, 2]])
    assert torch.equal(found[1], points[1])


def test_odd_clouds_have_no_strays():
    assert not strays(torch.zeros(2, 40, 3)).any()
    assert not strays(torch.randn(1, 3, 3)).any()
    assert not strays(torch.randn(1, 1, 3)).any()
    assert not strays(sphere(6).repeat(20, 1)[None]).any()


def test_a_large_cloud_takes_no_quadratic_time():
    cloud = sphere(100_000)
    assert not strays(cloud[None]).any()


def test_never_more_than_a_tenth_of_the_points_is_stray():
    generator = torch.Generator().manual_seed(0)
    for exponent in (1, 4, 12):  # from an even cloud to one with very long tails
        clouds = torch.randn(16, 300, 3, generator=generator)
        clouds *= torch.rand(16, 300, 1, generator=generator).log().abs() ** exponent
        assert strays(clouds).float().mean(dim=1).max() <= 0.1
