import numpy as np
import pytest
import torch
import torch.nn.functional as F

from benchmarks.reference_bftt3d import PlainBFTT3D, plain_embedding, plain_similarity, plain_stage
from purgegate.adapt.bftt3d import BFTT3D, Memory, align, herd, remember, source_share
from purgegate.adapt.pointnn import PointNN, offset_std
from purgegate.io.datasets import Dataset
from purgegate.points.neighbours import nearest_neighbours
from purgegate.points.sampling import farthest_points
from tests.adapt.golden import TOLERANCE
from tests.models import clouds, small_model


@pytest.fixture(scope="module")
def golden(shared):
    return {
        name: np.load(shared / "golden" / "bftt3d" / f"{name}.npz")
        for name in ("pointnn", "tca", "end_to_end")
    }


@pytest.fixture(scope="module")
def points(shared):
    return torch.from_numpy(np.load(shared / "golden" / "pg_sp" / "purge.npz")["points"])


@pytest.fixture(scope="module")
def clean(shared):
    return torch.from_numpy(np.load(shared / "golden" / "pg_sp" / "clean_stats.npz")["clean_clouds"])


def test_golden_stages_of_point_nn(golden, points):
    wanted = golden["pointnn"]["stage_mean"]
    for stage, found in enumerate(PointNN().stage_features(points)):
        assert np.allclose(found.mean(dim=(0, 1)), wanted[stage, : found.shape[2]], atol=1e-4)


def test_golden_features_of_point_nn(golden, points):
    encoder, wanted = PointNN(), golden["pointnn"]
    assert np.allclose(encoder(points), wanted["test_features"], atol=1e-3)
    assert np.allclose(encoder(points[:1]), wanted["test_features_single"], atol=1e-3)


def test_golden_prototypes(golden):
    wanted = golden["pointnn"]
    features = F.normalize(torch.from_numpy(wanted["memory_features"]))
    memory = herd(features, torch.from_numpy(wanted["memory_labels"]))
    assert torch.equal(memory.features, features[wanted["prototype_index"]])
    assert np.array_equal(memory.label, wanted["prototype_labels"])


@pytest.mark.parametrize("width", [200, 20])
def test_golden_alignment(golden, width: int):
    wanted = golden["tca"]
    target, source = align(
        torch.from_numpy(wanted["target"]), torch.from_numpy(wanted["source"]), width=width
    )
    assert np.allclose(target @ source.T, wanted[f"similarity_dim{width}"], atol=1e-4)
    if width == 20:
        assert np.allclose(target.abs(), np.abs(wanted["aligned_target_dim20"]), atol=1e-4)
        assert np.allclose(source.abs(), np.abs(wanted["aligned_source_dim20"]), atol=1e-4)


def test_golden_bftt3d_from_end_to_end(golden, golden_model, points, clean):
    wanted, encoder = golden["end_to_end"], PointNN(stages=1, width=6)
    label = torch.from_numpy(golden["pointnn"]["memory_labels"])
    memory = remember(clean, label, encoder=encoder, batch=16)
    assert np.allclose(memory.features, wanted["proto"], atol=1e-5)
    assert np.array_equal(memory.label, wanted["proto_onehot"].argmax(axis=1))
    adapter = BFTT3D(golden_model, source=memory, encoder=encoder)
    with torch.no_grad():
        found = adapter.vote(points, golden_model(points))
    assert np.allclose(found.similarity, wanted["similarity"], atol=1e-4)
    assert np.allclose(found.votes, wanted["nn_logits"], atol=1e-3)
    assert np.allclose(found.source, wanted["source"], **TOLERANCE)
    assert np.allclose(found.share, wanted["p"], atol=1e-4)
    assert np.allclose(adapter(points), wanted["fused"], **TOLERANCE)


def test_a_stage_is_the_plain_one():
    points = clouds(2, 64).double()
    encoder = PointNN(points=64, stages=1, width=12, neighbours=9)
    index = farthest_points(points, 32)
    centers = points.gather(1, index[..., None].expand(-1, -1, 3))
    near = nearest_neighbours(points, centers, 9)
    wanted = plain_stage(points, plain_embedding(points, 12), index, near)
    (found,) = encoder.stage_features(points)
    assert torch.allclose(found, wanted, atol=1e-9)
    assert torch.allclose(encoder(points), wanted.amax(dim=1) + wanted.mean(dim=1), atol=1e-9)


