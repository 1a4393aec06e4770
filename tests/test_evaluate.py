import sys

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.adapt import create_adapter
from purgegate.adapt.pg_auto import AutoGate, center_isolation
from purgegate.evaluate import Domain, Settings, evaluate, mix
from purgegate.io.labelled import Dataset
from purgegate.io.results import key_of, read_rows
from tests.models import clouds, small_model


def domain(total: int = 21, *, corruption: str = "clean", seed: int = 0) -> Domain:
    points = clouds(total, 80, seed=seed).numpy()
    label = np.arange(total, dtype=np.int64) % 5
    points[:, :, 2] = label[:, None]  # so that a cloud tells its class
    return Domain(Dataset(points, label, tuple("abcde")), "toy", corruption, 5)


class Counter:
    """An adapter that answers class 0 and remembers how it was used."""

    name, weights_name = "counter", "none"

    def __init__(self) -> None:
        self.resets, self.sizes, self.seen = 0, [], 0

    def __call__(self, points: torch.Tensor) -> torch.Tensor:
        self.sizes.append(tuple(points.shape))
        self.seen += len(points)
        return torch.tensor([5.0, 0, 0, 0, 0]).repeat(len(points), 1)

    def reset(self) -> None:
        self.resets += 1
        self.seen = 0


def test_every_cloud_is_scored_and_the_last_partial_batch_too():
    adapter = Counter()
    row = evaluate(adapter, [domain(21)], settings=Settings(batch=8, points=64))[0]
    assert adapter.sizes == [(8, 64, 3), (8, 64, 3), (5, 64, 3)]
    assert (row["correct"], row["total"]) == (5, 21)
    assert row["seconds"] >= 0
    assert row["method"] == "counter"


@pytest.mark.parametrize(("reset", "resets"), [("domain", 3), ("batch", 7), ("never", 1)])
def test_the_method_forgets_when_told(reset: str, resets: int):
    adapter = Counter()
    evaluate(adapter, [domain(21), domain(21)], settings=Settings(batch=8, points=64, reset=reset))
    assert adapter.resets == resets


def test_the_same_seed_gives_the_same_row_and_another_seed_another_view():
    model = small_model()
    gate = pg.PurgeGate(model, pg.ClassDistance(), purge=(0, 4))
    first, second, other = (
        evaluate(gate, [domain()], settings=Settings(batch=8, points=64, seed=seed))[0] for seed in (0, 0, 1)
    )
    assert {**first, "seconds": 0, "memory": 0} == {**second, "seconds": 0, "memory": 0}
    assert first["entropy"] != other["entropy"]
    assert 0 <= first["purge"] <= 4


def test_finished_domains_are_not_run_again(tmp_path):
    path, adapter = tmp_path / "results.jsonl", Counter()
    domains = [domain(corruption=name) for name in ("uniform", "shear", "lidar")]
    settings = Settings(batch=8, points=64)
    evaluate(adapter, domains[:2], settings=settings, results=path)
    adapter.sizes.clear()
    rows = evaluate(adapter, domains, settings=settings, results=path)
    assert len(adapter.sizes) == 3
    assert [row["corruption"] for row in rows] == ["uniform", "shear", "lidar"]
    assert read_rows(path) == rows


def test_a_row_says_which_classes_were_taken_for_which_only_if_asked(tmp_path):
    path, settings = tmp_path / "results.jsonl", Settings(batch=8, points=64)
    (plain,) = evaluate(Counter(), [domain(21)], settings=settings, results=path)
    assert "confusion" not in plain
    (row,) = evaluate(Counter(), [domain(21)], settings=settings, confusion=True)
    assert row["confusion"] == {"a": {"a": 5}, "b": {"a": 4}, "c": {"a": 4}, "d": {"a": 4}, "e": {"a": 4}}
    assert key_of(row) == key_of(plain)
    # What is known is not run again, and stays as it was.
    again = evaluate(Counter(), [domain(21)], settings=settings, results=path, confusion=True)
    assert again == read_rows(path) == [plain]


