import pytest
import torch

from purgegate.adapt.bftt3d import remember
from purgegate.adapt.pointnn import PointNN
from purgegate.io.labelled import Dataset
from purgegate.needs import KeptPrototypes, _digest_of
from tests.models import clouds


@pytest.fixture
def sources(monkeypatch):
    """Two sets of source clouds, by name."""
    sets = {
        name: Dataset(clouds(8, 48, seed=seed).numpy(), (torch.arange(8) % 2).numpy(), ())
        for seed, name in enumerate(("one", "two"))
    }
    monkeypatch.setattr("purgegate.needs.load_dataset", lambda name, split: sets[name])
    _digest_of.cache_clear()
    yield sets
    _digest_of.cache_clear()


def kept(source: str, path, *, neighbours: int = 8) -> KeptPrototypes:
    made = KeptPrototypes(source, points=32, path=str(path))
    made.encoder = PointNN(points=32, neighbours=neighbours)
    return made


def same(memory, source: Dataset, *, neighbours: int = 8) -> bool:
    wanted = remember(*source[:2], encoder=PointNN(points=32, neighbours=neighbours))
    return all(torch.equal(a, b) for a, b in zip(memory[:2], wanted[:2], strict=True))


def test_kept_prototypes_are_those_that_were_made(tmp_path, monkeypatch, sources):
    made = kept("one", tmp_path / "kept.npz").memory()
    assert same(made, sources["one"])
    monkeypatch.setattr("purgegate.needs.remember", lambda *a, **k: pytest.fail("made again"))
    found = kept("one", tmp_path / "kept.npz").memory()
    assert torch.equal(found.features, made.features)
    assert found.described() == made.described() == kept("one", tmp_path / "kept.npz").described()


@pytest.mark.parametrize("change", ["clouds", "encoder", "cut", "empty", "text"])
def test_prototypes_of_others_or_in_a_broken_file_are_made_again(tmp_path, change, sources):
    path = tmp_path / "kept.npz"
    kept("one", path).memory()
    broken = {"cut": path.read_bytes()[:200], "empty": b"", "text": b"no prototypes"}
    if change in broken:
        path.write_bytes(broken[change])
    source, neighbours = "two" if change == "clouds" else "one", 9 if change == "encoder" else 8
    found = kept(source, path, neighbours=neighbours).memory()
    assert same(found, sources[source], neighbours=neighbours)