def test_the_spread_of_offsets_is_that_of_the_offsets():
    generator = torch.Generator().manual_seed(0)
    x, own = torch.randn(2, 20, 7, generator=generator) + 30, torch.randn(2, 5, 7, generator=generator)
    near = torch.randint(20, (2, 5, 4), generator=generator)
    offsets = torch.stack([cloud[index] for cloud, index in zip(x, near, strict=True)]) - own[:, :, None]
    assert offset_std(x, own, near) == pytest.approx(offsets.std().item(), rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_small_clouds_have_finite_features(count: int):
    encoder = PointNN(points=64, stages=2, width=12, neighbours=9)
    found = encoder(clouds(2, count))
    assert found.shape == (2, encoder.features)
    assert torch.isfinite(found).all()


def test_the_symmetric_alignment_is_the_published_one():
    generator = np.random.default_rng(0)
    target, source = (F.normalize(torch.from_numpy(generator.normal(size=(n, 9)))) for n in (12, 20))
    found, aligned = align(target, source, width=5)
    assert np.allclose(found @ aligned.T, plain_similarity(target.numpy(), source.numpy(), 5), atol=1e-8)


def test_alignment_with_fewer_samples_than_channels_is_finite_and_well_defined():
    generator = torch.Generator().manual_seed(0)
    target, source = torch.randn(3, 40, generator=generator), torch.randn(4, 40, generator=generator)
    found, aligned = align(target, source, width=200)
    assert found.shape == (3, 6)  # seven samples span six directions
    assert torch.allclose(found.norm(dim=1), torch.ones(3))
    assert torch.isfinite(aligned).all()
    same, _ = align(source[:1], source[:1], width=3)
    assert torch.isfinite(same).all()


def test_herding_keeps_a_quarter_of_each_class_nearest_to_its_mean_and_one_at_least():
    features, label = torch.tensor([[0.0], [1], [2], [9], [3], [5]]), torch.tensor([0, 0, 0, 0, 1, 1])
    assert herd(features, label).features.flatten().tolist() == [2, 3]
    assert herd(features, label, least=0).features.flatten().tolist() == [2]


def test_the_more_certain_of_the_two_streams_has_more_weight():
    sure, unsure = torch.tensor([[9.0, 0]]), torch.tensor([[0.1, 0]])
    assert source_share(sure, unsure) > 0.9
    assert source_share(unsure, sure) < 0.1
    both_sure = torch.tensor([[1e4, 0.0]])
    assert source_share(both_sure, both_sure) == 0.5


SMALL = {"points": 64, "stages": 1, "width": 12, "neighbours": 9}


def test_the_whole_method_is_the_plain_one():
    sizes = {"points": 64, "stages": 2, "width": 12, "neighbours": 9}
    model, points, encoder = small_model(), clouds(6, 64), PointNN(**sizes)
    memory = remember(clouds(120, 64, seed=3), torch.arange(120) % 5, encoder=encoder, every=1)
    found = BFTT3D(model, source=memory, encoder=encoder, width=10)(points)
    plain = PlainBFTT3D(model, memory.features, memory.label, width=10, sizes=sizes)
    assert torch.allclose(found, plain(points), atol=1e-5)
    assert not torch.allclose(found, model(points), atol=1e-3)  # the vote has a part in it


def test_a_data_set_a_pair_and_a_memory_are_the_same_source():
    encoder, model, points = PointNN(**SMALL), small_model(), clouds(3, 64)
    source, label = clouds(20, 80, seed=3), torch.arange(20) % 5
    data = Dataset(source.numpy(), label.numpy(), tuple("abcde"))
    given = [data, (source, label), remember(source, label, encoder=encoder)]
    answers = [BFTT3D(model, source=each, encoder=encoder)(points) for each in given]
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])


def test_raw_source_clouds_keep_all_their_points():
    encoder, source, label = PointNN(**SMALL), clouds(4, 80), torch.arange(4)
    cut, whole = (remember(source, label, encoder=encoder, raw=raw) for raw in (False, True))
    assert torch.equal(whole.features, F.normalize(encoder(source)))
    assert not torch.allclose(cut.features, whole.features)


def test_what_bftt3d_cannot_work_with_is_refused():
    model, points = small_model(classes=5), clouds(2)
    with pytest.raises(ValueError, match="bftt3d needs labelled source clouds: give source="):
        BFTT3D(model)
    with pytest.raises(ValueError, match="one whole class number each, 0 or more"):
        BFTT3D(model, source=(points, torch.tensor([0, -1])))
    with pytest.raises(ValueError, match=r"must lie in \[0, 5\), the model's classes; got 7"):
        BFTT3D(model, source=(points, torch.tensor([0, 7])))(points)
    with pytest.raises(ValueError, match="width of the encoder, 576; got 3"):
        BFTT3D(model, source=Memory(torch.eye(3), torch.arange(3)))
    with pytest.raises(ValueError, match="multiple of 6"):
        PointNN(width=8)
    with pytest.raises(ValueError, match="stages must lie in"):
        PointNN(points=4, stages=3)
