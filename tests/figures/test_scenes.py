import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.figures.exhibits import exhibit_data, exhibit_files, spread_places
from purgegate.figures.scenes import BACKDROP, make_scene, pack, unpack
from purgegate.figures.viewer import Viewer, featured_methods
from purgegate.io.labelled import Dataset
from purgegate.points.corruptions import CORRUPTIONS
from purgegate.points.shapes import make_shapes
from purgegate.prepare import prepare
from tests.models import clouds, small_model

WEIGHTS = "point_mae_tiny.shapes"


@pytest.fixture(scope="module")
def data() -> Dataset:
    return Dataset(*make_shapes("test", count=3))


@pytest.fixture(scope="module")
def viewer(data) -> Viewer:
    return Viewer(WEIGHTS, exhibit_data(data), methods=[*featured_methods(), "tent"])


def shares(answer) -> np.ndarray:
    return unpack(answer["probabilities"]).reshape(len(answer["sizes"]), -1)


def test_fifty_random_clouds_and_sizes_are_shown_as_the_gate_answers_them(viewer, data):
    model, rng = small_model(), np.random.default_rng(0)
    statistics = pg.SourceStatistics.collect(model, [clouds(8)])
    scores = {"pg_sp": pg.SourceDistance(statistics), "pg_sf": pg.ClassDistance()}
    gates = {
        name: pg.PurgeGate(model, score, purge=range(16), norm="blend") for name, score in scores.items()
    }
    for _ in range(50):
        place, size = int(rng.integers(len(data.label))), int(rng.integers(16))
        name, corruption = str(rng.choice(list(scores))), str(rng.choice(["", *CORRUPTIONS]))
        cloud = viewer.exhibits[place].cloud(corruption, 3, points=model.points)
        answer = make_scene(model, cloud, {name: gates[name]}, statistics=statistics)["answers"][name]
        gate = pg.PurgeGate(model, scores[name], purge=(size,), norm="blend")
        found = gate.predict(prepare(cloud, model))
        np.testing.assert_allclose(shares(answer)[size], found.logits.softmax(-1)[0], atol=1e-3)
        assert unpack(answer["entropy"])[size] == pytest.approx(float(found.entropy[0, 0]), abs=1e-3)
        assert answer["shift"] == pytest.approx(float(found.shift[0]), abs=1e-3)


def test_the_viewers_own_methods_show_what_the_bundled_model_answers(viewer):
    model = pg.load_backbone(WEIGHTS)
    score = pg.SourceDistance(pg.SourceStatistics.from_weights(WEIGHTS))
    gate = pg.PurgeGate(model, score, purge=(0, 5, 63), norm="blend")
    points = prepare(viewer.exhibits[7].cloud("impulse", 5, points=1024), model)
    answer = viewer.scene(7, "pg_sp", corruption="impulse")["answers"]["pg_sp"]
    wanted = gate.predict(points).candidates.softmax(-1)[0]
    np.testing.assert_allclose(shares(answer)[[0, 5, 63]], wanted, atol=1e-3)


def test_the_gates_own_size_is_the_one_that_it_takes(viewer, data):
    model = pg.load_backbone(WEIGHTS)
    gate = pg.PurgeGate(model, pg.ClassDistance(), norm="blend")
    for place in (0, 21, 42):
        answer = viewer.scene(place, "pg_sf", corruption="background")["answers"]["pg_sf"]
        points = prepare(viewer.exhibits[place].cloud("background", 5, points=1024), model)
        assert answer["sizes"][answer["chosen"]] == int(gate.predict(points).purge[0])


def test_ranks_tell_which_tokens_go_first(viewer):
    scene = viewer.scene(0, "pg_sp")
    rank, scores = unpack(scene["answers"]["pg_sp"]["rank"]), unpack(scene["colours"]["PG-SP score"])
    np.testing.assert_array_equal(np.argsort(rank), np.argsort(scores, kind="stable"))


def test_points_are_those_that_the_model_sees_each_with_its_nearest_patch(viewer, data):
    model, scene = pg.load_backbone(WEIGHTS), viewer.scene(4, "source")
    points = prepare(data.points[4], model)
    np.testing.assert_array_equal(unpack(scene["points"]).reshape(-1, 3), points[0])
    centers = model.tokenize(points).centers[0]
    nearest = torch.cdist(points[0].double(), centers.double()).argmin(dim=1)
    assert (unpack(scene["patch"]) == nearest.numpy()).mean() > 0.999  # but for ties


def test_attention_is_a_share_of_each_patch(viewer):
    attention = unpack(viewer.scene(0, "source")["colours"]["attention"])
    assert attention.sum() == pytest.approx(1, abs=1e-5)
    assert (attention > 0).all()


def test_what_is_shown_does_not_depend_on_what_was_seen_before(viewer):
    first = viewer.scene(3, "pg_auto", corruption="rotation")
    learned = viewer.scene(3, "tent")
    for place in range(5, 9):
        viewer.scene(place, "pg_auto", corruption="background")
        viewer.scene(place, "tent", corruption="background")
    again = Viewer(WEIGHTS, viewer.exhibits, methods=["pg_auto", "tent"])
    assert again.scene(3, "tent") == learned
    assert again.scene(3, "pg_auto", corruption="rotation") == first


