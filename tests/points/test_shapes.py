"""The embedded data set: closed meshes from seeds, alike within a class and told apart with some effort."""

import time
from functools import cache

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from purgegate.points.shapes import CLASSES, SHAPES, Shapes, make_mesh, make_shapes
from purgegate.points.shapes.primitives import (
    Part,
    across,
    box,
    ellipsoid,
    extrude,
    frustum,
    mirror,
    revolve,
    smooth,
    taper,
    tube,
    upright,
    volume,
)
from purgegate.points.surface import sample_surface, triangle_areas
from purgegate.typing import Mesh

SEEDS = range(30)


@pytest.fixture(scope="module")
def train() -> Shapes:
    return make_shapes("train", count=20, points=256)


@pytest.fixture(scope="module")
def test() -> Shapes:
    return make_shapes("test", count=5, points=256)


@cache
def meshes_of(name: str) -> list[Mesh]:
    return [make_mesh(name, np.random.default_rng(seed)) for seed in SEEDS]


def directed_edges(mesh: Mesh) -> np.ndarray:
    vertices, faces = mesh
    return (faces * len(vertices) + np.roll(faces, -1, axis=1)).ravel()


def reversed_edges(mesh: Mesh) -> np.ndarray:
    vertices, faces = mesh
    return (faces + np.roll(faces, -1, axis=1) * len(vertices)).ravel()


def part_volumes(mesh: Mesh) -> np.ndarray:
    """Signed volume of each connected part."""
    vertices, faces = mesh
    shape = (len(vertices), len(vertices))
    links = coo_matrix((np.ones(faces.size), (faces.ravel(), np.roll(faces, 1, axis=1).ravel())), shape=shape)
    count, part = connected_components(links, directed=False)
    a, b, c = (vertices[faces[:, corner]].astype(np.float64) for corner in range(3))
    return np.bincount(part[faces[:, 0]], np.einsum("ij,ij->i", a, np.cross(b, c)) / 6, minlength=count)


def features(points: np.ndarray) -> np.ndarray:
    """Share of the points of each cloud in each cell of a coarse grid."""
    cell = np.clip(((points + 1) * 2).astype(int), 0, 3) @ [16, 4, 1]
    return np.stack([np.bincount(row, minlength=64) for row in cell]) / points.shape[1]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (box((1, 2, 3), (5, 0, -1)), 6),
        (taper((2, 2), (1, 1), 3.0, foot=(0, 0, 0), shift=(4, 1)), 7),
        (frustum(1.0, 1.0, 2.0, foot=(0, 0, 0), segments=400), 2 * np.pi),
        (revolve([(0, 0), (1, 0), (0, 3)], segments=400), np.pi),
        (revolve([(2, 0), (2, 1), (1, 1), (1, 0)], segments=400, closed=True), 3 * np.pi),
        (tube([(0, 0, 0), (1, 1, 1)], 0.1, segments=400), 0.01 * np.pi * np.sqrt(3)),
        (ellipsoid((1, 2, 3), (9, 9, 9), segments=300), 8 * np.pi),
        (extrude([(2, -1), (-2, -1), (-2, 1), (2, 1)], (0, 1, 3)), 24),
        (upright(extrude([(2, -1), (-2, -1), (-2, 1), (2, 1)], (0, 3))), 24),
        (across(mirror(box((1, 2, 3), (0, 0, 0)))), 6),
    ],
)
def test_a_part_holds_the_volume_of_its_formula(part: Part, expected: float) -> None:
    assert volume(part) == pytest.approx(expected, rel=1e-3)


def test_a_ring_holds_the_volume_of_a_torus() -> None:
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    ring = np.column_stack([np.cos(angles), np.zeros(400), np.sin(angles)])
    assert volume(tube(ring, 0.2, segments=200, closed=True)) == pytest.approx(2 * np.pi**2 * 0.04, rel=1e-3)


def test_a_smooth_curve_passes_through_its_control_points() -> None:
    control = np.random.default_rng(0).normal(size=(5, 3))
    assert smooth(control, steps=4)[::4] == pytest.approx(control)
    assert smooth(control, steps=4, closed=True)[::4] == pytest.approx(control)


def test_an_outline_that_turns_back_is_refused() -> None:
    with pytest.raises(ValueError, match="in one direction"):
        extrude([(1, 0), (3, 3), (2, 0.5), (-1, 1), (-1, -1)], (0, 1))


def test_there_are_at_least_twenty_classes_in_a_fixed_order() -> None:
    assert len(CLASSES) >= 20
    assert list(CLASSES) == sorted(set(CLASSES))
    assert tuple(SHAPES) == CLASSES


@pytest.mark.parametrize("name", CLASSES)
def test_a_mesh_is_finite_and_has_no_flat_triangles(name: str) -> None:
    for vertices, faces in meshes_of(name):
        assert vertices.dtype == np.float32
        assert faces.dtype == np.int64
        assert np.isfinite(vertices).all()
        assert set(np.unique(faces)) == set(range(len(vertices)))
        assert triangle_areas((vertices / np.ptp(vertices, axis=0).max(), faces)).min() > 1e-7


