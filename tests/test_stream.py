"""A stream is one sensor: it answers at once, adapts, can be saved and reset, and shares its model."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.adapt.base import Method, Prediction
from purgegate.reference import Witness
from tests.models import clouds, small_model, state_of

KEEPING = (
    "source",
    "source_bn",
    "t3a",
    "pg_sf",
    "random_purge",
    "pg_auto",
)  # all but those that write weights


def some(count: int = 6, *, seed: int = 0) -> list[np.ndarray]:
    """Clouds of any size and place, unlike those before them."""
    sizes = (300, 700, 257, 1500)
    return [
        clouds(1, sizes[k % 4], seed=seed + k)[0].numpy() * [1, 1 + k % 3, 2] + 10 * k for k in range(count)
    ]


def plain(answers: list) -> list[tuple]:
    return [(each.label, each.confidence, each.purged, each.shift, each.alarm) for each in answers]


@pytest.fixture
def reference():
    model = small_model(groups=40)
    points = torch.cat([pg.prepare(cloud, model) for cloud in some(12, seed=50)])
    return pg.SourceReference.collect(model, points.split(4))


@pytest.mark.parametrize(
    ("method", "options"),
    [*((name, {}) for name in KEEPING), ("pg_auto", {"classifier": "t3a", "memory": 9})],
)
def test_a_stream_saved_and_loaded_is_the_same_stream(tmp_path, method, options):
    model = small_model(groups=40)
    first = pg.Stream(model, method, learn=3, **options)
    first.push_many(some(3))
    first.push(some(5)[4])
    first.save(tmp_path / "state.safetensors")
    second = pg.Stream(model, method, learn=3, **options).load(tmp_path / "state.safetensors")
    assert second.seen == first.seen == 4
    for cloud in some(4, seed=9):
        assert plain([first.push(cloud)]) == plain([second.push(cloud)])


@pytest.mark.parametrize("method", [*KEEPING, "tent"])
def test_reset_forgets(method):
    stream = pg.Stream(small_model(groups=40), method, learn=2)
    first = [stream.push(cloud) for cloud in some()]
    stream.reset()
    assert plain([stream.push(cloud) for cloud in some()]) == plain(first)


@pytest.mark.parametrize(
    ("method", "options"), [("source", {}), ("pg_auto", {"stages": ("strays", "scale")})]
)
def test_one_at_a_time_under_source_statistics_is_the_method_itself(method, options):
    model = small_model(groups=40)
    stream = pg.Stream(model, method, norm="source", **options)
    points = torch.cat([pg.prepare(cloud, model) for cloud in some()])
    logits = pg.create_adapter(method, model, norm="source", **options)(points)
    answers = [stream.push(cloud) for cloud in some()]
    assert [each.label for each in answers] == logits.argmax(dim=1).tolist()
    sure = [each.confidence for each in answers]
    assert sure == pytest.approx(logits.softmax(dim=1).amax(dim=1).tolist(), abs=1e-5)


def test_arrays_tensors_and_files_are_one(tmp_path):
    cloud = some(1)[0].astype(np.float32)
    np.save(tmp_path / "cloud.npy", cloud)
    forms = (cloud, torch.from_numpy(cloud), tmp_path / "cloud.npy", str(tmp_path / "cloud.npy"))
    answers = [pg.Stream(small_model(groups=40)).push(form) for form in forms]
    assert len(set(plain(answers))) == 1


def test_a_stream_adapts_one_by_one_and_memory_forgets():
    model, cloud = small_model(groups=40), some(1)[0]
    last = {}
    for name, options in {"fixed": {"norm": "source"}, "pool": {}, "short": {"memory": 2}}.items():
        stream = pg.Stream(model, "source_bn", **options)
        for other in some(8, seed=3):
            stream.push(other)
        last[name] = stream.push(cloud).confidence
    assert len(set(last.values())) == 3


def test_streams_of_one_model_in_many_threads_answer_as_alone():
    model = small_model(groups=40)
    before = state_of(model)

    def run(seed: int) -> list[tuple]:
        stream = pg.Stream(model, "source_bn", learn=2)
        return plain([stream.push(cloud) for cloud in some(6, seed=seed)])

    alone = [run(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == alone
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_one_stream_serves_many_threads_one_by_one():
    stream = pg.Stream(small_model(groups=40), "source_bn", learn=2)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(stream.push, some(12)))
    assert stream.seen == 12
    assert sorted(each.alarm.seen for each in answers) == list(range(1, 13))


def test_what_would_do_harm_is_answered_and_not_learned_from(reference):
    model, good = small_model(groups=40), some(4)
    far = pg.SourceReference(  # nothing is as near as this asks for
        reference.entropy, reference.energy, torch.full_like(reference.distance, 1e-6), reference.means
    )
    tolerant, strict = (pg.Stream(model, "source_bn", reference=r) for r in (reference, far))
    fresh = pg.Stream(model, "source_bn", reference=reference)
    for cloud in good:
        assert tolerant.push(cloud).learned
        answer = strict.push(cloud)
        assert answer.learned is False
        assert answer.confidence == pytest.approx(pg.Stream(model, "source_bn").push(cloud).confidence)
    probe = some(1, seed=77)[0]
    assert strict.push(probe).confidence == fresh.push(probe).confidence
    assert tolerant.push(probe).confidence != fresh.push(probe).confidence


class KeepsNothing(Method):
    """A method of one's own whose purge leaves nothing of a cloud above the plane z = 0.9."""

    writes = False

    def decide(self, points):
        """All but one of the tokens of such a cloud are purged."""
        with self.statistics(len(points)):
            found = Prediction.of(self.logits(points))
        gone = torch.where(points[:, :, 2].amax(dim=1) > 0.9, 39, 0)
        return found._replace(scores=torch.zeros(len(points), 40), purge=gone)


