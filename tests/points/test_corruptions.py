"""Laws of the corruptions: one conformance suite over all of them, then what each promises."""

import numpy as np
import pytest

from purgegate.points.corruptions import CORRUPTIONS, corrupt
from purgegate.points.corruptions.deformation import _control_points as control_points
from purgegate.points.corruptions.deformation import (
    free_form,
    inverse_multiquadric,
    invert,
    multiquadric,
    warp,
)
from purgegate.points.transforms import swap_up, turn_about, unit_sphere

EVERY_CELL = [(name, s) for name, kind in CORRUPTIONS.items() for s in range(1, len(kind.strengths) + 1)]
COUNTS = {  # points at severities 1 to 8, from 1,024
    "background": (1046, 1049, 1053, 1058, 1075, 1092, 1126, 1228),
    "upsampling": (1228, 1280, 1365, 1536, 2048, 3072, 4096, 5120),
    "density": (949, 874, 799, 724, 649, 574, 499, 424),
    "cutout": (964, 934, 874, 814, 724, 574, 424, 274),
    "lidar": (768,) * 5,
}


def cloud(count=1024, seed=0):
    directions = np.random.default_rng(seed).normal(size=(count, 3))
    return unit_sphere(directions / np.linalg.norm(directions, axis=1, keepdims=True) * [1, 0.7, 0.5]).astype(
        np.float32
    )


def rng(seed=0):
    return np.random.default_rng(seed)


def enough(name):
    return cloud(2048 if name == "density_inc" else 1024)


def test_the_corruptions_stand_in_the_order_of_the_paper():
    order = (
        "uniform gaussian background impulse upsampling distortion_rbf distortion_rbf_inv density "
        "density_inc shear rotation cutout distortion occlusion lidar"
    )
    assert " ".join(CORRUPTIONS) == order


@pytest.mark.parametrize(("name", "severity"), EVERY_CELL)
def test_a_corruption_is_a_finite_float32_cloud_made_again_by_its_seed(name, severity):
    points = enough(name)
    before = points.copy()
    bad, again, other = (corrupt(points, name, severity=severity, generator=rng(seed)) for seed in (1, 1, 2))
    assert bad.dtype == np.float32
    assert bad.shape[1:] == (3,)
    assert np.isfinite(bad).all()
    np.testing.assert_array_equal(bad, again)
    assert not np.array_equal(bad, other)
    np.testing.assert_array_equal(points, before)


@pytest.mark.parametrize(("name", "severity"), EVERY_CELL)
def test_a_corruption_has_the_published_number_of_points(name, severity):
    expected = COUNTS.get(name, (1024,) * 8)[severity - 1]
    assert len(corrupt(enough(name), name, severity=severity, generator=rng())) == expected


@pytest.mark.parametrize(
    "name", [n for n in CORRUPTIONS if n not in ("gaussian", "density", "density_inc", "cutout", "lidar")]
)
def test_a_corruption_with_box_ends_in_a_centred_box_with_longest_side_2(name):
    bad = corrupt(cloud(), name, severity=3, generator=rng())
    low, high = bad.min(axis=0), bad.max(axis=0)
    np.testing.assert_allclose(low + high, 0, atol=1e-6)
    assert (high - low).max() == pytest.approx(2, abs=1e-6)


@pytest.mark.parametrize("name", ["density", "density_inc", "cutout"])
def test_density_and_cutout_only_choose_among_the_points(name):
    points = enough(name)
    bad = corrupt(points, name, severity=5, generator=rng())
    assert set(map(tuple, bad)) <= set(map(tuple, points))
    if name != "density_inc":
        assert len(set(map(tuple, bad))) == len(bad)


def test_density_inc_keeps_whole_neighbourhoods():
    points = cloud(2048)
    bad = corrupt(points, "density_inc", severity=3, generator=rng())
    clusters, rest = bad[:300], bad[300:]
    assert len(np.unique(clusters, axis=0)) == 300
    assert not set(map(tuple, clusters)) & set(map(tuple, rest))
    assert len(np.unique(rest, axis=0)) < len(rest)  # with replacement


