import pytest
import torch

import purgegate as pg
from purgegate.adapt import foa
from purgegate.adapt.evolution import EvolutionStrategy
from purgegate.adapt.features import FeatureStatistics
from purgegate.adapt.foa import Foa, FoaShift
from purgegate.adapt.source import Source
from purgegate.gate.purge import entropy
from tests.models import WithoutBatchNorm, clouds, small_mamba, small_model

SOURCE = clouds(12, seed=9), torch.arange(12) % 5


def through(model, points, prompt=None):
    """Feature and normalised class tokens of a batch, block by block, prompts behind the class token."""
    tokens = model.eval().tokenize(points)
    prompt = torch.empty(0, model.width) if prompt is None else prompt
    new = prompt.expand(len(points), -1, -1)
    own = model.cls_token.expand(len(points), -1, -1)
    x = torch.cat([own, new, tokens.features], dim=1)
    place = torch.cat(
        [model.cls_pos.expand(len(points), -1, -1), torch.zeros_like(new), tokens.positions], dim=1
    )
    seen, blocks = [], list(model.blocks.blocks)
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        x = block(x + place)
        seen.append(following.norm1(x + place)[:, 0] if following else model.norm(x)[:, 0])
    x = model.norm(x)
    return torch.cat([x[:, 0], x[:, 1 + len(prompt) :].amax(dim=1)], dim=1), torch.cat(seen, dim=1)


@torch.no_grad()
def test_the_source_s_statistics_are_those_of_each_block():
    model = small_model()
    found = FeatureStatistics.collect(model, SOURCE[0], batch=5)
    feature, tokens = through(model, SOURCE[0])
    assert torch.allclose(found.feature, feature.mean(dim=0), atol=1e-5)
    assert torch.allclose(found.mean, tokens.mean(dim=0), atol=1e-5)
    assert torch.allclose(found.std, tokens.std(dim=0), atol=1e-5)
    assert found.count == 12


@torch.no_grad()
def test_two_batches_by_hand():
    model, population, prompts = small_model(), 6, 2
    adapter = Foa(model, source=SOURCE, population=population, prompts=prompts, seed=4)
    generator = torch.Generator().manual_seed(4)
    size, history = prompts * model.width, None
    best = (6 / (768 + model.width)) ** 0.5 * (
        2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1
    )
    strategy = EvolutionStrategy(size, population=population)
    feature_of_source, tokens_of_source = through(model, SOURCE[0])
    for seed in range(2):
        points = clouds(5, seed=seed)
        shift = 0.0 if history is None else feature_of_source.mean(dim=0) - history
        candidates = torch.cat([strategy.ask(generator), best[None]])
        values, answers, means = [], [], []
        for candidate in candidates:
            feature, tokens = through(model, points, candidate.float().view(prompts, -1))
            apart = (tokens.mean(dim=0) - tokens_of_source.mean(dim=0)).square().sum()
            apart += (tokens.std(dim=0) - tokens_of_source.std(dim=0)).square().sum()
            values.append(entropy(model.head(feature)).sum() + 0.4 * 5 / 64 * apart)
            answers.append(model.head(feature + shift))
            means.append(feature.mean(dim=0))
        values = torch.stack(values)
        strategy.tell(candidates, values)
        best = candidates[values.argmin()]
        mean = torch.stack(means).mean(dim=0)
        history = mean if history is None else 0.9 * history + 0.1 * mean
        assert torch.allclose(adapter(points), answers[values.argmin()], atol=1e-4), f"batch {seed}"
    assert torch.allclose(adapter.history, history, atol=1e-5)


@torch.no_grad()
def test_the_shift_by_hand():
    model, points = small_model(), [clouds(5, seed=seed) for seed in range(3)]
    adapter = FoaShift(model, source=SOURCE)
    features = [through(model, each)[0] for each in points]
    wanted = through(model, SOURCE[0])[0].mean(dim=0)
    assert torch.allclose(adapter(points[0]), model.head(features[0]), atol=1e-5)
    history = features[0].mean(dim=0)
    assert torch.allclose(adapter(points[1]), model.head(features[1] + wanted - history), atol=1e-4)
    history = 0.9 * history + 0.1 * features[1].mean(dim=0)
    assert torch.allclose(adapter(points[2]), model.head(features[2] + wanted - history), atol=1e-4)


