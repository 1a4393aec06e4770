import numpy as np
import pytest

from purgegate.figures.objects import choose, clean_clouds, corrupted_clouds
from purgegate.io.builder import build
from purgegate.io.cells import Cell
from purgegate.io.labelled import Dataset
from purgegate.points.shapes import make_shapes


@pytest.fixture(scope="module")
def shapes() -> Dataset:
    """One object three times: what sets its clouds apart is their draws."""
    return choose(Dataset(*make_shapes("test", count=1)), [5, 5, 5])


@pytest.mark.parametrize("corruption", ["background", "density_inc", "lidar"])
def test_objects_of_a_figure_are_those_of_the_built_benchmark(shapes: Dataset, tmp_path, corruption: str):
    build(shapes, tmp_path, cells=[Cell(corruption, 2)], seed=3, points=256)
    made = np.load(tmp_path / f"data_{corruption}_2.npy")
    again = corrupted_clouds(shapes, corruption, severity=2, points=256, seed=3)
    np.testing.assert_array_equal(np.stack(again), made)
    alone = corrupted_clouds(choose(shapes, [2]), corruption, severity=2, points=256, seed=3, first=2)
    np.testing.assert_array_equal(alone[0], made[2])
    assert not np.array_equal(made[0], made[2])


def test_clean_clouds_have_the_number_of_points_asked_for(shapes: Dataset):
    assert [cloud.shape for cloud in clean_clouds(shapes, points=100)] == [(100, 3)] * 3


@pytest.mark.parametrize("index", [[], [3], [-1]])
def test_objects_that_are_not_there_are_refused(shapes: Dataset, index: list[int]):
    with pytest.raises(ValueError, match="numbers from 0 to 2"):
        choose(shapes, index)


def test_a_severity_that_is_not_there_is_refused(shapes: Dataset):
    with pytest.raises(ValueError, match="severity of lidar must lie in 1 to 5; got 6"):
        corrupted_clouds(shapes, "lidar", severity=6, points=256)