def test_gaussian_noise_is_clipped_to_the_cube_and_not_scaled():
    edge = np.array([[1, 1, 1], [-1, -1, -1], [0, 0, 0]], dtype=np.float32).repeat(50, axis=0)
    bad = corrupt(edge, "gaussian", severity=8, generator=rng())
    assert np.abs(bad).max() == 1
    assert np.abs(bad[100:]).max() < 0.3


def test_impulse_moves_only_its_share_and_each_by_a_tenth():
    points = cloud() * np.float32(0.5)
    points[:2] = [[-1, -1, -1], [1, 1, 1]]  # a box that stays: the centre of the cloud moves within it
    bad = corrupt(points, "impulse", severity=1, generator=rng(3))
    moved = np.abs(bad - points)
    still = (moved < 1e-6).all(axis=1)
    assert still.sum() == 1024 - 1024 // 30
    np.testing.assert_allclose(moved[~still], 0.1, atol=1e-6)


def test_upsampling_keeps_the_points_and_adds_jittered_copies():
    points = cloud()
    points[:2] = [[-1, -1, -1], [1, 1, 1]]
    bad = corrupt(points, "upsampling", severity=7, generator=rng())
    scale = 2 / (np.ptp(np.concatenate([points, bad]), axis=0).max())
    assert scale == pytest.approx(1, abs=0.06)
    distance = np.abs(bad[:, None] - points[None]).max(axis=2).min(axis=1)
    assert distance.max() < 0.05 + 0.06


def test_a_rotation_keeps_the_shape():
    points = cloud(100)
    bad = corrupt(points, "rotation", severity=8, generator=rng())
    before, after = (np.linalg.norm(p[:, None] - p[None], axis=-1) for p in (points, bad))
    ratio = after[before > 0.1] / before[before > 0.1]
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-4)


def test_a_shear_keeps_straight_lines():
    line = np.linspace(-1, 1, 50)[:, None].astype(np.float32) * np.array([[0.3, -0.5, 0.8]], dtype=np.float32)
    bad = corrupt(line, "shear", severity=8, generator=rng())
    assert np.linalg.svd(bad - bad.mean(axis=0))[1][1] < 1e-5


def test_a_lattice_moved_as_one_moves_every_point_alike():
    moves = np.broadcast_to(np.array([0.1, -0.2, 0.3])[:, None, None, None], (3, 5, 5, 5))
    np.testing.assert_allclose(free_form(cloud().astype(float), moves), [[0.1, -0.2, 0.3]] * 1024, atol=1e-12)


def test_a_lattice_moved_by_a_linear_map_moves_points_by_that_map():
    side = np.linspace(-1, 1, 5)
    lattice = np.stack(np.meshgrid(side, side, side, indexing="ij"))
    matrix = np.array([[0.1, 0.2, 0], [0, -0.3, 0.1], [0.2, 0, 0.1]])
    points = cloud().astype(float)
    np.testing.assert_allclose(
        free_form(points, np.einsum("de,eijk->dijk", matrix, lattice)), points @ matrix.T, atol=1e-12
    )


def test_free_form_deformation_leaves_points_outside_its_cube():
    points = np.concatenate([cloud(), [[5, 5, 5], [-5, -5, -5]]]).astype(np.float32)
    bad = corrupt(points, "distortion", severity=5, generator=rng())
    np.testing.assert_allclose(bad[-2:], [[1, 1, 1], [-1, -1, -1]], atol=1e-6)
    assert np.abs(bad[:-2] - points[:-2] / 5).max() > 0.01


@pytest.mark.parametrize("basis", [multiquadric, inverse_multiquadric])
def test_a_warp_carries_control_points_to_their_new_places(basis):
    moves = rng().normal(size=(125, 3)) * 0.1
    np.testing.assert_allclose(warp(control_points(), moves, basis), control_points() + moves, atol=1e-9)


