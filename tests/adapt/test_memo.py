import math

import pytest
import torch

from purgegate.adapt.memo import Memo
from purgegate.adapt.source import Source
from tests.models import WithoutBatchNorm, clouds, small_model, state_of


def with_statistics_of(model, copies, *, share: float):
    """The answers of copies by a model whose running statistics first move towards theirs by a share."""

    def move(layer, inputs):
        var, mean = torch.var_mean(inputs[0].detach(), dim=0, correction=0)
        layer.running_mean = (1 - share) * layer.running_mean + share * mean
        layer.running_var = (1 - share) * layer.running_var + share * var

    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
    handles = [layer.register_forward_pre_hook(move) for layer in layers]
    logits = model(copies)
    for handle in handles:
        handle.remove()
    return logits


def by_hand(model, point, copies, *, lr: float, decay: float) -> torch.Tensor:
    """One cloud as the paper writes it: a mean answer, one step of AdamW, the cloud's own answer."""
    model.eval()
    p = with_statistics_of(model, copies, share=1 / 17).softmax(dim=1).mean(dim=0)
    loss = -(p * p.log()).sum()
    parameters = [each for each in model.parameters() if each.requires_grad]
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter *= 1 - lr * decay
            parameter -= lr * gradient / (gradient.abs() + 1e-8)  # the first step of Adam
        return model(point)


def test_one_batch_by_hand():
    points, options = clouds(3), {"copies": 6, "lr": 1e-3, "weight_decay": 0.1}
    memo, twin = (Memo(small_model(), seed=2, **options) for _ in range(2))
    found = memo(points)
    for point, logits in zip(points, found, strict=True):
        wanted = by_hand(small_model(), point[None], twin.augment(point[None]), lr=1e-3, decay=0.1)
        assert torch.allclose(logits, wanted[0], atol=2e-3)
    assert not torch.allclose(found, Memo(small_model(), seed=2, **{**options, "lr": 0.0})(points), atol=1e-2)


def test_weights_return_after_every_cloud_and_no_cloud_knows_of_another():
    memo, points = Memo(small_model(), copies=4, lr=1e-2), clouds(3)
    before = state_of(memo.model)
    together = memo(points)
    assert all(torch.equal(value, before[key]) for key, value in memo.model.state_dict().items())
    memo.reset()
    assert torch.equal(torch.cat([memo(point[None]) for point in points]), together)


def test_without_a_step_and_with_the_source_s_statistics_it_is_the_source():
    model, points = small_model(), clouds(3)
    found = Memo(model, copies=4, lr=0.0, prior=1e12)(points)
    assert torch.allclose(found, Source(model)(points), atol=1e-4)
    leaning = Memo(model, copies=4, lr=0.0)(points)
    assert not torch.allclose(leaning, found, atol=1e-3)


def test_a_step_makes_the_mean_answer_more_certain():
    memo, (point,) = Memo(small_model(), copies=8, lr=1e-4, seed=1), clouds(1)
    copies = memo.augment(point[None])

    def uncertainty() -> float:
        p = memo.model(copies).softmax(dim=1).mean(dim=0)
        return float(-(p * p.log()).sum().detach())

    before = uncertainty()
    memo._learn(copies)
    assert uncertainty() < before


def test_the_first_copy_is_the_cloud_and_the_others_differ_in_one_way():
    memo, point = Memo(small_model(), copies=200), clouds(1)
    copies = memo.augment(point)
    assert torch.equal(copies[0], point[0])
    rest = copies[1:] - point
    moved = rest.std(dim=1).amax(dim=1) < 1e-6
    jittered = (rest.abs().amax(dim=(1, 2)) <= 0.0501) & ~moved
    turned = ((copies[1:].norm(dim=2) - point.norm(dim=2)).abs().amax(dim=1) < 1e-5) & ~moved & ~jittered
    assert (moved | jittered | turned).all()
    assert all(
        abs(float(each.float().mean()) - 1 / 3) < 4 * math.sqrt(2 / 9 / 199) for each in (moved, turned)
    )


def test_a_model_without_batch_norm_learns_too_and_one_without_weights_is_refused():
    model = WithoutBatchNorm(3, 4)
    assert not torch.equal(Memo(model, copies=4, lr=1e-2)(clouds(2)), Source(model)(clouds(2)))

    class Frozen:
        tokenize = encode = head = staticmethod(lambda x: x)

    with pytest.raises(ValueError, match="memo needs a torch module, whose weights learn; got Frozen"):
        Memo(Frozen())


def test_numbers_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="copies and steps must be at least 1; got 0 and 1"):
        Memo(small_model(), copies=0)
    with pytest.raises(ValueError, match="prior must be positive"):
        Memo(small_model(), prior=0.0)