def test_a_cloud_of_which_nothing_is_left_has_no_part_in_the_answers_to_its_batch():
    model = small_model(groups=40)
    points = clouds(5) * 0.8
    points[2, 0, 2] = 1.0
    stream, other = (
        pg.Stream(model, "tests.test_stream:KeepsNothing", norm="pool", alpha=None) for _ in "ab"
    )
    answers = stream.answer(points)
    without = other.answer(points[[0, 1, 3, 4]])
    assert [each.learned for each in answers] == [True, True, False, True, True]
    assert [answers[k].confidence for k in (0, 1, 3, 4)] == [each.confidence for each in without]
    assert stream.adapter.pools[""].weight == 4


def test_methods_that_write_weights_say_that_they_cannot_be_saved(tmp_path):
    stream = pg.Stream(small_model(groups=40), "tent")
    stream.push(some(1)[0])
    with pytest.raises(ValueError, match="tent writes to the weights"):
        stream.save(tmp_path / "state.safetensors")
    assert not list(tmp_path.iterdir())


def test_the_state_of_another_stream_is_refused(tmp_path):
    path = tmp_path / "state.safetensors"
    pg.Stream(small_model(groups=40), "source_bn").save(path)
    others = {
        "method": pg.Stream(small_model(groups=40), "pg_sf"),
        "model": pg.Stream(small_model(groups=40, seed=1), "source_bn"),
        "options": pg.Stream(small_model(groups=40), "source_bn", memory=9),
        "alpha": pg.Stream(small_model(groups=40), "source_bn", alpha=0.05),
    }
    for name, stream in others.items():
        with pytest.raises(ValueError, match=f"a stream with {name}"):
            stream.load(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="holds no state of a stream"):
        pg.Stream(small_model(groups=40), "source_bn").load(path)
    with pytest.raises(FileNotFoundError, match="is missing"):
        pg.Stream(small_model(groups=40), "source_bn").load(tmp_path / "none.safetensors")


def test_a_bad_cloud_leaves_the_stream_as_it_was():
    stream = pg.Stream(small_model(groups=40), "source_bn")
    stream.push(some(1)[0])
    weight = stream.adapter.pools[""].weight
    for bad in (np.zeros((0, 3)), np.full((99, 3), np.nan), np.zeros((9, 2)), np.zeros((99, 3))):
        with pytest.raises(ValueError, match=r"cloud|coordinates"):
            stream.push(bad)
    assert (stream.seen, stream.adapter.pools[""].weight) == (1, weight)
    assert stream.push_many([]) == []