def test_classes_without_names_are_called_as_the_model_calls_them():
    model = small_model()
    data = domain(10).data._replace(classes=tuple("01234"))
    adapter = create_adapter("source", model)
    settings = Settings(batch=8, points=64)
    (row,) = evaluate(adapter, [Domain(data)], settings=settings, confusion=True)
    assert set(row["confusion"]) == set("01234")
    model.class_names = tuple("abcde")
    (row,) = evaluate(create_adapter("source", model), [Domain(data)], settings=settings, confusion=True)
    assert set(row["confusion"]) == set("abcde")


def test_a_continual_run_taken_up_again_sees_all_domains_but_adds_only_missing_rows(tmp_path):
    path, adapter = tmp_path / "results.jsonl", Counter()
    domains = [domain(corruption=name) for name in ("uniform", "shear")]
    settings = Settings(batch=8, points=64, reset="never")
    evaluate(adapter, domains[:1], settings=settings, results=path)
    evaluate(adapter, domains, settings=settings, results=path)
    assert adapter.seen == 42
    assert [row["corruption"] for row in read_rows(path)] == ["uniform", "shear"]


def test_what_a_continual_method_saw_before_is_part_of_the_measurement(tmp_path):
    path, adapter = tmp_path / "results.jsonl", Counter()
    first, second = (domain(corruption=name) for name in ("uniform", "shear"))
    settings = Settings(batch=8, points=64, reset="never")
    for stream in ([first, second], [second, first], [first, second, first]):
        adapter.sizes.clear()
        rows = evaluate(adapter, stream, settings=settings, results=path)
        assert len(adapter.sizes) == 3 * len(stream)
        assert [row["corruption"] for row in rows] == [each.corruption for each in stream]
    assert [row["after"] for row in rows] == [[], ["uniform 5"], ["uniform 5", "shear 5"]]
    assert len(read_rows(path)) == 5  # of the last stream, two were known


def test_other_clouds_or_labels_are_another_measurement(tmp_path):
    path, settings = tmp_path / "results.jsonl", Settings(batch=8, points=64)
    data = domain().data
    for changed in (
        data,
        data._replace(points=data.points + 1),
        data._replace(label=data.label[::-1].copy()),
    ):
        evaluate(Counter(), [Domain(changed, "toy")], settings=settings, results=path)
    assert len(read_rows(path)) == 3


def test_a_seed_of_its_own_is_told_only_where_it_is_not_the_stream_s(tmp_path):
    model, path = small_model(groups=40), tmp_path / "results.jsonl"
    adapters = [create_adapter("random_purge", model, seed=seed) for seed in (0, 1, 2)]
    for adapter in adapters:
        evaluate(adapter, [domain()], settings=Settings(batch=8, points=64), results=path)
    evaluate(adapters[2], [domain()], settings=Settings(batch=8, points=64, seed=2), results=path)
    found = [(row["options"].get("seed"), row["seed"]) for row in read_rows(path)]
    assert found == [(None, 0), (1, 0), (2, 0), (None, 2)]


def test_another_option_or_score_is_another_measurement(tmp_path):
    model, path = small_model(groups=40), tmp_path / "results.jsonl"
    statistics = pg.SourceStatistics.collect(model, [clouds(8, 80)])
    later = pg.SourceStatistics.collect(model, [clouds(8, 80)], after_block=True)
    adapters = [
        *(create_adapter("tent", model, lr=lr) for lr in (1e-3, 1e-1)),
        *(pg.PurgeGate(model, score) for score in (pg.SourceDistance(statistics), pg.ClassDistance())),
        pg.PurgeGate(model, pg.ClassDistance(), purge=(0,)),
        create_adapter("pg_sf", model),
        pg.PurgeGate(model, pg.SourceDistance(later)),
        *(create_adapter("pg_sp", model, statistics=each) for each in (statistics, later)),
        pg.PurgeGate(model, center_isolation),
        AutoGate(model),
    ]
    for adapter in (*adapters, *adapters):
        evaluate(adapter, [domain()], settings=Settings(batch=8, points=64), results=path)
    rows = read_rows(path)
    assert [row["method"] for row in rows] == [
        *("tent", "tent", "pg_sp", "pg_sf", "pg_sf", "pg_sp"),
        *("purgegate.adapt.pg_auto:center_isolation", "pg_auto"),
    ]
    assert [row["given"] for row in rows[:2]] == [{}, {"lr": 1e-1}]
    assert [row["options"]["lr"] for row in rows[:2]] == [1e-3, 1e-1]


