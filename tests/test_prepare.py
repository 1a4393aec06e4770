import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.points.transforms import swap_up
from tests.models import small_model


def cloud(count: int = 3000, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3))


def test_a_cloud_comes_into_the_model_s_frame():
    model = small_model()
    points = pg.prepare(100 * cloud() + 7000, model)
    assert points.shape == (1, model.points, 3)
    assert points.dtype == torch.float32
    assert points.mean(dim=1).abs().max() < 1e-5
    assert points.norm(dim=2).max() == pytest.approx(1, abs=1e-5)


def test_place_and_scale_do_not_matter():
    model, points = small_model(), cloud()
    assert torch.allclose(pg.prepare(points, model), pg.prepare(1e3 * points - 55, model), atol=1e-5)


def test_what_is_prepared_stays_as_it_is():
    model = small_model()
    once = pg.prepare(cloud(), model)
    assert torch.allclose(pg.prepare(once[0], model), once, atol=1e-6)


def test_small_clouds_repeat_their_points():
    points = pg.prepare(cloud(50), small_model())
    assert len(points[0].unique(dim=0)) == 50


def test_y_up_is_turned_to_z_up():
    model, points = small_model(), cloud() * [1.0, 2.0, 3.0]
    assert torch.allclose(pg.prepare(swap_up(points), model, up="y"), pg.prepare(points, model), atol=1e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.float16])
def test_arrays_of_any_number_and_tensors_are_taken(kind):
    points = (100 * cloud(200)).astype(kind)
    assert torch.allclose(
        pg.prepare(points, small_model()), pg.prepare(torch.tensor(points), small_model()), atol=1e-6
    )


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((5, 2)), r"numbers of shape \(N, 3\); got float64 \(5, 2\)"),
        (np.zeros((0, 3)), "shape"),
        (np.array([["a", "b", "c"]]), "must be numbers"),
        (np.full((9, 3), np.nan), "9 of 9 points are not"),
        (np.ones((500, 3)), "at least 8 distinct points; got 1"),
        (np.eye(3), "at least 8 distinct points; got 3"),
        (np.arange(100.0)[:, None] * [1.0, 2.0, 3.0], "lie on a line"),
    ],
)
def test_what_is_no_object_is_refused(points, message):
    with pytest.raises(ValueError, match=message):
        pg.prepare(points, small_model())


def test_an_unknown_axis_lists_the_choices():
    with pytest.raises(ValueError, match="up must be one of z, y; got 'x'"):
        pg.prepare(cloud(), small_model(), up="x")
