import math

import pytest
import torch

from purgegate.adapt.lame import Lame, affinities, agree
from purgegate.adapt.source import Source
from tests.models import WithoutBatchNorm, clouds, small_model


def features_of(model, points) -> torch.Tensor:
    """Features of unit length in front of the last layer."""
    with torch.no_grad():
        hidden = model.eval().class_head[:-1](model.encode(model.tokenize(points)))
    return hidden / hidden.norm(dim=1, keepdim=True)


def by_hand(model, points, *, k: int, steps: int) -> torch.Tensor:
    """The answers of a batch, number by number, as the paper writes them."""
    z = features_of(model, points).double()
    p = Source(model)(points).double().softmax(dim=1)
    n, classes = p.shape
    d = [[math.dist(z[i].tolist(), z[j].tolist()) for j in range(n)] for i in range(n)]
    sigma = sum(sorted(row)[k - 1] for row in d) / n
    w = [[math.exp(-(d[i][j] ** 2) / (2 * sigma**2)) for j in range(n)] for i in range(n)]
    y = [[float(p[i, c]) for c in range(classes)] for i in range(n)]
    for _ in range(steps):
        pull = [[sum(w[i][j] * y[j][c] for j in range(n)) for c in range(classes)] for i in range(n)]
        raw = [[(p[i, c] + 1e-10) * math.exp(pull[i][c]) for c in range(classes)] for i in range(n)]
        y = [[float(each / sum(row)) for each in row] for row in raw]
    return torch.tensor(y)


@pytest.mark.parametrize("steps", [1, 4])
def test_one_batch_by_hand(steps: int):
    model, points = small_model(), clouds(7)
    found = Lame(model, k=3, steps=steps)(points).softmax(dim=1)
    assert torch.allclose(found, by_hand(model, points, k=3, steps=steps), atol=1e-5)
    assert not torch.allclose(found, Source(model)(points).softmax(dim=1), atol=1e-3)


def test_without_weight_it_is_the_source():
    model, points = small_model(), clouds(6)
    found = Lame(model, weight=0.0)(points).softmax(dim=1)
    assert torch.allclose(found, Source(model)(points).softmax(dim=1), atol=1e-6)


def test_clouds_that_are_like_none_but_themselves_keep_their_classes():
    logits = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(agree(logits, torch.eye(20), steps=100).logits.argmax(1), logits.argmax(1))


def test_two_equal_clouds_outvote_a_third_like_them():
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 0.5]])
    found = agree(logits, torch.ones(3, 3), steps=100).logits
    assert found.argmax(dim=1).tolist() == [0, 0, 0]


def test_steps_end_where_nothing_moves():
    logits = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    once = agree(logits, torch.ones(8, 8), steps=100)
    assert 3 <= once.steps < 100
    again = agree(logits, torch.ones(8, 8), steps=100 + once.steps)
    assert torch.allclose(once.logits, again.logits, atol=1e-4)


def test_neighbours_leave_out_the_cloud_itself_even_among_equals():
    features = torch.eye(3)[[0, 0, 1, 2]]
    alike = affinities(features, "knn", k=1)
    assert alike.diagonal().sum() == 0
    assert alike.sum(dim=1).tolist() == [1.0] * 4
    assert alike[0, 1] == alike[1, 0] == 1
    assert affinities(features[:1], "knn", k=3).tolist() == [[0.0]]


def test_equal_clouds_are_wholly_alike():
    assert torch.equal(affinities(torch.ones(3, 1), "rbf", k=5), torch.ones(3, 3))


def test_the_order_of_a_batch_does_not_matter():
    model, points, order = small_model(), clouds(6), torch.tensor([3, 1, 5, 0, 4, 2])
    for affinity in ("rbf", "knn", "linear"):
        lame = Lame(model, affinity=affinity)
        assert torch.allclose(lame(points)[order], lame(points[order]), atol=1e-4)


def test_symmetric_neighbours_are_the_mean_of_both_ways():
    model, points = small_model(), clouds(6)
    plain, both = (Lame(model, affinity="knn", k=1, symmetric=each)(points) for each in (False, True))
    assert not torch.allclose(plain, both)


def test_what_it_cannot_take_is_refused():
    with pytest.raises(ValueError, match="affinity must be one of rbf, knn, linear; got 'cosine'"):
        Lame(small_model(), affinity="cosine")
    with pytest.raises(ValueError, match="k must be at least 1; got 0"):
        Lame(small_model(), k=0)
    with pytest.raises(
        ValueError, match="lame needs the last layer of the head: give WithoutBatchNorm a method"
    ):
        Lame(WithoutBatchNorm(3, 4))
