"""Odd arguments of the public functions: an answer, or an error that says what must hold."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import purgegate as pg
from purgegate.io.datasets import cut
from purgegate.points.sampling import farthest_points, resample
from purgegate.report.compare_files import mcnemar
from tests.fuzz.outcomes import answer_or_refusal
from tests.models import clouds, small_model

ODD = st.sampled_from([None, "", "many", -1, 0, 1.5, float("nan"), True, (), [], {}, 10**12, object()])
NUMBERS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, 1e-38, 1e38, float("inf"), float("nan")])
QUANTITIES = st.sampled_from([-1, 0, 1, 2, 10**12, -0.5, 0.0, 0.5, 1e300, float("inf"), float("nan")])
CLOUDS = st.tuples(st.integers(0, 3), st.integers(0, 70), st.just(3))
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple) | st.tuples(st.integers(0, 60), st.just(3))
GENERATORS = st.sampled_from([np.random.default_rng(0), np.random.RandomState(0)])


@st.composite
def arrays(draw, shapes=SHAPES) -> np.ndarray:
    """Numbers of any shape and kind: equal, random, far away, or with something strange among them."""
    shape, seed = draw(shapes), draw(st.integers(0, 9))
    values = np.random.default_rng(seed).normal(size=shape)
    values = values * draw(st.sampled_from([0.0, 1.0, 1e-30, 1e30])) + draw(st.sampled_from([0.0, 50.0, 1e7]))
    if values.size and draw(st.booleans()):
        values.flat[draw(st.integers(0, values.size - 1))] = draw(NUMBERS)
    kind = draw(st.sampled_from(["f4", "f8", "f2", "i4", ">f4"]))
    with np.errstate(all="ignore"):
        return values.astype(kind)


@given(
    points=arrays() | ODD,
    name=st.sampled_from(sorted(pg.CORRUPTIONS)) | ODD,
    severity=st.integers(-1, 10) | ODD,
    generator=GENERATORS | GENERATORS | ODD,
)
@example(points=np.zeros((5, 3)), name="uniform", severity=1, generator=0)
def test_corrupt(count, points, name, severity, generator) -> None:
    count["calls"] += 1
    found = answer_or_refusal(
        lambda: pg.corrupt(points, name, severity=severity, generator=generator), lines=False
    )
    assert found is None or (found.dtype == np.float32 and found.ndim == 2 and found.shape[1] == 3)


@given(
    points=arrays(st.tuples(st.integers(0, 3), st.integers(1, 70), st.just(3))),
    wanted=st.integers(-2, 80),
    padding=st.sampled_from(["repeat", "zero", "x"]),
)
def test_sampling(count, points, wanted, padding) -> None:
    count["calls"] += 2
    tensor = torch.tensor(points.astype(np.float32))
    answer_or_refusal(lambda: farthest_points(tensor, wanted), lines=False)
    found = answer_or_refusal(lambda: resample(tensor, wanted, padding=padding), lines=False)
    assert found is None or found.shape[1] == wanted


@pytest.fixture(scope="module")
def gates():
    """A gate of every kind, over a small model."""
    model = small_model()
    statistics = pg.SourceStatistics.collect(model, [clouds(4)])
    scores = pg.SourceDistance(statistics), pg.ClassDistance()
    return [
        pg.PurgeGate(model, score, purge=(0, 2), norm=norm)
        for score in scores
        for norm in ("source", "batch")
    ]


@given(points=arrays(SHAPES | CLOUDS), place=st.integers(0, 3))
def test_gates(count, gates, points, place) -> None:
    count["calls"] += 1
    tensor = torch.tensor(points.astype(np.float32))
    found = answer_or_refusal(lambda: gates[place](tensor), lines=False)
    assert found is None or found.shape == (len(tensor), 5)


@given(mean=arrays(), std=arrays(), number=st.integers(-1, 9) | ODD, name=st.none() | st.text(max_size=4))
def test_statistics(count, mean, std, number, name) -> None:
    count["calls"] += 1
    tensors = [torch.tensor(each.astype(np.float32)) for each in (mean, std)]
    answer_or_refusal(lambda: pg.SourceStatistics(*tensors, number, name), lines=False)


SIZES = st.integers(-1, 12) | ODD


@given(
    name=st.sampled_from(sorted(pg.BACKBONES)) | st.text(max_size=5),
    classes=SIZES,
    sizes=st.fixed_dictionaries(
        {"depth": st.integers(0, 1), "width": st.sampled_from([0, 8, 12, 13])},
        optional={"heads": SIZES, "groups": SIZES, "group_size": SIZES, "points": SIZES, "other": SIZES},
    ),
)
def test_backbones(count, name, classes, sizes) -> None:
    count["calls"] += 1
    answer_or_refusal(lambda: pg.create_backbone(name, classes=classes, **sizes), lines=False)


@given(
    method=st.sampled_from(sorted(pg.METHODS)) | st.text(max_size=5),
    options=st.dictionaries(
        st.sampled_from(["steps", "lr", "views", "momentum", "other"]), QUANTITIES, max_size=2
    ),
)
def test_adapters(count, gates, method, options) -> None:
    count["calls"] += 1
    answer_or_refusal(lambda: pg.create_adapter(method, gates[0].model, **options), lines=False)


@given(
    name=st.text(max_size=12),
    root=st.none() | st.text(max_size=5),
    split=st.sampled_from(["test", "train", "x", None]),
)
@example(name="\x00", root=None, split="test")
def test_names_of_data_sets(count, name, root, split) -> None:
    count["calls"] += 3
    answer_or_refusal(lambda: pg.load_dataset(name, root=root, split=split), lines=False)
    answer_or_refusal(lambda: pg.load_backbone(name), lines=False)
    answer_or_refusal(lambda: pg.read_cloud(name), lines=False)


@given(number=st.integers(0, 50), size=st.integers(-2, 60))
def test_batches_hold_every_cloud_once(count, number, size) -> None:
    count["calls"] += 1
    found = answer_or_refusal(lambda: cut(number, size))
    if found is not None and number:
        assert [place for part in found for place in range(number)[part]] == list(range(number))


@given(lost=st.integers(0, 400), won=st.integers(0, 400))
def test_chances_are_chances(count, lost, won) -> None:
    count["calls"] += 1
    assert 0 <= mcnemar(lost, won) <= 1
