import pytest
import torch

import purgegate as pg
from purgegate.figures.token_shift import point_ranks, token_shift_figure
from tests.models import clouds, small_model


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module")
def statistics(model):
    return pg.SourceStatistics.collect(model, [clouds(8, 256)])


def by_height(model, tokens):
    """A score that is the height of a patch's centre."""
    return tokens.centers[..., 2]


def test_a_point_has_the_rank_of_its_nearest_patch(model):
    points = clouds(2, 200, seed=3)
    ranks = point_ranks(model, by_height, points)
    with torch.no_grad():
        centers = model.tokenize(points).centers
    order = centers[..., 2].argsort(dim=1).argsort(dim=1) / 15
    nearest = torch.cdist(points, centers).argmin(dim=2)
    torch.testing.assert_close(ranks, order.gather(1, nearest))
    assert (ranks.min(), ranks.max()) == (0, 1)


def test_ranking_leaves_the_model_as_it_was(model, statistics):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    point_ranks(model, pg.SourceDistance(statistics), clouds(1), norm="batch")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_statistics_of_another_model_are_refused(statistics):
    with pytest.raises(ValueError, match="belong to the model"):
        point_ranks(small_model(seed=1), pg.SourceDistance(statistics), clouds(1))


def test_the_figure_shows_clean_corrupted_and_both_rankings(model, statistics, tmp_path):
    clean, corrupted = clouds(1, 300)[0].numpy(), clouds(1, 330, seed=1)[0].numpy()
    figure = token_shift_figure(model, statistics, clean, corrupted, title="cup, background")
    titles = [axes.get_title() for axes in figure.axes[:4]]
    assert titles == ["clean", "corrupted", "tokens ranked by PG-SF", "tokens ranked by PG-SP"]
    drawn = [axes.collections[0] for axes in figure.axes[:4]]
    assert [len(each.get_offsets()) for each in drawn] == [300, 330, model.points, model.points]
    assert [len({tuple(color) for color in each.get_facecolors()}) for each in drawn] == [1, 1, 16, 16]
    figure.savefig(tmp_path / "shift.png")


def test_a_single_point_repeated_can_be_drawn(model, statistics, tmp_path):
    same = torch.zeros(50, 3).numpy()
    token_shift_figure(model, statistics, same, same).savefig(tmp_path / "shift.png")