def test_small_clouds_are_filled_up_by_copies_or_as_released_by_zeros():
    seen = []
    adapter = Counter()
    adapter.predict = lambda points: (
        seen.append(points)
        or pg.Prediction(torch.zeros(len(points), 5), None, None, torch.zeros(len(points)), None, None)
    )
    rows = [
        evaluate(adapter, [domain(5)], settings=Settings(points=100, padding=padding))[0]
        for padding in ("repeat", "zero")
    ]
    assert [(points == 0).all(dim=-1).sum(dim=1).tolist() for points in seen] == [[0] * 5, [20] * 5]
    assert key_of(rows[0]) != key_of(rows[1])


def test_clouds_go_to_the_device_of_the_model(monkeypatch):
    module = sys.modules["purgegate.evaluate"]
    monkeypatch.setattr(module, "model_fingerprint", lambda model: None)  # there is nothing to read

    class Elsewhere(Counter):
        model = torch.nn.Linear(1, 1, device="meta")

        def __call__(self, points: torch.Tensor) -> torch.Tensor:
            assert points.device.type == "meta"
            return super().__call__(points)

    row = evaluate(Elsewhere(), [domain(10)], settings=Settings(points=64))[0]
    assert row["correct"] == 2


def test_a_row_names_the_weights_of_a_loaded_model(tmp_path):
    pg.save_backbone(small_model(), tmp_path / "small.v1.safetensors")
    model = pg.load_backbone(tmp_path / "small.v1.safetensors")
    (row,) = evaluate(create_adapter("source", model), [domain()], settings=Settings(batch=8, points=64))
    assert row["weights"] == "small.v1.safetensors"
    assert row["backbone"] == "PointMAE"
    assert pg.load_backbone("point_mae_tiny.shapes").weights_name == "point_mae_tiny.shapes"


def test_the_model_is_hashed_once_however_many_domains():
    asked = []

    class Hashed(Counter):
        def state_dict(self) -> dict[str, torch.Tensor]:
            asked.append(self)
            return {}

    domains = [domain(corruption=name) for name in ("uniform", "shear", "lidar")]
    rows = evaluate(Hashed(), domains, settings=Settings(batch=8, points=64))
    assert len({row["fingerprint"] for row in rows} - {None}) == 1
    assert len(asked) == 1


def test_a_method_that_has_learned_is_still_named_by_its_source_weights(tmp_path):
    adapter, path = create_adapter("tent", small_model()), tmp_path / "results.jsonl"
    settings = Settings(batch=8, points=64)
    first = evaluate(adapter, [domain()], settings=settings, results=path)
    assert evaluate(adapter, [domain()], settings=settings, results=path) == first
    assert len(read_rows(path)) == 1


@pytest.mark.parametrize(
    ("order", "wanted"),
    [("sorted", sorted(number % 5 for number in range(18))), ("given", [number % 5 for number in range(18)])],
)
def test_a_stream_comes_class_by_class_or_as_given(order: str, wanted: list[int]):
    seen, told = [], []

    class Watcher(Counter):
        def __call__(self, points):
            seen.extend(points[:, 0, 2].int().tolist())
            return super().__call__(points)

    settings = Settings(batch=4, points=64, order=order)
    evaluate(Watcher(), [domain(18)], settings=settings, advance=told.append)
    assert seen == wanted
    assert told == [4, 4, 4, 4, 2]


