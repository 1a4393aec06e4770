import numpy as np
import pytest
import torch

from purgegate.kernels import farthest
from purgegate.memory import PeakMemory
from purgegate.points.neighbours import nearest_neighbours, nearest_neighbours_reference
from purgegate.points.patches import cut_patches
from purgegate.points.sampling import (
    farthest_points,
    farthest_points_reference,
    random_starts,
    random_view,
    resample,
    spread_sample,
)


def clouds(batch: int, count: int, *, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, count, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("batch", "count", "wanted"), [(1, 5, 3), (3, 257, 64), (4, 2048, 1024)])
def test_compiled_sampling_equals_the_plain_one(batch: int, count: int, wanted: int):
    points = clouds(batch, count)
    start = torch.arange(batch) % count
    fast = farthest_points(points, wanted, start=start)
    assert torch.equal(fast, farthest_points_reference(points, wanted, start))


def test_sampling_in_float64_equals_the_plain_one():
    points = clouds(2, 300).double()
    assert torch.equal(
        farthest_points(points, 50), farthest_points_reference(points, 50, torch.zeros(2, dtype=torch.long))
    )


def odd_cloud(kind: str, count: int) -> torch.Tensor:
    points = clouds(2, count)
    if kind == "ties":
        return points.mul(8).round()
    if kind == "copies":
        return points[:, :1].expand(-1, count, -1).contiguous()
    points[0, 5], points[1, 6] = 1e6, -1e6
    return points


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["ties", "copies", "strays"])
@pytest.mark.parametrize("count", [farthest.BLOCK + 1, farthest.LARGE + 1])
def test_sampling_of_odd_clouds_of_all_sizes_equals_the_plain_one(kind: str, count: int, dtype: torch.dtype):
    points, start, wanted = odd_cloud(kind, count).to(dtype), torch.tensor([7, count - 1]), farthest.MANY
    found = farthest_points(points, wanted, start=start)
    assert torch.equal(found, farthest_points_reference(points, wanted, start))


@pytest.mark.parametrize("wanted", [farthest.MANY - 1, farthest.MANY])
def test_a_large_cloud_is_sampled_alike_with_and_without_cells(wanted: int):
    points = torch.nn.functional.normalize(clouds(1, farthest.LARGE + 1) - 0.5, dim=-1)
    start = torch.zeros(1, dtype=torch.long)
    assert torch.equal(farthest_points(points, wanted), farthest_points_reference(points, wanted, start))


@pytest.mark.parametrize("count", [100, farthest.LARGE])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_sampling_stays_within_a_cloud_that_is_not_finite(bad: float, count: int):
    index = farthest_points(torch.full((1, count, 3), bad), farthest.MANY)
    assert 0 <= index.min() <= index.max() < count


def test_a_spread_sample_is_the_farthest_points_in_double_precision():
    cloud = clouds(1, farthest.LARGE + 1)[0]
    sample = spread_sample(cloud.numpy(), 300)
    assert sample.dtype == np.float64
    assert np.array_equal(sample, cloud[farthest_points(cloud[None], 300)[0]].double().numpy())


@pytest.mark.parametrize("count", [1, 10])
def test_a_spread_sample_of_few_points_is_all_of_them(count: int):
    cloud = clouds(1, count)[0].numpy()
    assert np.array_equal(spread_sample(cloud, 10), cloud)


def test_a_million_points_are_sampled_in_little_memory():
    cloud = clouds(1, 1_000_000)[0].numpy()
    with PeakMemory() as memory:
        spread_sample(cloud, 1024)
    assert memory.megabytes < 3 * cloud.nbytes / 2**20


def test_each_sampled_point_is_the_farthest_from_those_before():
    points = clouds(1, 200)
    index = farthest_points(points, 20, start=7)[0]
    assert index[0] == 7
    for step in range(1, 20):
        distance = torch.cdist(points[0].double(), points[0, index[:step]].double()).min(dim=1).values
        assert distance[index[step]] == pytest.approx(distance.max().item(), rel=1e-6)


def test_sampling_does_not_depend_on_the_other_clouds():
    points = clouds(5, 100)
    assert torch.equal(farthest_points(points, 30)[3:4], farthest_points(points[3:4], 30))


def test_a_permuted_cloud_with_the_same_start_gives_the_same_points():
    points = clouds(1, 300)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    start = int((order == 0).nonzero())
    first = points[:, farthest_points(points, 64)[0]]
    second = points[:, order][:, farthest_points(points[:, order], 64, start=start)[0]]
    assert torch.equal(first, second)


def test_too_few_points_repeat_all_of_them_evenly_and_never_zeros():
    points = clouds(2, 10) + 1
    index = farthest_points(points, 25)
    counts = torch.stack([row.bincount(minlength=10) for row in index])
    assert counts.min() == 2
    assert counts.max() == 3
    assert resample(points, 25).abs().amin() > 0


def test_zeros_may_stand_behind_too_few_points():
    points = clouds(2, 10) + 1
    padded = resample(points, 25, padding="zero", start=3)
    assert torch.equal(padded[:, :10], resample(points, 25, start=3)[:, :10])
    assert torch.equal(padded[:, 10:], torch.zeros(2, 15, 3))


