import numpy as np
import pytest
import torch

from purgegate.adapt.source import Source
from purgegate.norms import statistics_from
from tests.adapt.golden import follow
from tests.models import clouds, small_model


@pytest.mark.parametrize(("norm", "prefix"), [("source", ""), ("batch", "bnreset_")])
def test_golden_source(baselines, golden_model, golden_batches, norm: str, prefix: str):
    golden = np.load(baselines / "source_only.npz")
    follow(Source(golden_model, norm=norm), golden_batches, golden, prefix=prefix)


@pytest.mark.parametrize("norm", ["source", "batch", "blend"])
def test_the_source_is_the_model_itself(norm: str):
    model, points = small_model(), clouds(4)
    with torch.no_grad(), statistics_from(model, norm, clouds=4):
        wanted = model(points)
    assert torch.equal(Source(model, norm=norm)(points), wanted)


def test_a_model_without_the_three_doors_and_an_unknown_norm_are_refused():
    with pytest.raises(ValueError, match="tokenize, encode and head; got object"):
        Source(object())
    with pytest.raises(ValueError, match="norm must be one of batch, source, blend, pool; got 'bach'"):
        Source(small_model(), norm="bach")
