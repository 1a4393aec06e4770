"""What clean clouds look like to a model, kept in a small file."""

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.gate.purge import entropy
from purgegate.reference import Witness
from tests.models import clouds, small_model


def test_a_reference_is_the_sorted_entropies_and_energies_of_the_source_model():
    model, points = small_model().eval(), clouds(24)
    found = pg.SourceReference.collect(model, points.split(7))
    with torch.no_grad():
        logits = model(points)
    assert torch.allclose(found.entropy, entropy(logits).sort().values, atol=1e-5)
    assert torch.allclose(found.energy, (-logits.logsumexp(dim=1)).sort().values, atol=1e-5)
    seen = Witness(model, found.means)(points)
    assert torch.allclose(seen.entropy.sort().values, found.entropy, atol=1e-5)


def test_a_cloud_does_not_pull_its_class_mean_towards_itself_in_the_reference():
    model, points = small_model().eval(), clouds(24)
    found = pg.SourceReference.collect(model, [points])
    with torch.no_grad():
        feature, label = model.encode(model.tokenize(points)), model(points).argmax(dim=1)
    expected = []
    for place in range(24):
        others = torch.arange(24) != place
        means = [feature[others & (label == c)].mean(dim=0) for c in label[others].unique()]
        expected.append(min(float((feature[place] - mean).norm()) for mean in means))
    assert found.distance.tolist() == pytest.approx(sorted(expected), rel=1e-3)
    assert found.far(max(expected) * torch.tensor([0.99, 1.01])).tolist() == [False, True]
    assert found.shift(found.distance).median() == 1


def test_saved_and_loaded_it_is_the_same_and_knows_its_model(tmp_path):
    model = small_model()
    found = pg.SourceReference.collect(model, [(clouds(8), torch.zeros(8))])
    found.save(tmp_path / "reference.safetensors")
    again = pg.SourceReference.load(tmp_path / "reference.safetensors")
    for name in ("entropy", "energy", "distance", "means"):
        assert torch.equal(getattr(found, name), getattr(again, name))
    again.check(model)
    with pytest.raises(ValueError, match="belongs to the model"):
        pg.Stream(small_model(seed=1), reference=tmp_path / "reference.safetensors")


def test_damaged_and_missing_references_are_named(tmp_path):
    path = tmp_path / "reference.safetensors"
    with pytest.raises(FileNotFoundError, match="purgegate statistics --reference"):
        pg.SourceReference.load(path)
    pg.SourceStatistics.collect(small_model(), [clouds(4)]).save(path)
    with pytest.raises(ValueError, match="holds no reference of a source"):
        pg.SourceReference.load(path)
    with pytest.raises(ValueError, match="at least two clouds"):
        pg.SourceReference.collect(small_model(), [])
    assert pg.SourceReference.from_weights("no_such_weights") is None


def test_the_command_collects_what_streams_see(purgegate, tmp_path):
    pg.save_backbone(small_model(), tmp_path / "small.safetensors")
    np.savez(tmp_path / "clean.npz", points=clouds(9, 300).numpy(), label=np.zeros(9, dtype=int))
    arguments = (tmp_path / "small.safetensors", tmp_path / "clean.npz", tmp_path / "reference.safetensors")
    run = purgegate("statistics", *arguments, "--reference", "--part", "even")
    assert run.code == 0, run.err
    assert "reference of 5 clouds" in run.out
    model = pg.load_backbone(tmp_path / "small.safetensors")
    points = torch.cat([pg.prepare(cloud, model) for cloud in clouds(9, 300)[::2]])
    found = pg.SourceReference.load(arguments[2])
    assert torch.allclose(found.entropy, pg.SourceReference.collect(model, [points]).entropy, atol=1e-6)
    assert purgegate("statistics", *arguments).code == 2, "one kind of file is not overwritten by the other"


@pytest.mark.parametrize("name", pg.list_weights())
def test_bundled_weights_bring_their_reference(name):
    found = pg.SourceReference.from_weights(name)
    found.check(pg.load_backbone(name))
    assert len(found.entropy) > 100