def test_a_stream_that_is_the_source_is_not_shifted():
    model = small_model()
    adapter, source = FoaShift(model, source=SOURCE), Source(model)
    for _ in range(3):
        assert torch.allclose(adapter(SOURCE[0]), source(SOURCE[0]), atol=1e-4)


def test_without_strength_nothing_is_shifted_and_batch_statistics_undo_a_shift():
    model, points = small_model(), clouds(6)
    for options in ({"strength": 0.0}, {"norm": "batch"}):
        adapter = FoaShift(model, source=SOURCE, **options)
        plain = Source(model, norm=options.get("norm", "source"))
        for _ in range(2):
            assert torch.allclose(adapter(points), plain(points), atol=1e-4)


def test_prompts_make_answers_more_certain_on_a_batch_seen_again():
    adapter, points = Foa(small_model(), source=SOURCE, population=8, weight=0.0, strength=0.0), clouds(6)
    values = [float(entropy(adapter(points)).sum()) for _ in range(12)]
    assert values == sorted(values, reverse=True)  # the best of before is always among the candidates
    assert values[-1] < values[0]


def test_one_pass_serves_all_adapters_of_a_model_and_source(monkeypatch):
    monkeypatch.setattr(foa, "_collected", {})
    first = FoaShift(small_model(), source=SOURCE).statistics_of_source
    monkeypatch.setattr(FeatureStatistics, "collect", lambda *a, **k: pytest.fail("collected again"))
    assert FoaShift(small_model(), source=SOURCE).statistics_of_source is first


def test_what_stands_for_a_source_elsewhere_is_the_same_method_of_the_same_row():
    here = Foa(small_model(), source=SOURCE, population=4)
    there = Foa(small_model(), source=here.known_source(), population=4)
    assert there.options == here.options
    for seed in range(2):
        assert torch.equal(there(clouds(4, seed=seed)), here(clouds(4, seed=seed)))


def test_few_samples_are_spread_over_the_source(monkeypatch):
    monkeypatch.setattr(foa, "_collected", {})
    few = FoaShift(small_model(), source=SOURCE, samples=4).statistics_of_source
    wanted = FeatureStatistics.collect(small_model(), SOURCE[0][[0, 3, 6, 9]])
    assert all(torch.equal(getattr(few, name), getattr(wanted, name)) for name in ("feature", "mean", "std"))
    assert few.count == 4


def test_statistics_survive_a_file_and_serve_as_a_source(tmp_path):
    model, path = small_model(), tmp_path / "features.safetensors"
    made = FeatureStatistics.collect(model, SOURCE[0])
    made.save(path)
    found = FeatureStatistics.load(path)
    assert found.described() == made.described()
    by_file, by_clouds = (Foa(model, source=each, population=4) for each in (found, SOURCE))
    for seed in range(2):
        assert torch.allclose(by_file(clouds(4, seed=seed)), by_clouds(clouds(4, seed=seed)), atol=1e-5)
    assert by_file.options["source"] == made.described()
    with pytest.raises(ValueError, match="these feature statistics belong to the model"):
        FoaShift(small_model(seed=1), source=found)
    path.write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"holds no feature statistics: make it with FeatureStatistics.save"):
        FeatureStatistics.load(path)


def test_models_without_a_class_token_are_shifted_but_not_prompted():
    for model in (small_mamba(), WithoutBatchNorm(3, 5)):
        adapter = FoaShift(model, source=SOURCE)
        adapter(clouds(4))
        assert not torch.allclose(adapter(clouds(4)), Source(model)(clouds(4)), atol=1e-4)
        with pytest.raises(ValueError, match=r"foa needs a class token .*: use foa_shift"):
            Foa(model, source=SOURCE)


def test_the_population_is_the_usual_one_and_told_in_rows():
    model = small_model()
    assert (
        pg.create_adapter("foa", model, source=SOURCE).options["population"] == 4 + 14
    )  # 3 ln(3 · 48) = 14.9


def test_numbers_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="samples must be at least 2"):
        FoaShift(small_model(), source=SOURCE, samples=1)
    with pytest.raises(ValueError, match="prompts must be at least 1 and population 4; got 0 and None"):
        Foa(small_model(), source=SOURCE, prompts=0)
    with pytest.raises(ValueError, match="statistics need at least two source clouds; got 1"):
        FeatureStatistics.collect(small_model(), SOURCE[0][:1])
