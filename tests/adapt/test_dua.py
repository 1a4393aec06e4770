import numpy as np
import pytest
import torch

from purgegate.adapt.dua import Dua
from purgegate.adapt.source import Source
from purgegate.adapt.views import jitter, random_angles
from purgegate.points.sampling import resample
from purgegate.points.transforms import turn_by
from tests.adapt.golden import follow
from tests.models import WithoutBatchNorm, clouds, small_model, state_of, without_rates

RELEASED = {"whole_batch": True, "augment": False, "decay": 1.0, "floor": 0.0, "samples": None}
FEW = {"copies": 4}


@pytest.mark.parametrize("steps", [0, 1])
def test_golden_dua(baselines, golden_model, steps: int):
    golden = np.load(baselines / "dua.npz")
    batches = [resample(torch.from_numpy(points), 1024) for points in golden["clouds"]]
    adapter = Dua(golden_model, copies=12, steps=steps, **RELEASED)
    follow(adapter, batches, golden, prefix=f"steps{steps}_", atol=2e-4)


@pytest.mark.parametrize("dropout", [False, True])
def test_nothing_but_running_statistics_moves(dropout: bool):
    dua = Dua(small_model(), dropout=dropout, **FEW)
    before = state_of(dua.model)
    dua(clouds(1))
    changed = {key for key, value in dua.model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == {key for key in before if "running_" in key or "tracked" in key}
    assert len(changed) == 12


def test_a_batch_is_its_clouds_one_after_the_other():
    points = clouds(3)
    together, apart = Dua(small_model(), **FEW), Dua(small_model(), **FEW)
    assert torch.allclose(together(points), torch.cat([apart(point[None]) for point in points]), atol=1e-5)


def test_the_momentum_shrinks_towards_its_floor():
    dua = Dua(small_model(), **FEW)
    dua(clouds(3))
    assert dua.pace == pytest.approx(0.1 * 0.94**3)
    assert [layer.momentum for layer in dua.model.modules() if hasattr(layer, "momentum")] == [0.1] * 4


def test_after_so_many_samples_the_statistics_rest():
    dua = Dua(small_model(), samples=2, **FEW)
    first = dua(clouds(3))
    kept = state_of(dua.model)
    assert torch.allclose(dua(clouds(3))[2], first[2], atol=1e-5)
    assert all(torch.equal(value, kept[key]) for key, value in dua.model.state_dict().items())


def test_dropout_as_released_is_drawn_from_the_seed():
    points, options = clouds(3), {"augment": False, **FEW}
    first, again, other = (Dua(small_model(), dropout=True, seed=s, **options)(points) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, Dua(small_model(), seed=1, **options)(points))


def test_dropout_of_rate_0_changes_nothing():
    model, points = without_rates(small_model()), clouds(3)
    assert torch.equal(Dua(model, dropout=True, **FEW)(points), Dua(model, **FEW)(points))


def test_no_steps_are_the_source_model():
    model, points = small_model(), clouds(2)
    assert torch.allclose(Dua(model, steps=0)(points), Source(model)(points), atol=1e-5)


def test_the_copies_have_no_more_points_than_the_model_takes():
    dua, seen = Dua(small_model(), **FEW), []
    dua.model.points = 100
    dua.logits = lambda points: seen.append(points) or torch.zeros(len(points), 5)
    dua(clouds(1, 120)), dua(clouds(1, 80))
    assert [tuple(points.shape) for points in seen] == [(4, 100, 3), (1, 120, 3), (4, 80, 3), (1, 80, 3)]
    assert not torch.allclose(seen[0][0], seen[0][1], atol=0.1)


def test_the_copies_of_a_cloud_differ_in_turn_and_jitter():
    generator, points = torch.Generator().manual_seed(0), clouds(1, 64).repeat(3, 1, 1)
    turned = turn_by(points, random_angles(3, generator=generator), axis=2)
    assert torch.equal(turned[..., 2], points[..., 2])
    assert torch.allclose(turned.norm(dim=-1), points.norm(dim=-1), atol=1e-6)
    assert not torch.allclose(turned[0], turned[1])
    moved = (jitter(points, generator=generator) - points).abs()
    assert 0.005 < moved.mean() < 0.01
    assert moved.max() <= 0.05 + 1e-6


def test_what_dua_cannot_work_with_is_refused():
    with pytest.raises(ValueError, match="copies must be at least 2"):
        Dua(small_model(), copies=1)
    with pytest.raises(ValueError, match="dua needs a torch module with BatchNorm layers that keep running"):
        Dua(WithoutBatchNorm(3, 4))