def test_zeros_make_one_patch_of_their_own():
    points = torch.nn.functional.normalize(clouds(3, 700) - 0.5, dim=-1)
    view = random_view(points, 1024, generator=torch.Generator().manual_seed(0), padding="zero")
    centers, patches = cut_patches(view, groups=64, group_size=32)
    middle = (centers == 0).all(dim=-1)
    assert middle.sum(dim=1).tolist() == [1, 1, 1]
    assert torch.equal(patches[middle], torch.zeros(3, 32, 3))


@pytest.mark.parametrize("count", [32, 64])
def test_where_points_are_not_too_few_the_padding_does_not_matter(count: int):
    views = [
        random_view(clouds(2, 64), count, generator=torch.Generator().manual_seed(0), padding=padding)
        for padding in ("repeat", "zero")
    ]
    assert torch.equal(*views)


@pytest.mark.parametrize("count", [32, 64, 100])
def test_an_unknown_padding_is_refused(count: int):
    with pytest.raises(ValueError, match="padding must be one of repeat, zero; got 'zeros'"):
        random_view(clouds(2, 64), count, generator=torch.Generator(), padding="zeros")


def test_a_cloud_of_the_wanted_size_is_left_alone():
    points = clouds(2, 64)
    assert resample(points, 64) is points


def test_identical_points_are_sampled_without_harm():
    points = torch.ones(1, 50, 3)
    assert farthest_points(points, 50).max() < 50


def test_random_starts_come_from_the_generator():
    points = clouds(64, 100)
    first, second = (random_starts(points, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert first.unique().numel() > 10
    assert first.max() < 100


@pytest.mark.parametrize("start", [-1, 10])
def test_a_start_outside_the_cloud_is_refused(start: int):
    with pytest.raises(ValueError, match=r"start must lie in \[0, 10\)"):
        farthest_points(clouds(1, 10), 3, start=start)


def test_a_count_of_zero_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        farthest_points(clouds(1, 10), 0)


@pytest.mark.parametrize(("count", "centres", "size"), [(40, 7, 5), (1024, 64, 32)])
def test_compiled_neighbours_equal_the_plain_ones(count: int, centres: int, size: int):
    points = clouds(3, count)
    fast = nearest_neighbours(points, points[:, :centres], size)
    assert torch.equal(fast, nearest_neighbours_reference(points, points[:, :centres], size))


def test_neighbours_come_nearest_first_and_the_first_index_wins_a_tie():
    points = torch.tensor([[[0.0, 0, 0], [2, 0, 0], [1, 0, 0], [1, 0, 0], [-1, 0, 0]]])
    assert nearest_neighbours(points, points[:, :1], 4).tolist() == [[[0, 2, 3, 4]]]


def test_a_patch_of_a_small_cloud_repeats_its_points():
    points = clouds(1, 3)
    centers, patches = cut_patches(points, groups=8, group_size=32)
    assert centers.shape == (1, 8, 3)
    assert set(map(tuple, (patches + centers[:, :, None]).flatten(0, 2).round(decimals=5).tolist())) == set(
        map(tuple, points[0].round(decimals=5).tolist())
    )


def test_patches_are_relative_to_their_centres():
    centers, patches = cut_patches(clouds(2, 200), groups=16, group_size=8)
    assert torch.equal(patches[:, :, 0], torch.zeros(2, 16, 3))
    assert centers.shape == (2, 16, 3)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (torch.rand(10, 3), r"shape \(B, N, 3\); got \(10, 3\); add the batch axis"),
        (torch.rand(2, 10, 4), r"got \(2, 10, 4\)"),
        (torch.rand(2, 0, 3), "at least one cloud and one point"),
        (torch.rand(0, 10, 3), "at least one cloud and one point"),
        (torch.ones(1, 10, 3, dtype=torch.long), "floating point"),
        (torch.full((2, 5, 3), torch.nan), "10 points with NaN, infinite or far too large ones in 2 of 2"),
        (torch.full((1, 5, 3), torch.inf), "5 points with NaN"),
    ],
)
def test_what_is_no_batch_of_clouds_is_refused(points: torch.Tensor, message: str):
    with pytest.raises(ValueError, match=message):
        cut_patches(points, groups=4, group_size=2)


@pytest.mark.parametrize("name", ["plane_background", "plane_lidar"])
def test_published_groups_are_reproduced_without_error(shared, name: str):
    import trimesh

    cloud = trimesh.load(shared / "golden" / "released" / f"{name}.ply").vertices
    golden = np.load(shared / "golden" / "released" / f"{name}.npz")
    points = torch.from_numpy(np.asarray(cloud, dtype=np.float32))[None]
    centers, patches = cut_patches(points, groups=len(golden["centers"]), group_size=32)
    assert np.array_equal(centers[0].numpy(), golden["centers"])
    neighbours = (patches + centers[:, :, None])[0].numpy()
    assert np.abs(neighbours - golden["neighbours"]).max() < 1e-7


@pytest.mark.parametrize("count", [64, 100])
def test_a_random_view_starts_anywhere_and_keeps_whole_clouds_whole(count: int):
    points = clouds(20, 64)
    view = random_view(points, count, generator=torch.Generator().manual_seed(0))
    assert view.shape == (20, count, 3)
    assert (view[:, 0] != points[:, 0]).any(dim=1).sum() > 15
    for seen, cloud in zip(view, points, strict=True):
        assert set(map(tuple, seen.tolist())) == set(map(tuple, cloud.tolist()))
