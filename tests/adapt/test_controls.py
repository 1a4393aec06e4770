import pytest
import torch

from purgegate.adapt import create_adapter
from purgegate.adapt.controls import RandomPurge, RandomStarts
from purgegate.gate.purge import entropy
from purgegate.points.sampling import random_view
from tests.models import clouds, small_model

PURGE = (0, 1, 2, 4, 8)


@pytest.mark.parametrize("norm", ["source", "batch", "blend"])
def test_dropping_nothing_or_looking_once_is_the_model_itself(norm: str):
    model, points = small_model(), clouds(6)
    wanted = create_adapter("source", model, norm=norm)(points)
    assert torch.equal(RandomPurge(model, purge=(0,), norm=norm)(points), wanted)
    assert torch.equal(RandomStarts(model, views=1, norm=norm)(points), wanted)


def test_by_default_they_build_on_the_batchnorm_reset():
    model, points = small_model(), clouds(6)
    wanted = create_adapter("source_bn", model)(points)
    assert torch.equal(create_adapter("random_purge", model, purge=(0,))(points), wanted)
    assert torch.equal(create_adapter("random_starts", model, views=1)(points), wanted)


def test_every_token_is_equally_likely_to_be_dropped():
    gate = RandomPurge(small_model(), purge=PURGE)
    places = torch.cat([gate.predict(clouds(32)).scores.argmax(dim=1) for _ in range(20)])
    counts = torch.bincount(places, minlength=16)
    assert counts.sum() == 640
    assert counts.min() > 15  # 40 are expected, with a standard deviation of 6
    assert counts.max() < 65


def test_random_starts_take_the_most_certain_of_their_views():
    model, points = small_model(), clouds(6)
    adapter, source = RandomStarts(model, views=4, seed=3), create_adapter("source_bn", model)
    draws = torch.Generator().manual_seed(3)
    views = [points, *(random_view(points, 256, generator=draws) for _ in range(3))]
    answers = torch.stack([source(view) for view in views])
    least = entropy(answers).argmin(dim=0)
    assert len(least.unique()) > 1
    assert torch.equal(adapter(points), answers[least, torch.arange(6)])


def test_more_views_are_never_less_certain():
    model, points = small_model(), clouds(6)
    few, many = (entropy(RandomStarts(model, views=views)(points)) for views in (1, 6))
    assert (many <= few).all()
    assert (many < few).any()


def test_no_view_at_all_is_refused():
    with pytest.raises(ValueError, match="views must be at least 1; got 0"):
        RandomStarts(small_model(), views=0)