@pytest.mark.parametrize("name", CLASSES)
def test_every_part_is_closed_and_wound_outwards(name: str) -> None:
    for mesh in meshes_of(name):
        edges = np.sort(directed_edges(mesh))
        assert np.all(np.diff(edges) > 0)
        assert np.array_equal(edges, np.sort(reversed_edges(mesh)))
        assert part_volumes(mesh).min() > 0


@pytest.mark.parametrize("name", CLASSES)
def test_a_mesh_has_a_moderate_number_of_triangles(name: str) -> None:
    counts = [len(faces) for _, faces in meshes_of(name)]
    assert min(counts) >= 12
    assert max(counts) <= 5_000


@pytest.mark.parametrize("name", CLASSES)
def test_objects_of_a_class_differ_in_proportions(name: str) -> None:
    sides = np.array([np.ptp(vertices, axis=0) for vertices, _ in meshes_of(name)])
    proportions = sides / np.linalg.norm(sides, axis=1, keepdims=True)
    assert len(np.unique(proportions.round(4), axis=0)) == len(SEEDS)
    assert proportions.std(axis=0).max() > 0.03


@pytest.mark.parametrize("name", CLASSES)
def test_objects_of_a_class_differ_in_their_parts(name: str) -> None:
    assert len({len(part_volumes(mesh)) for mesh in meshes_of(name)}) > 1


def test_the_same_seed_gives_the_same_bytes(test: Shapes) -> None:
    again = make_shapes("test", count=5, points=256)
    assert again.points.tobytes() == test.points.tobytes()
    for mine, theirs in zip(again.meshes, test.meshes, strict=True):
        assert mine[0].tobytes() == theirs[0].tobytes()
        assert mine[1].tobytes() == theirs[1].tobytes()


def test_more_objects_change_none_of_the_earlier_ones(test: Shapes) -> None:
    fewer = make_shapes("test", count=2, points=256)
    assert np.array_equal(fewer.points, test.points[: len(fewer.points)])
    assert np.array_equal(fewer.label, test.label[: len(fewer.label)])


def test_more_points_change_no_object(test: Shapes) -> None:
    for few, many in zip(make_shapes("test", count=1, points=32).meshes, test.meshes, strict=False):
        mine, theirs = (vertices - vertices.mean(axis=0) for vertices in (few[0], many[0]))
        assert np.abs(mine / np.ptp(mine) - theirs / np.ptp(theirs)).max() < 1e-5
        assert np.array_equal(few[1], many[1])


def test_train_and_test_share_no_object(train: Shapes, test: Shapes) -> None:
    seen = {vertices.tobytes() for vertices, _ in train.meshes}
    assert len(seen) == len(train.meshes)
    assert not seen & {vertices.tobytes() for vertices, _ in test.meshes}


def test_labels_name_each_class_equally_often(train: Shapes) -> None:
    assert train.points.shape == (20 * len(CLASSES), 256, 3)
    assert train.points.dtype == np.float32
    assert np.array_equal(np.bincount(train.label), np.full(len(CLASSES), 20))
    assert train.classes == CLASSES


def test_clouds_fill_the_unit_sphere(test: Shapes) -> None:
    assert np.abs(test.points.mean(axis=1)).max() < 1e-5
    assert np.linalg.norm(test.points, axis=2).max(axis=1) == pytest.approx(1, abs=1e-5)


def test_clouds_lie_on_their_meshes(test: Shapes) -> None:
    for cloud, mesh in zip(test.points[: len(CLASSES)], test.meshes, strict=False):
        dense = sample_surface(mesh, 60_000, np.random.default_rng(1))
        distance = cKDTree(dense).query(cloud)[0]
        assert distance.max() < 0.06
        assert distance.mean() < 0.01


def test_objects_stand_upright() -> None:
    door, bottle = (
        np.ptp(make_mesh(name, np.random.default_rng(0))[0], axis=0) for name in ("door", "bottle")
    )
    assert door.argmax() == 2
    assert bottle.argmax() == 2


def test_a_simple_classifier_does_well_but_is_not_perfect(train: Shapes, test: Shapes) -> None:
    nearest = cKDTree(np.sqrt(features(train.points))).query(np.sqrt(features(test.points)))[1]
    accuracy = (train.label[nearest] == test.label).mean()
    assert 10 / len(CLASSES) < accuracy < 0.97


def test_the_test_set_is_made_in_seconds() -> None:
    start = time.process_time()
    shapes = make_shapes("test")
    assert shapes.points.shape == (25 * len(CLASSES), 2048, 3)
    assert time.process_time() - start < 30


def test_an_unknown_class_or_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"one of aeroplane, bed.*got 'unicorn'"):
        make_mesh("unicorn", np.random.default_rng(0))
    with pytest.raises(ValueError, match="one of train, test; got 'val'"):
        make_shapes("val")
    with pytest.raises(ValueError, match="one of train, test; got 'val'"):
        make_shapes("val", count=2)
    with pytest.raises(ValueError, match="got count 0"):
        make_shapes("test", count=0)
