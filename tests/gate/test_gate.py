import math

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.gate.purge import entropy, most_certain, survivors
from purgegate.gate.scores import class_distance, source_distance, standardise
from purgegate.gate.statistics import RunningMoments
from tests.models import clouds, small_model, state_of


def test_standardised_tokens_have_mean_zero_and_deviation_one():
    x = standardise(3 + 5 * torch.randn(2, 7, 48))
    assert torch.allclose(x.mean(dim=-1), torch.zeros(2, 7), atol=1e-5)
    assert torch.allclose(x.std(dim=-1), torch.ones(2, 7), atol=1e-4)


def test_the_source_mean_has_distance_zero_and_one_deviation_has_one():
    mean, std = torch.randn(6), torch.rand(6) + 0.5
    x = mean.repeat(1, 2, 1)
    x[0, 1, 3] += std[3]
    assert torch.allclose(source_distance(x, mean, std), torch.tensor([[0.0, 1.0]]), atol=1e-6)


def test_class_distance_is_zero_along_the_query_and_two_against_it():
    query = torch.randn(8)
    keys = torch.stack([3 * query, -query])[None]
    assert torch.allclose(class_distance(query, keys), torch.tensor([[0.0, 2.0]]), atol=1e-6)


def test_survivors_are_the_nearest_in_their_original_order():
    scores = torch.tensor([[5.0, 1, 4, 2, 3]])
    assert survivors(scores, 2).tolist() == [[1, 3, 4]]
    assert survivors(scores, 0).tolist() == [[0, 1, 2, 3, 4]]


def test_survivors_of_a_larger_purge_are_survivors_of_a_smaller_one():
    scores = torch.randn(3, 20)
    larger, smaller = survivors(scores, 12), survivors(scores, 5)
    assert all(set(a) <= set(b) for a, b in zip(larger.tolist(), smaller.tolist(), strict=True))


@pytest.mark.parametrize("size", [-1, 5, 99])
def test_a_purge_that_leaves_no_token_is_refused(size: int):
    with pytest.raises(ValueError, match=r"purge sizes must lie in \[0, 5\)"):
        survivors(torch.randn(1, 5), size)


def test_entropy_of_equal_logits_is_the_logarithm_of_their_number():
    assert entropy(torch.zeros(2, 3, 8)).numpy() == pytest.approx(math.log(8))
    assert entropy(torch.tensor([1000.0, 0, 0])) == 0


def test_the_most_certain_answer_is_the_first_on_ties():
    certain, unsure = torch.tensor([9.0, 0]), torch.tensor([1.0, 0])
    assert most_certain(torch.stack([unsure, certain, certain])[None]).tolist() == [1]


def test_statistics_in_one_batch_or_many_agree():
    model, points = small_model(), clouds(12)
    whole = pg.SourceStatistics.collect(model, [points])
    parts = pg.SourceStatistics.collect(model, points.split(5))
    assert torch.allclose(whole.mean, parts.mean, atol=1e-6)
    assert torch.allclose(whole.std, parts.std, atol=1e-6)
    assert whole.count == parts.count == 12 * 16


def test_statistics_are_those_of_all_tokens_at_once():
    model, points = small_model(), clouds(6)
    statistics = pg.SourceStatistics.collect(model, ((part, None) for part in points.split(2)))
    with torch.no_grad():
        x = standardise(model.tokenize(points).placed()).flatten(0, 1).double()
    assert torch.allclose(statistics.mean.double(), x.mean(dim=0), atol=1e-6)
    assert torch.allclose(statistics.std.double(), x.std(dim=0), atol=1e-6)


def test_running_moments_do_not_lose_digits_far_from_zero():
    rows = 1e6 + torch.randn(1000, 3, generator=torch.Generator().manual_seed(0)).double()
    moments = RunningMoments()
    for part in rows.split(7):
        moments.add(part)
    assert torch.allclose(moments.squares / 999, rows.var(dim=0), rtol=1e-9)


def test_statistics_leave_the_model_as_it_was():
    model = small_model().train()
    before = state_of(model)
    pg.SourceStatistics.collect(model, [clouds(4)])
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_statistics_survive_a_file(tmp_path):
    model = small_model()
    statistics = pg.SourceStatistics.collect(model, [clouds(4)])
    statistics.save(tmp_path / "source.safetensors")
    loaded = pg.SourceStatistics.load(tmp_path / "source.safetensors")
    assert torch.equal(loaded.mean, statistics.mean)
    assert torch.equal(loaded.std, statistics.std)
    assert (loaded.count, loaded.fingerprint) == (statistics.count, statistics.fingerprint)


def test_statistics_of_another_model_are_refused():
    statistics = pg.SourceStatistics.collect(small_model(seed=1), [clouds(4)])
    with pytest.raises(ValueError, match="belong to the model"):
        pg.PurgeGate(small_model(seed=2), pg.SourceDistance(statistics))


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        (torch.zeros(3), torch.ones(4), "one width"),
        (torch.zeros(3, 1), torch.ones(3, 1), "vectors"),
        (torch.zeros(3), torch.zeros(3), "std positive"),
        (torch.full((3,), torch.nan), torch.ones(3), "finite"),
    ],
)
def test_impossible_statistics_are_refused(mean: torch.Tensor, std: torch.Tensor, message: str):
    with pytest.raises(ValueError, match=message):
        pg.SourceStatistics(mean, std)


def test_no_batches_are_refused():
    with pytest.raises(ValueError, match="at least two tokens"):
        pg.SourceStatistics.collect(small_model(), [])


def test_a_file_without_statistics_is_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="holds no source statistics"):
        pg.SourceStatistics.load(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.safetensors"):
        pg.SourceStatistics.load(tmp_path / "missing.safetensors")


def test_published_statistics_are_of_tokens_standardised_as_ours(shared):
    published = np.load(shared / "golden" / "released" / "source_statistics.npz")
    for name in ("modelnet", "scanobject", "shapenetcore"):
        mean, std = published[f"{name}_mean"], published[f"{name}_std"]
        assert np.allclose(mean.mean(axis=1), 0, atol=1e-6)
        assert np.allclose((mean**2 + std**2).sum(axis=1), 383, atol=0.02)
    model = small_model()
    ours = pg.SourceStatistics.collect(model, [clouds(8)])
    assert ours.mean.mean().item() == pytest.approx(0, abs=1e-6)
    assert (ours.mean**2 + ours.std**2).sum().item() == pytest.approx(47, abs=0.5)
