"""A model of one's own: three methods, 20 tokens, no BatchNorm, no `class_head`, no base class of ours."""

import pytest
import torch
from torch import nn

import purgegate as pg
from purgegate.adapt import METHODS
from tests.models import clouds


class Twenty(nn.Module):
    """Tokens are points, embedded one by one; a feature is their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix, self.last = nn.Linear(3, 16), nn.Linear(16, 24), nn.Linear(24, 5)

    def tokenize(self, points):
        centers = points[:, :20]
        return pg.Tokens(self.embed(centers), torch.zeros(len(points), 20, 16), centers)

    def encode(self, tokens):
        return self.mix(tokens.features).relu().mean(dim=1)

    def head(self, feature):
        return self.last(feature)


class Split(Twenty):
    """The same with the documented way to its last layer."""

    def split_head(self):
        return nn.Identity(), self.last


def model(kind=Twenty) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind().eval()


def needs(name: str, own: nn.Module) -> dict:
    found = {}
    if "statistics" in METHODS[name].needs:
        found["statistics"] = pg.SourceStatistics.collect(own, [clouds(8)])
    if "source" in METHODS[name].needs:
        found["source"] = clouds(10, 128), torch.arange(10) % 5
    return found


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", [Twenty, Split])
def test_every_method_works_or_says_in_one_line_what_it_needs(name: str, kind):
    own, told = model(kind), None
    try:
        logits = pg.create_adapter(name, own, **needs(name, own))(clouds(4))
    except ValueError as error:
        told = str(error)
    if told is None:
        assert logits.shape == (4, 5)
        assert torch.isfinite(logits).all()
    else:
        assert " needs " in told
        assert "\n" not in told


@pytest.mark.parametrize("name", ["source", "source_bn", "pg_sp", "pg_auto", "random_purge", "bftt3d"])
def test_these_need_nothing_but_the_three_methods(name: str):
    own = model()
    assert pg.create_adapter(name, own, **needs(name, own))(clouds(4)).shape == (4, 5)


def test_sizes_that_do_not_fit_are_left_out_with_a_note(caplog):
    own = model()
    gate = pg.create_adapter("pg_sp", own, **needs("pg_sp", own))
    assert set(gate.predict(clouds(4)).purge.tolist()) <= {0, 2, 4, 8, 16}
    assert gate.options["purge"] == [0, 2, 4, 8, 16]
    assert "purge sizes [32] are left out: the model has 20 tokens" in caplog.text


def test_t3a_and_shot_take_the_last_layer_that_the_model_shows():
    with pytest.raises(ValueError, match=r"give Twenty a method split_head\(\)"):
        pg.create_adapter("t3a", model())
    assert pg.create_adapter("t3a", model(Split))(clouds(4)).shape == (4, 5)


def test_a_head_that_is_a_linear_layer_needs_no_more():
    class Headed(Twenty):
        def __init__(self) -> None:
            super().__init__()
            self.class_head = nn.Sequential(nn.ReLU(), self.last)

    assert pg.create_adapter("t3a", model(Headed))(clouds(4)).shape == (4, 5)


def test_it_is_not_saved_as_one_of_ours_but_says_the_way(tmp_path):
    with pytest.raises(ValueError, match="Twenty"):
        pg.save_backbone(model(), tmp_path / "own.safetensors")