def test_the_alarm_rings_once_as_an_event_and_a_log_line(reference, caplog):
    events = []
    sure = pg.SourceReference(  # the source was always surer
        torch.zeros(500), torch.zeros(500), torch.ones(500) * 1e6, reference.means
    )
    stream = pg.Stream(small_model(groups=40), "source_bn", reference=sure, on_alarm=events.append)
    with caplog.at_level(logging.WARNING):
        answers = [stream.push(cloud) for cloud in some(30)]
    (event,) = events
    assert event.state == "ringing"
    assert event.since == 1
    assert event.rank == 1
    assert [each.alarm.state for each in answers] == ["quiet"] * (event.rang - 1) + ["ringing"] * (
        31 - event.rang
    )
    assert [record.message for record in caplog.records] == [event.line()]
    assert "less sure" in event.line()
    stream.acknowledge()
    assert stream.alarm.state == "quiet"
    assert stream.seen == 30


def test_unknown_is_what_neither_the_model_nor_the_method_can_place(reference):
    model, cloud = small_model(groups=40), some(1)[0]
    sure, unsure = (
        pg.SourceReference(
            torch.full((99,), e), torch.full((99,), g), reference.distance[:1].expand(99), reference.means
        )
        for e, g in ((0.0, -1e3), (9.0, -1e3))
    )
    assert pg.Stream(model, "source", reference=sure).push(cloud).unknown
    assert not pg.Stream(model, "source", reference=unsure).push(cloud).unknown
    assert pg.Stream(model, "source").push(cloud).unknown is None
    quiet = pg.Stream(model, "source", alpha=None).push(cloud)
    assert (quiet.alarm, quiet.unknown, quiet.learned) == (None, None, True)


def test_the_shift_is_what_the_source_model_finds_whatever_the_method_repairs(reference):
    model, cloud = small_model(groups=40), some(1)[0]
    (seen,) = Witness(model, reference.means)(pg.prepare(cloud, model)).distance.tolist()
    usual = float(reference.distance.median())
    for method in ("source", "source_bn", "pg_auto", "t3a"):
        answer = pg.Stream(model, method, reference=reference).push(cloud)
        assert answer.shift == pytest.approx(seen / usual, rel=1e-4)
    assert pg.Stream(model, "t3a").push(cloud).shift is None


@pytest.mark.parametrize(("norm", "forwards"), [("source", 1), ("pool", 2)])
def test_a_method_that_is_the_source_model_needs_no_second_forward(reference, monkeypatch, norm, forwards):
    model, counted = small_model(groups=40), []
    whole = type(model).encode
    monkeypatch.setattr(type(model), "encode", lambda self, *args: counted.append(1) or whole(self, *args))
    stream = pg.Stream(model, "source", norm=norm, reference=reference)
    plain = pg.Stream(model, "source_bn", norm="source", reference=reference)
    counted.clear()
    answer = stream.push(some(1)[0])
    assert len(counted) == forwards
    if norm == "source":
        assert (answer.shift, answer.alarm) == (plain.push(some(1)[0]).shift, plain.alarm)


def test_the_alarm_counts_the_stages_that_answered(reference):
    cloud = np.concatenate([some(1)[0], [[500.0, 500.0, 500.0]]])  # with one stray
    for method, stages in {"pg_auto": {"strays", "statistics"}, "source_bn": {"statistics"}}.items():
        watch = pg.Stream(small_model(groups=40), method, reference=reference)
        watch.push(cloud)
        assert watch.watch._since.stages.keys() == stages
    still = pg.Stream(small_model(groups=40), "source", reference=reference)
    still.push(cloud)
    assert not still.watch._since.stages


def test_strays_of_one_cloud_are_not_told_of_the_others_in_its_batch():
    clean, bad = some(1)[0], np.concatenate([some(1)[0], [[500.0, 500.0, 500.0]]])
    stream = pg.Stream(small_model(groups=40), "pg_auto", stages=("strays",), alpha=None)
    found = stream.push_many([clean, bad, clean])
    assert [each.purged for each in found] == [0, 1, 0]
    assert [each.stages for each in found] == [(), ("strays",), ()]
