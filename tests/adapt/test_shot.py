import numpy as np
import pytest
import torch

from purgegate.adapt.shot import Shot, cluster_labels, mean_entropy
from purgegate.adapt.source import Source
from tests.adapt.golden import follow
from tests.models import clouds, small_model, state_of

RELEASED = {"diversity_only": True, "lr": 5e-3, "weight_decay": 0.5}


@pytest.mark.parametrize(
    ("prefix", "options"), [("", {}), ("baselineshot_", {"repeats": {"encoder": 6, "class_head": 4}})]
)
def test_golden_shot(baselines, golden_model, golden_batches, prefix: str, options: dict):
    golden = np.load(baselines / "shot.npz")
    follow(Shot(golden_model, **RELEASED, **options), golden_batches, golden, prefix=prefix)


def plain_labels(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The paper's two rounds, written out."""
    present = np.unique(weights.argmax(axis=1))
    for _ in range(2):
        centroids = {
            c: (weights[:, c, None] * features).sum(axis=0) / weights[:, c].sum()
            for c in present
            if weights[:, c].sum() > 0
        }
        labels = np.array(
            [max(centroids, key=lambda c: f @ centroids[c] / np.linalg.norm(centroids[c])) for f in features]
        )
        weights = np.eye(weights.shape[1])[labels]
    return labels


@pytest.mark.parametrize("seed", range(5))
def test_pseudo_labels_are_those_of_the_plain_algorithm(seed: int):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(30, 6))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    weights = generator.dirichlet(np.full(9, 0.3), size=30)
    weights[:, 4] *= 1e-3  # a class that nothing is predicted as
    found = cluster_labels(torch.from_numpy(features), torch.from_numpy(weights))
    assert np.array_equal(found, plain_labels(features, weights))


def test_the_mean_entropy_is_greatest_for_answers_that_differ():
    same, different = torch.eye(4)[[0, 0, 0, 0]] * 50, torch.eye(4) * 50
    assert mean_entropy(different) == pytest.approx(np.log(4), rel=1e-5)
    assert mean_entropy(same) == pytest.approx(0, abs=1e-5)
    sure = torch.tensor([[1e4, 0.0]] * 2, requires_grad=True)
    mean_entropy(sure).backward()
    assert torch.isfinite(sure.grad).all()


def test_the_first_answer_comes_before_the_step():
    model, points = small_model(), clouds(6)
    assert torch.allclose(Shot(model)(points), Source(model, norm="batch")(points), atol=1e-4)


def test_the_last_layer_alone_stays():
    shot = Shot(small_model(), lr=1e-2)
    before = state_of(shot.model)
    shot(clouds(6))
    kept = {key for key, value in shot.model.state_dict().items() if torch.equal(value, before[key])}
    parameters = {name for name, _ in shot.model.named_parameters()}
    assert kept & parameters == {"class_head.8.weight", "class_head.8.bias"}


def test_answers_grow_certain_and_stay_diverse_on_a_batch_seen_again():
    shot, points = Shot(small_model(), lr=1e-3), clouds(16)
    first = shot(points)
    for _ in range(8):
        last = shot(points)
    certainty = [x.softmax(dim=1).amax(dim=1).mean() for x in (first, last)]
    assert certainty[0] < certainty[1]
    assert mean_entropy(last) > mean_entropy(first) - 0.1


def test_diversity_alone_drives_answers_apart():
    shot, points = Shot(small_model(), **RELEASED), clouds(8)
    first = shot(points)
    for _ in range(5):
        last = shot(points)
    assert mean_entropy(last) > mean_entropy(first)


def test_the_bank_remembers_so_many_features_and_no_more():
    shot = Shot(small_model(), bank=10)
    for seed in range(3):
        shot(clouds(4, seed=seed))
    assert len(shot.features) == len(shot.weights) == 10
    without = Shot(small_model(), bank=0)
    without(clouds(4))
    assert len(without.features) == 0


def test_an_impossible_bank_is_refused():
    with pytest.raises(ValueError, match="bank must be at least 0"):
        Shot(small_model(), bank=-1)
