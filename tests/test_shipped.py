"""What is measured is what is shipped: `predict` on files and the evaluation loop give the same answers."""

import json

import numpy as np
import pytest

import purgegate as pg
from purgegate.adapt import METHODS
from purgegate.io.results import unpack_answers
from purgegate.needs import supply

COMPARED = [name for name, method in METHODS.items() if method.kind in ("source", "ours")] + ["pg_sp"]


def compare(purgegate, folder, data: pg.Domain, weights: str, method: str) -> None:
    for place, cloud in enumerate(data.data.points):
        np.save(folder / f"{place:04}.npy", cloud)
    run = purgegate("predict", folder, "--weights", weights, "--method", method, "--json")
    assert run.code == 0, run.err
    shown = [json.loads(line)["class"] for line in run.out.splitlines()]
    adapter = pg.create_adapter(method, pg.load_backbone(weights), **supply(method, {}, weights=weights))
    (row,) = pg.evaluate(adapter, [data], settings=pg.Settings(order="given", views="prepared"))
    right = np.array([data.data.classes[label] for label in data.data.label]) == np.array(shown)
    np.testing.assert_array_equal(unpack_answers(row), right)


def corrupted(data, index, name: str) -> pg.Domain:
    clouds = [
        pg.corrupt(data.points[i][:1024], name, severity=3, generator=np.random.default_rng([7, i]))
        for i in index
    ]
    return pg.Domain(data._replace(points=np.stack(clouds), label=data.label[index]))


@pytest.mark.parametrize("method", COMPARED)
@pytest.mark.parametrize("name", ["background", "rotation"])
def test_predict_answers_files_as_the_loop_does(purgegate, tmp_path, method: str, name: str):
    data = pg.load_dataset("shapes")
    domain = corrupted(data, np.arange(0, len(data.label), 14), name)
    compare(purgegate, tmp_path, domain, "point_mae_tiny.shapes", method)


@pytest.mark.slow
@pytest.mark.parametrize("method", COMPARED)
def test_predict_answers_two_hundred_shapes_of_modelnet40_c_as_the_loop_does(
    purgegate, tmp_path, method: str, shared
):
    data = pg.load_dataset(shared / "data" / "modelnet40_test.npz")
    index = np.linspace(0, len(data.label) - 1, 200).astype(int)
    names = ("background", "shear", "gaussian", "impulse")
    parts = [corrupted(data, index[start::4], name) for start, name in enumerate(names)]
    shapes = {part.data.points.shape[1] for part in parts}
    for number, points in enumerate(sorted(shapes)):
        same = [part.data for part in parts if part.data.points.shape[1] == points]
        joined = same[0]._replace(
            points=np.concatenate([each.points for each in same]),
            label=np.concatenate([e.label for e in same]),
        )
        folder = tmp_path / str(number)
        folder.mkdir()
        compare(purgegate, folder, pg.Domain(joined), "point_mae_tiny.modelnet40", method)
