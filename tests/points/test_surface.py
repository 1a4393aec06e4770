"""Points drawn on meshes lie on them, spread by area."""

import numpy as np
import pytest

from purgegate.points.surface import sample_surface, triangle_areas
from purgegate.typing import Mesh

SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float32)


def mesh(vertices: np.ndarray, *faces: tuple[int, int, int]) -> Mesh:
    return vertices, np.array(faces, dtype=np.int64).reshape(-1, 3)


def test_points_fill_a_square_evenly(generator: np.random.Generator) -> None:
    points = sample_surface(mesh(SQUARE, (0, 1, 2), (0, 2, 3)), 40_000, generator)
    cells = np.histogram2d(points[:, 0], points[:, 1], bins=4, range=[[0, 1], [0, 1]])[0]
    assert points.dtype == np.float32
    assert np.all(points[:, 2] == 0)
    assert np.all(np.abs(cells - 2500) < 5 * np.sqrt(2500))


def test_a_triangle_draws_points_in_proportion_to_its_area(generator: np.random.Generator) -> None:
    stretched = np.concatenate([SQUARE[:3], SQUARE[:3] * [1, 1, 1] + [0, 0, 5]]).astype(np.float32)
    stretched[3:, :2] *= 3
    points = sample_surface(mesh(stretched, (0, 1, 2), (3, 4, 5)), 20_000, generator)
    assert abs((points[:, 2] == 5).mean() - 0.9) < 0.01


def test_triangles_without_area_get_no_points(generator: np.random.Generator) -> None:
    flat = np.concatenate([SQUARE, SQUARE[:1] + 7]).astype(np.float32)
    points = sample_surface(mesh(flat, (4, 4, 0), (0, 1, 2), (4, 4, 4)), 2_000, generator)
    assert points.max() <= 1


def test_the_same_seed_draws_the_same_points() -> None:
    square = mesh(SQUARE, (0, 1, 2), (0, 2, 3))
    first, second = (sample_surface(square, 64, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first, second)


def test_areas_do_not_depend_on_single_precision() -> None:
    far = (SQUARE * 1e-3 + 64).astype(np.float32)
    areas = triangle_areas(mesh(far, (0, 1, 2), (0, 2, 3)))
    assert areas.dtype == np.float64
    assert areas.sum() == pytest.approx(1e-6, rel=0.02)


@pytest.mark.parametrize(
    ("vertices", "faces", "reason"),
    [
        (SQUARE, [], "needs triangles"),
        (SQUARE, [(0, 1, 4)], "from 0 to 4"),
        (SQUARE, [(0, -1, 2)], "from -1 to 2"),
        (SQUARE * np.float32("nan"), [(0, 1, 2)], "finite"),
        (SQUARE, [(0, 0, 2)], "positive, finite area"),
    ],
)
def test_a_mesh_that_cannot_be_sampled_says_why(vertices: np.ndarray, faces: list, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        sample_surface(mesh(vertices, *faces), 8, np.random.default_rng(0))


def test_a_count_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="got count 0"):
        sample_surface(mesh(SQUARE, (0, 1, 2)), 0, np.random.default_rng(0))


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)