def test_a_mixed_domain_holds_every_cloud_once_with_its_label_and_the_loop_s_number_of_points():
    few = domain(11, seed=1)
    few = few._replace(data=few.data._replace(points=few.data.points[:, :30]))
    mixed = mix([domain(10), few], points=64)
    assert mixed.data.points.shape == (21, 64, 3)
    assert (mixed.data.points[:, :, 2] == mixed.data.label[:, None]).all()
    assert len(np.unique(mixed.data.points[:, :, 0].min(axis=1))) == 21
    assert sorted(mixed.data.label) == sorted([*domain(10).data.label, *few.data.label])
    assert mixed.data.label.tolist() != [*domain(10).data.label, *few.data.label]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reset": "sometimes"}, "reset must be one of domain, batch, never"),
        ({"order": "up"}, "order must be one of"),
        ({"batch": 0}, "batch must be at least 1 and at most .*; got 0"),
    ],
)
def test_unknown_settings_list_the_choices(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        evaluate(Counter(), [domain()], settings=Settings(**options))


def test_clouds_without_labels_cannot_be_scored():
    data = domain().data._replace(label=np.full(21, -1, dtype=np.int64))
    with pytest.raises(ValueError, match="needs a label"):
        evaluate(Counter(), [Domain(data)])


def test_clouds_of_other_classes_than_the_model_s_are_refused():
    model = small_model()
    model.class_names = ("v", "w", "x", "y", "z")
    with pytest.raises(ValueError, match=r"toy has other classes than the model \(a, b, c, … and v, w, x"):
        evaluate(create_adapter("source", model), [domain()], settings=Settings(points=64))
    unnamed = domain()._replace(data=domain().data._replace(classes=tuple("01234")))
    evaluate(create_adapter("source", model), [unnamed], settings=Settings(points=64))


def test_labels_beyond_the_model_s_classes_are_refused():
    data = domain().data._replace(label=np.arange(21), classes=tuple(map(str, range(21))))
    with pytest.raises(ValueError, match="has labels up to 20, but the model answers 5 classes"):
        evaluate(create_adapter("source", small_model()), [Domain(data)], settings=Settings(points=64))


def test_a_bare_model_is_no_adapter():
    with pytest.raises(ValueError, match=r"needs a method `reset`; PointMAE has none"):
        evaluate(small_model(), [domain()])


def test_rows_of_a_score_without_a_name_are_not_kept(tmp_path):
    settings, path = Settings(points=64), tmp_path / "results.jsonl"
    gate = pg.PurgeGate(small_model(), lambda model, tokens: tokens.centers.norm(dim=-1), purge=(4,))
    assert evaluate(gate, [domain()], settings=settings)[0]["total"] == 21
    with pytest.raises(ValueError, match="give it an attribute `name`"):
        evaluate(gate, [domain()], settings=settings, results=path)
    assert not path.exists()


def test_an_adapter_that_tells_no_options_is_warned_of(tmp_path, caplog):
    path, settings = tmp_path / "results.jsonl", Settings(points=64)
    evaluate(Counter(), [domain()], settings=settings, results=path, facts={"options": {"k": 1}})
    assert not caplog.records
    evaluate(Counter(), [domain()], settings=settings, results=path)
    assert "rows of counter with other options" in caplog.text
    assert [row["options"] for row in read_rows(path)] == [{"k": 1}, {}]


def test_rows_of_a_model_without_weights_need_a_name(tmp_path):
    path, settings, nameless = tmp_path / "results.jsonl", Settings(points=64), Counter()
    nameless.weights_name = ""
    with pytest.raises(ValueError, match="give facts="):
        evaluate(nameless, [domain()], settings=settings, results=path)
    for name in ("one", "two"):
        evaluate(Counter(), [domain()], settings=settings, results=path, facts={"weights": name})
    assert len(read_rows(path)) == 2
