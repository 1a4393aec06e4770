import contextlib

import pytest
import torch
from torch import nn

import purgegate as pg
from purgegate.norms import statistics_from
from purgegate.pools import Pool
from tests.models import clouds, small_model


def layer_of_source(mean: float = 2.0, var: float = 4.0) -> nn.BatchNorm1d:
    layer = nn.BatchNorm1d(3, affine=False, eps=1e-12).eval()
    layer.running_mean.fill_(mean)
    layer.running_var.fill_(var)
    return layer


def push(layer: nn.Module, pool: Pool, x: torch.Tensor) -> torch.Tensor:
    with statistics_from(layer, "pool", clouds=len(x), pool=pool):
        return layer(x)


def test_the_pool_is_the_mixture_of_its_prior_and_every_cloud_so_far():
    layer, pool, stream = layer_of_source(), Pool(prior=10), torch.randn(3, 8, 3, dtype=torch.float64) + 5
    layer = layer.double()
    for number, x in enumerate(stream, start=1):
        answer, seen = push(layer, pool, x), stream[:number].flatten(0, 1)
        total = 10 + len(seen)
        mean = (10 * 2.0 + seen.sum(dim=0)) / total
        var = (10 * (4.0 + 2.0**2) + seen.square().sum(dim=0)) / total - mean**2
        assert torch.allclose(answer, (x - mean) / var.sqrt(), atol=1e-9)


def test_a_stream_cut_into_other_batches_ends_in_the_same_pool():
    layer, stream = layer_of_source(), torch.randn(12, 3)
    pools = [Pool(), Pool()]
    for pool, size in zip(pools, (1, 4), strict=True):
        for x in stream.split(size):
            push(layer, pool, x)
    assert torch.allclose(pools[0].sums[0], pools[1].sums[0], atol=1e-9)
    assert pools[0].weight == pools[1].weight == 12


def test_a_great_prior_is_the_source_and_a_long_stream_its_own_statistics():
    layer, x = layer_of_source(), torch.randn(500, 3)
    source = layer(x)
    assert torch.allclose(push(layer, Pool(prior=1e9), x), source, atol=1e-4)
    with statistics_from(layer, "batch"):
        batch = layer(x)
    assert torch.allclose(push(layer, Pool(prior=1e-6), x), batch, atol=1e-4)


def test_what_fails_is_not_taken_in():
    layer, pool = layer_of_source(), Pool()
    with contextlib.suppress(KeyError), statistics_from(layer, "pool", clouds=4, pool=pool):
        layer(torch.randn(4, 3))
        raise KeyError("on purpose")
    assert pool.weight == 0
    assert torch.equal(push(layer, pool, torch.ones(2, 3)), push(layer, Pool(), torch.ones(2, 3)))


def test_several_passes_of_one_batch_count_once():
    layer, pool, x = layer_of_source(), Pool(), torch.randn(4, 3)
    with statistics_from(layer, "pool", clouds=4, pool=pool):
        first, second = layer(x), layer(x)
    once = Pool()
    push(layer, once, x)
    assert torch.equal(first, second)
    assert torch.allclose(pool.sums[0], once.sums[0])
    assert pool.weight == 4


def test_memory_forgets_what_was_long_ago():
    layer, short, long = layer_of_source(), Pool(memory=10), Pool()
    for pool in (short, long):
        push(layer, pool, torch.full((50, 3), 100.0) + torch.randn(50, 3))
        for _ in range(20):
            push(layer, pool, torch.randn(5, 3))
    assert short.weight < 13
    assert short.sums[0][0].abs().max() / short.weight < 5 < long.sums[0][0].abs().max() / long.weight


def test_a_pool_saved_and_loaded_is_the_same_pool():
    layer, pool, other = layer_of_source(), Pool(memory=30), Pool(memory=30)
    push(layer, pool, torch.randn(7, 3))
    other.load_state(pool.state())
    x = torch.randn(5, 3)
    assert torch.equal(push(layer, pool, x), push(layer, other, x))
    pool.reset()
    assert torch.equal(push(layer, pool, x), push(layer, Pool(memory=30), x))


@pytest.mark.parametrize("options", [{"prior": 0}, {"memory": -1.0}])
def test_impossible_pools_are_refused(options):
    with pytest.raises(ValueError, match="must be positive"):
        Pool(**options)


def test_every_way_to_say_a_pool_is_one_option():
    model = small_model()
    made = [
        pg.create_adapter("source", model, norm=norm).options["norm"]
        for norm in ("pool", Pool(), {"prior": 16.0}, {"prior": 8, "memory": 99.0})
    ]
    assert made == ["pool", "pool", "pool", {"prior": 8, "memory": 99.0}]


def test_a_single_cloud_adapts_with_the_stream_and_reset_forgets_it():
    adapter, points = pg.create_adapter("source", small_model(), norm="pool"), clouds(3) * 2
    first = [adapter(points[[i]]) for i in (0, 1, 0)]
    assert not torch.allclose(first[0], first[2], atol=1e-4)
    adapter.reset()
    assert torch.equal(adapter(points[[0]]), first[0])


@pytest.mark.parametrize(("method", "views"), [("source", [""]), ("pg_auto", ["head 0", "view 0"])])
def test_a_stream_makes_each_of_its_pools_once_as_it_was_given(monkeypatch, method: str, views: list[str]):
    options = {"views": 1} if method == "pg_auto" else {}
    adapter = pg.create_adapter(method, small_model(), norm=Pool(prior=8, memory=99), **options)
    made, make = [], Pool.__init__
    monkeypatch.setattr(Pool, "__init__", lambda self, **given: made.append(given) or make(self, **given))
    for _ in range(3):
        adapter(clouds(4))
    assert sorted(adapter.pools) == views
    assert made == [{"prior": 8.0, "memory": 99.0}] * len(views)