@pytest.mark.parametrize(
    ("corruption", "stage", "layer"),
    [
        ("background", "strays", "strays"),
        ("rotation", "tilt", "straightened"),
        ("lidar", "parts", "completed"),
    ],
)
def test_each_stage_of_the_repair_is_a_layer(viewer, corruption: str, stage: str, layer: str):
    acted = []
    for place in range(0, 22, 2):
        answer = viewer.scene(place, "pg_auto", corruption=corruption)["answers"]["pg_auto"]
        names = {each["name"]: each for each in answer["layers"]}
        assert (stage in answer["stages"]) == (layer in names)
        acted += [names[layer]] if layer in names else []
    assert len(acted) > 2
    for each in acted:
        if each["flags"]:
            assert 0 < unpack(each["flags"]).sum() < 200
        else:
            made = unpack(each["points"]).reshape(-1, 3)
            assert np.isfinite(made).all()
            assert np.linalg.norm(made, axis=1).max() < 2


def test_one_cloud_with_all_sizes_takes_less_than_half_a_megabyte(viewer):
    import json

    assert len(json.dumps(viewer.scene(0))) < 500_000


def test_a_large_file_is_drawn_in_the_frame_of_what_the_model_sees(tmp_path):
    rng = np.random.default_rng(0)
    cloud = (rng.normal(size=(100_000, 3)) * (1, 2, 3) + 40).astype(np.float32)
    np.save(tmp_path / "large.npy", cloud)
    viewer = Viewer(WEIGHTS, exhibit_files([tmp_path / "large.npy"]), methods=["source"])
    scene = viewer.scene(0)
    drawn = torch.from_numpy(unpack(scene["backdrop"]).reshape(-1, 3).copy())
    assert len(drawn) == BACKDROP
    assert scene["note"] == "The model sees 1,024 of 100,000 points; 8,192 are drawn."
    seen = torch.from_numpy(unpack(scene["points"]).reshape(-1, 3).copy())
    # The spread sample of 8,192 begins with that of 1,024.
    torch.testing.assert_close(drawn[: len(seen)], seen, atol=1e-5, rtol=0)


def test_files_with_y_up_are_turned(tmp_path):
    cloud = make_shapes("test", count=1).points[7]
    np.save(tmp_path / "z.npy", cloud)
    np.save(tmp_path / "y.npy", cloud[:, [0, 2, 1]] * np.float32([-1, 1, 1]))
    upright, turned = (
        exhibit_files([tmp_path / name], up=up)[0].cloud("", 0, points=1024)
        for name, up in (("z.npy", "z"), ("y.npy", "y"))
    )
    np.testing.assert_array_equal(upright, turned)


def test_the_menu_begins_with_the_gates_and_ends_with_all_that_the_model_can_have(data):
    viewer = Viewer(WEIGHTS, exhibit_data(data, places=[0]))
    names = list(viewer.methods)
    assert names[:4] == ["pg_sp", "pg_sf", "pg_auto", "source"]
    assert {"tent", "t3a", "dua"} <= set(names)
    assert not {"bftt3d", "mate"} & set(names)  # what they need is not at hand


def test_a_model_without_a_class_token_has_the_other_methods():
    viewer = Viewer("point_mamba_tiny.modelnet40", exhibit_data(small_set()), featured=True)
    assert list(viewer.methods) == ["pg_sp", "pg_auto", "source"]
    assert list(viewer.scene(0, "source")["colours"]) == ["PG-SP score"]


def small_set() -> Dataset:
    return Dataset(*make_shapes("test", count=1))


class Own(torch.nn.Module):
    """A person's own model, which says nothing of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_model(classes=4, groups=12)

    def tokenize(self, points):
        return self.inner.tokenize(points)

    def encode(self, tokens):
        return self.inner.encode(tokens)

    def head(self, feature):
        return self.inner.head(feature)


def test_a_model_of_ones_own_needs_say_nothing_of_itself():
    viewer = Viewer("tests.figures.test_scenes:Own", exhibit_data(small_set(), places=[3]), featured=True)
    assert list(viewer.methods) == ["pg_auto", "source"]
    data = viewer.page_data(live=False)
    assert (data["groups"], data["classes"]) == (12, ["0", "1", "2", "3"])
    assert len(shares(data["scenes"][0]["answers"]["source"])[0]) == 4


@pytest.mark.parametrize(
    "wrong",
    [{"cloud": -1}, {"cloud": 999}, {"method": "none"}, {"corruption": "rain"},
     {"corruption": "uniform", "severity": 9}],
)  # fmt: skip
def test_what_is_not_there_is_refused(viewer, wrong: dict):
    with pytest.raises(ValueError, match="must"):
        viewer.scene(**{"cloud": 0, "method": "source", **wrong})


def test_an_empty_exhibition_is_refused():
    with pytest.raises(ValueError, match="at least one cloud"):
        Viewer(WEIGHTS, [])


@pytest.mark.parametrize(
    "array", [np.float32([1.5, -2]), np.uint16([0, 65535]), np.uint8([1]), np.float64([0.1])]
)
def test_packed_arrays_come_back(array):
    np.testing.assert_array_equal(
        unpack(pack(array)), array.astype(np.float32) if array.dtype.kind == "f" else array
    )


def test_a_scene_of_three_points_says_what_is_missing(viewer):
    with pytest.raises(ValueError, match="distinct points"):
        make_scene(viewer.model, np.eye(3, dtype=np.float32), {})


def test_places_are_spread_over_a_set(data):
    assert spread_places(data, 3) == [0, 32, 65]
    assert spread_places(data, 1000) == list(range(66))
