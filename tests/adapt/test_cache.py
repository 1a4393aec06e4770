import math

import pytest
import torch
import torch.nn.functional as F

from purgegate.adapt.cache import Cache, PrototypeCache, fuse, joined, smooth
from purgegate.adapt.source import Source
from purgegate.gate.purge import entropy
from tests.models import WithoutBatchNorm, clouds, small_model

ROOM = {"size": 2, "memory": 0.5}


def empty(width: int) -> Cache:
    return Cache(torch.empty(0, width), torch.empty(0, dtype=torch.long), torch.empty(0))


def test_a_cloud_alone_keeps_its_class():
    model = small_model()
    for seed in range(4):
        points = clouds(1, seed=seed)
        found = PrototypeCache(model)(points)
        assert torch.equal(found.argmax(dim=1), Source(model)(points).argmax(dim=1))


def test_one_batch_by_hand():
    model, points = small_model(), clouds(5)
    found = PrototypeCache(model, smoothing=0.0)(points)
    with torch.no_grad():
        z = model.eval().class_head[:-1](model.encode(model.tokenize(points)))
        own = model.class_head[-1](z)
    rows = model.class_head[-1].weight.norm(dim=1).mean()
    label = own.argmax(dim=1).tolist()
    votes = torch.zeros(5, 5)
    for i in range(5):
        for c in range(5):
            members = [j for j in range(5) if label[j] == c]
            cosines = [float(F.cosine_similarity(z[i], z[j], dim=0)) for j in members]
            votes[i, c] = sum(cosines) / len(cosines) if cosines else 0.0
    votes = votes * z.norm(dim=1)[:, None] * rows
    h, g = entropy(own)[:, None], entropy(votes)[:, None]
    assert torch.allclose(found, (g * own + h * votes) / (g + h), atol=1e-4)
    assert not torch.allclose(found, own, atol=1e-2)


def test_a_class_with_room_takes_new_centres_and_a_full_one_moves_the_nearest():
    label, cache = torch.tensor(1), empty(2)
    first, second, third = torch.eye(2)[0], torch.eye(2)[1], torch.tensor([0.6, 0.8])
    for direction in (first, second):
        cache = joined(cache, direction, label, torch.tensor(0.4), **ROOM)
    assert torch.equal(cache.centers, torch.eye(2))
    moved = joined(cache, third, label, torch.tensor(0.3), **ROOM)
    wanted = (0.3 * third + 0.5 * 0.4 * second) / (0.3 + 0.5 * 0.4)
    assert torch.equal(moved.centers[0], first)
    assert torch.allclose(moved.centers[1], wanted / wanted.norm())
    assert torch.allclose(moved.weight, torch.tensor([0.4, 0.5]))
    assert len(joined(moved, third, torch.tensor(0), torch.tensor(0.3), **ROOM).label) == 3


def test_a_certain_cloud_moves_a_centre_more():
    cache = joined(empty(2), torch.eye(2)[0], torch.tensor(0), torch.tensor(0.1), size=1, memory=1.0)
    weights = (0.01, 0.1, 1.0)
    moved = [
        joined(cache, torch.eye(2)[1], torch.tensor(0), torch.tensor(w), size=1, memory=1.0) for w in weights
    ]
    angles = [math.atan2(*reversed(each.centers[0].tolist())) for each in moved]
    assert angles == sorted(angles)
    assert angles[1] == pytest.approx(math.pi / 4)


def test_labels_without_likeness_stay_and_those_of_like_centres_mix():
    label = torch.eye(3)[[0, 0, 1, 2]]
    assert torch.equal(smooth(label, torch.zeros(4, 4), by=0.3), label)
    alike = torch.zeros(4, 4)
    alike[1, 2] = alike[2, 1] = 0.9
    mixed = smooth(label, alike, by=0.3)
    assert torch.equal(mixed[[0, 3]], label[[0, 3]])
    # Two centres alone: (1 + 0.3) a − 0.3 b = 1 and (1 + 0.3) b − 0.3 a = 0.
    assert mixed[1].tolist() == pytest.approx([1.3 / 1.6, 0.3 / 1.6, 0.0], abs=1e-6)


def test_the_more_certain_answer_counts_more():
    sure, unsure = torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.2, 0.0]])
    found = fuse(sure, unsure)
    assert torch.allclose(found, fuse(unsure, sure))
    assert torch.allclose(found, sure, atol=0.1)


def test_the_cache_never_outgrows_its_room():
    adapter = PrototypeCache(small_model(), size=2)
    for seed in range(6):
        adapter(clouds(8, seed=seed))
    assert adapter.cache.label.bincount().max() == 2
    assert torch.allclose(adapter.cache.centers.norm(dim=1), torch.ones(len(adapter.cache.label)), atol=1e-5)


def test_what_it_cannot_take_is_refused():
    with pytest.raises(
        ValueError, match="cache needs the last layer of the head: give WithoutBatchNorm a method"
    ):
        PrototypeCache(WithoutBatchNorm(3, 4))
    with pytest.raises(ValueError, match="size must be at least 1, the centres of a class; got 0"):
        PrototypeCache(small_model(), size=0)
    with pytest.raises(ValueError, match="memory in"):
        PrototypeCache(small_model(), memory=2.0)
