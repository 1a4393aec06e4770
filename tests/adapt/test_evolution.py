import pytest
import torch

from purgegate.adapt.evolution import EvolutionStrategy, default_population


def search(value, size: int, *, generations: int, seed: int = 0, **options) -> EvolutionStrategy:
    strategy, generator = EvolutionStrategy(size, **options), torch.Generator().manual_seed(seed)
    for _ in range(generations):
        found = strategy.ask(generator)
        strategy.tell(found, value(found))
    return strategy


def test_it_finds_the_bottom_of_a_bowl():
    place = torch.linspace(-2, 2, 8, dtype=torch.float64)
    found = search(lambda x: (x - place).square().sum(dim=1), 8, generations=200)
    assert torch.allclose(found.mean, place, atol=1e-6)


def test_it_learns_the_shape_of_a_narrow_valley():
    scale = torch.logspace(0, 4, 6, dtype=torch.float64)
    found = search(lambda x: (scale * (x - 1).square()).sum(dim=1), 6, generations=400)
    assert torch.allclose(found.mean, torch.ones(6, dtype=torch.float64), atol=1e-6)
    # The covariance has become the inverse of the bowl's own, up to a factor.
    product = found.covariance.diagonal() * scale
    assert product.max() / product.min() < 10


def test_monotone_changes_of_the_values_change_nothing():
    plain, other = (
        search(value, 5, generations=30)
        for value in (lambda x: (x - 1).norm(dim=1), lambda x: (x - 1).norm(dim=1) ** 4 - 7)
    )
    assert torch.equal(plain.mean, other.mean)


def test_draws_come_from_the_generator():
    first, again, other = (
        search(lambda x: x.norm(dim=1), 4, generations=5, seed=seed).mean for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_candidate_from_elsewhere_counts():
    strategy = EvolutionStrategy(3, population=6)
    found = strategy.ask(torch.Generator().manual_seed(0))
    elsewhere = torch.full((1, 3), 5.0, dtype=torch.float64)
    strategy.tell(torch.cat([found, elsewhere]), torch.tensor([1.0, 2, 3, 4, 5, 6, 0]))
    wanted = strategy.weights @ torch.cat([elsewhere, found[:2]])
    assert torch.allclose(strategy.mean, wanted)


def test_a_value_that_is_no_number_is_the_worst():
    strategy = EvolutionStrategy(3, population=6)
    found = strategy.ask(torch.Generator().manual_seed(0))
    strategy.tell(found, torch.tensor([torch.nan, 0, 1, 2, torch.nan, 3]))
    assert torch.allclose(strategy.mean, strategy.weights @ found[1:4])


@pytest.mark.parametrize(("size", "population"), [(3 * 768, 27), (3 * 384, 25)])
def test_the_population_is_the_published_one(size: int, population: int):
    assert default_population(size) == population
