import pytest
import torch

from purgegate.norms import statistics_from
from purgegate.points.patches import cut_patches
from purgegate.tokens import Tokens
from tests.models import clouds, small_model


@pytest.mark.parametrize("norm", ["source", "batch", "blend"])
@pytest.mark.parametrize("batch", [1, 3, 9])
@pytest.mark.parametrize("at_once", [1, 2**15, 2**22])
def test_the_fused_embedding_equals_the_plain_one(norm: str, batch: int, at_once: int, monkeypatch):
    monkeypatch.setattr("purgegate.tokens.AT_ONCE", at_once)
    embed, exact = small_model().encoder, small_model().encoder.double()
    patches = cut_patches(clouds(batch), groups=16, group_size=8)[1].flatten(0, 1)
    with (
        torch.no_grad(),
        statistics_from(embed, norm, clouds=batch),
        statistics_from(exact, norm, clouds=batch),
    ):
        fused, plain = embed.embed_fused(patches), exact.embed_plainly(patches.double())
    assert torch.allclose(fused.double(), plain, atol=1e-5)


def test_a_token_does_not_depend_on_the_order_of_its_points():
    embed = small_model().encoder
    _, patches = cut_patches(clouds(2), groups=16, group_size=8)
    with torch.no_grad():
        assert torch.allclose(embed(patches), embed(patches.flip(2)), atol=1e-6)


def test_keeping_takes_feature_position_and_centre_together():
    x = torch.arange(24.0).reshape(2, 4, 3)
    kept = Tokens(x, x + 100, x + 200).keep(torch.tensor([[0, 2], [3, 1]]))
    assert torch.equal(kept.features[1], x[1, [3, 1]])
    assert torch.equal(kept.positions, kept.features + 100)
    assert torch.equal(kept.centers, kept.features + 200)


def test_embedding_is_trainable():
    embed = small_model().encoder.train()
    _, patches = cut_patches(clouds(2), groups=16, group_size=8)
    embed(patches).square().sum().backward()
    assert all(
        parameter.grad.abs().sum() > 0 for name, parameter in embed.named_parameters() if "weight" in name
    )