def test_a_matrix_times_its_inverse_is_the_identity():
    matrix = rng().normal(size=(40, 40))
    np.fill_diagonal(matrix, 0)  # so that rows must change places
    np.testing.assert_allclose(matrix @ invert(matrix), np.eye(40), atol=1e-10)


@pytest.mark.parametrize("basis", [multiquadric, inverse_multiquadric])
def test_a_warp_without_moves_is_the_identity(basis):
    points = cloud().astype(float)
    np.testing.assert_allclose(warp(points, np.zeros((125, 3)), basis), points, atol=1e-9)


def test_turning_up_twice_is_no_turn_and_once_keeps_handedness():
    points = cloud(50)
    np.testing.assert_array_equal(swap_up(swap_up(points)), points)
    axes = swap_up(np.eye(3))
    assert np.linalg.det(axes) == pytest.approx(1)
    np.testing.assert_allclose(axes, turn_about(0, -np.pi / 2) @ turn_about(2, np.pi), atol=1e-15)


@pytest.mark.parametrize(
    "name",
    [
        "uniform",
        "gaussian",
        "background",
        "impulse",
        "upsampling",
        "distortion_rbf",
        "distortion_rbf_inv",
        "shear",
        "rotation",
        "distortion",
        "occlusion",
    ],
)
@pytest.mark.parametrize("count", [1, 3, 29])
def test_a_few_points_are_enough_where_no_neighbourhood_is_asked_for(name, count):
    assert len(corrupt(cloud(count), name, severity=1, generator=rng())) >= count


@pytest.mark.parametrize(
    ("name", "severity", "least"),
    [("density", 1, 100), ("density", 5, 400), ("density_inc", 1, 200), ("density_inc", 8, 1600),
     ("cutout", 1, 61), ("cutout", 8, 751)],
)  # fmt: skip
def test_too_few_points_are_an_error_that_says_how_many_are_needed(name, severity, least):
    assert len(corrupt(cloud(least), name, severity=severity, generator=rng()))
    with pytest.raises(ValueError, match=f"at least {least} points .* got {least - 1}"):
        corrupt(cloud(least - 1), name, severity=severity, generator=rng())


@pytest.mark.parametrize("name", [n for n in CORRUPTIONS if n != "lidar"])
def test_a_cloud_of_one_point_repeated_stays_finite(name):
    bad = corrupt(np.full((2048, 3), 0.25, dtype=np.float32), name, severity=1, generator=rng())
    assert np.isfinite(bad).all()


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        (np.zeros((0, 3), np.float32), "at least one point"),
        (np.zeros((5, 2), np.float32), r"shape \(N, 3\)"),
        (np.zeros(3, np.float32), r"shape \(N, 3\)"),
        (np.full((5, 3), np.nan, np.float32), "finite"),
        (np.full((5, 3), np.inf, np.float32), "finite"),
    ],
)
def test_what_is_no_cloud_is_refused_with_the_reason(points, reason):
    with pytest.raises(ValueError, match=reason):
        corrupt(points, "uniform", severity=1, generator=rng())


def test_float64_points_come_out_as_float32():
    assert corrupt(cloud().astype(float), "cutout", severity=1, generator=rng()).dtype == np.float32


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(ValueError, match=r"one of uniform, gaussian, .*lidar; got 'rain'"):
        corrupt(cloud(), "rain", severity=1, generator=rng())


@pytest.mark.parametrize(
    ("name", "severity", "most"), [("uniform", 0, 8), ("uniform", 9, 8), ("occlusion", 6, 5), ("lidar", 0, 5)]
)
def test_a_severity_out_of_range_names_the_range(name, severity, most):
    with pytest.raises(ValueError, match=f"{name} must lie in 1 to {most}; got {severity}"):
        corrupt(cloud(), name, severity=severity, generator=rng())
