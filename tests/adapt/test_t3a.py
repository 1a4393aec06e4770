import numpy as np
import pytest
import torch
import torch.nn.functional as F

from purgegate.adapt.t3a import T3A
from tests.adapt.golden import TOLERANCE
from tests.models import WithoutBatchNorm, clouds, small_model


@pytest.mark.parametrize(
    ("prefix", "options"),
    [
        ("train_k-1_", {"filter_k": None, "released": True, "norm": "batch"}),
        ("eval_k-1_", {"filter_k": None, "released": True}),
        ("eval_k3_", {"filter_k": 3, "released": True}),
        ("eval_k3_", {"filter_k": 3}),
    ],
)
def test_golden_t3a(baselines, golden_model, golden_batches, prefix: str, options: dict):
    golden, adapter = np.load(baselines / "t3a.npz"), T3A(golden_model, **options)
    for step, points in enumerate(golden_batches):
        found = adapter(points)
        assert np.array_equal(adapter.templates.supports.label, golden[f"{prefix}support_labels_{step}"])
        assert np.allclose(
            adapter.templates.supports.entropy, golden[f"{prefix}support_entropy_{step}"], **TOLERANCE
        )
        assert np.allclose(found, golden[f"{prefix}logits_{step}"], **TOLERANCE)
    assert np.allclose(adapter.templates.supports.features, golden[f"{prefix}supports_2"], **TOLERANCE)


@pytest.mark.parametrize("everything", [None, "all"])
def test_none_or_all_keeps_every_support(everything):
    adapter = T3A(small_model(classes=5), filter_k=everything)
    for seed in range(3):
        adapter(clouds(4, seed=seed))
    assert len(adapter.templates.supports.label) == 5 + 12


def test_released_all_drops_the_worst_of_each_class_at_every_batch():
    kept, released = (T3A(small_model(classes=5), filter_k=None, released=x) for x in (False, True))
    kept(clouds(8)), released(clouds(8))
    classes = kept.templates.supports.label.unique()
    for label in classes:
        all_of_it = kept.templates.supports.entropy[kept.templates.supports.label == label]
        left = released.templates.supports.entropy[released.templates.supports.label == label]
        assert torch.equal(left, all_of_it.sort().values[:-1])


def test_the_most_certain_supports_of_each_class_are_kept():
    adapter, everything = T3A(small_model(), filter_k=2), T3A(small_model(), filter_k=None)
    adapter(clouds(32)), everything(clouds(32))
    for label in range(5):
        wanted = (
            everything.templates.supports.entropy[everything.templates.supports.label == label]
            .sort()
            .values[:2]
        )
        assert torch.equal(
            adapter.templates.supports.entropy[adapter.templates.supports.label == label], wanted
        )


def test_a_class_without_supports_keeps_its_row_of_the_last_layer():
    adapter = T3A(small_model())
    others = adapter.templates.supports.label != 2
    adapter.templates.supports = type(adapter.templates.supports)(
        *(x[others] for x in adapter.templates.supports)
    )
    assert torch.equal(adapter.templates._directions()[2], F.normalize(adapter.templates.rows)[2])
    adapter.templates.released = True
    assert not adapter.templates._directions()[2].any()


def test_without_test_features_the_answer_is_the_cosine_with_the_last_layer():
    model, points = small_model(), clouds(3)
    adapter = T3A(model, filter_k=1)
    adapter.templates.supports = type(adapter.templates.supports)(
        adapter.templates.rows, torch.arange(5), torch.full((5,), -1.0)
    )  # more certain than any cloud can be
    with torch.no_grad():
        hidden = model.class_head[:-1](model.encode(model.tokenize(points)))
    wanted = hidden @ F.normalize(model.class_head[-1].weight).T
    assert torch.allclose(adapter(points), wanted, atol=1e-5)


def test_what_t3a_cannot_work_with_is_refused():
    with pytest.raises(ValueError, match="give WithoutBatchNorm a method split_head"):
        T3A(WithoutBatchNorm(3, 4))
    with pytest.raises(ValueError, match='filter_k must be at least 1, or None or "all" for no limit; got 0'):
        T3A(small_model(), filter_k=0)
