import math

import pytest
import torch
from torch import nn

from purgegate.adapt.sar import Sar, late_norms
from purgegate.adapt.source import Source
from purgegate.gate.purge import entropy
from purgegate.norms import statistics_from
from tests.models import WithoutBatchNorm, clouds, small_mamba, small_model, state_of

SURE = {"margin": 2.0}  # every cloud teaches: ln C is the greatest entropy


def by_hand(model, points, *, margin: float, rho: float, rate: float) -> dict[str, torch.Tensor]:
    """The weights after one batch, as the paper writes them: two gradients, one step."""
    model.eval().requires_grad_(False)
    names = [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, (nn.BatchNorm1d, nn.LayerNorm))
        and not name.startswith(("blocks.blocks.2", "norm"))
    ]
    weights = {
        f"{name}.{part}": getattr(model.get_submodule(name), part).requires_grad_()
        for name in names
        for part in ("weight", "bias")
    }

    def gradients(chosen):
        with statistics_from(model, "batch"):
            own = entropy(model(points))
        kept = chosen & (own < margin * math.log(5))
        grads = torch.autograd.grad(own[kept].mean(), list(weights.values()))
        return dict(zip(weights, grads, strict=True)), kept

    first, kept = gradients(torch.ones(len(points), dtype=torch.bool))
    length = math.sqrt(sum(float(grad.square().sum()) for grad in first.values()))
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    for name, weight in weights.items():
        weight.data += rho * first[name] / (length + 1e-12)
    second, _ = gradients(kept)
    return {name: before[name] - rate * second[name] for name in weights}


def test_one_batch_by_hand():
    points = clouds(8)
    own = entropy(Source(small_model(), norm="batch")(points)).sort().values
    margin = float(own[4:6].mean()) / math.log(5)  # five of the eight are certain enough
    sar = Sar(small_model(), margin=margin, rho=0.3, lr=2.0, collapse=0.0)
    sar(points)
    wanted = by_hand(small_model(), points, margin=margin, rho=0.3, rate=2.0 * 8 / 64)
    found, before = sar.model.state_dict(), small_model().state_dict()
    for name, value in wanted.items():
        assert torch.allclose(found[name], value, atol=1e-5), name
    assert any(not torch.allclose(found[name], before[name], atol=1e-4) for name in wanted)
    assert all(torch.equal(found[name], before[name]) for name in before.keys() - wanted.keys())


@pytest.mark.parametrize("margin", [0.0, 1e-6])
def test_where_no_cloud_is_certain_nothing_changes(margin: float):
    model = small_model()
    sar, control = Sar(model, margin=margin, lr=1.0), Source(model, norm="batch")
    before = state_of(sar.model)
    for seed in range(2):
        assert torch.allclose(sar(clouds(4, seed=seed)), control(clouds(4, seed=seed)), atol=1e-5)
    assert all(torch.equal(value, before[key]) for key, value in sar.model.state_dict().items())


def test_without_climbing_it_is_plain_descent():
    points, far, near = clouds(6), Sar(small_model(), rho=0.05, **SURE), Sar(small_model(), rho=0.0, **SURE)
    wanted = by_hand(small_model(), points, margin=2.0, rho=0.0, rate=1e-3 * 6 / 64)
    far(points), near(points)
    found = near.model.state_dict()
    assert all(torch.allclose(found[name], value, atol=1e-7) for name, value in wanted.items())
    assert not torch.equal(far(points), near(points))


def test_answers_come_before_the_step_and_the_step_changes_the_next():
    model, points = small_model(), clouds(6)
    sar, control = Sar(model, lr=1.0, **SURE), Source(model, norm="batch")(points)
    assert torch.allclose(sar(points), control, atol=1e-4)
    assert not torch.allclose(sar(points), control, atol=1e-3)


def test_too_certain_a_model_returns_to_the_source():
    sar, points = Sar(small_model(), lr=1.0, collapse=10.0, **SURE), clouds(6)
    before = state_of(sar.model)
    first = sar(points)
    assert sar.mean is None
    assert all(torch.equal(value, before[key]) for key, value in sar.model.state_dict().items())
    assert torch.equal(sar(points), first)


def test_the_running_mean_starts_with_the_first_entropy():
    sar, points = Sar(small_model(), lr=0.0, rho=0.0, collapse=0.0, **SURE), clouds(6)
    wanted = float(entropy(sar(points)).mean())
    assert sar.mean == pytest.approx(wanted, rel=1e-5)
    other = clouds(6, seed=1)
    wanted = 0.9 * wanted + 0.1 * float(entropy(sar(other)).mean())
    assert sar.mean == pytest.approx(wanted, rel=1e-5)


def test_the_last_quarter_of_the_blocks_and_the_final_norm_rest():
    for model, last in ((small_model(), "blocks.blocks.2"), (small_mamba(), "blocks.layers.2")):
        names = {id(layer): name for name, layer in model.named_modules()}
        late = {names[id(layer)] for layer in late_norms(model)}
        final = {"norm"} if last == "blocks.blocks.2" else {"blocks.norm_f"}
        assert late == final | {name for name in names.values() if name.startswith(last) and "norm" in name}


def test_what_it_cannot_take_is_refused():
    with pytest.raises(ValueError, match="sar needs a torch module with BatchNorm or LayerNorm or GroupNorm"):
        Sar(WithoutBatchNorm(3, 4))
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        Sar(small_model(), steps=0)
