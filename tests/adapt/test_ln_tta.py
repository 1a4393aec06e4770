import copy

import pytest
import torch
from torch import nn

from purgegate.adapt.ln_tta import LNTTA
from purgegate.adapt.source import Source
from tests.models import WithoutBatchNorm, clouds, small_model


def lively_model() -> nn.Module:
    """A model whose LayerNorms have scales and shifts that are not the trivial ones."""
    model, generator = small_model(), torch.Generator().manual_seed(1)
    for layer in model.modules():
        if isinstance(layer, nn.LayerNorm):
            layer.weight.data = 0.5 + torch.rand(layer.weight.shape, generator=generator)
            layer.bias.data = torch.randn(layer.bias.shape, generator=generator)
    return model


@torch.no_grad()
def plain_prototypes(model: nn.Module) -> list[torch.Tensor]:
    """LayerNorm outputs of the class token on its own, attention being its value alone."""
    outputs, x = [], model.cls_token[0, 0]
    for block in model.blocks.blocks:
        x = x + model.cls_pos[0, 0]
        outputs.append(block.norm1(x))
        value = block.attn.qkv(outputs[-1]).chunk(3)[2]
        x = x + block.attn.proj(value)
        outputs.append(block.norm2(x))
        x = x + block.mlp(outputs[-1][None, None])[0, 0]
    return [*outputs, model.norm(x)]


def test_prototypes_come_from_the_class_token_alone():
    model = lively_model()
    found, wanted = list(LNTTA(model).prototypes.values()), plain_prototypes(model)
    assert len(found) == len(wanted) == 2 * 3 + 1
    for (shift, gain), y in zip(found, wanted, strict=True):
        assert shift.item() == pytest.approx(y.mean().item(), abs=1e-5)
        assert gain.item() == pytest.approx(y.square().mean().sqrt().item(), rel=1e-5)


@pytest.mark.parametrize("variant", ["full", "simple"])
def test_rescaled_outputs_are_those_of_layers_with_other_scales_and_shifts(variant: str):
    model, points = lively_model(), clouds(4)
    adapter, folded = LNTTA(model, variant=variant), copy.deepcopy(model)
    layers = [layer for layer in folded.modules() if isinstance(layer, nn.LayerNorm)]
    for layer, (shift, gain) in zip(layers, adapter.prototypes.values(), strict=True):
        offset = layer.bias.mean() if variant == "full" else 0
        gain = gain / layer.weight.square().mean().sqrt() if variant == "full" else gain
        layer.bias.data = gain * (layer.bias - offset) + shift
        layer.weight.data = gain * layer.weight
    wanted = Source(folded, norm="batch")(points)
    assert torch.allclose(adapter(points), wanted, atol=1e-3)
    assert not torch.allclose(adapter(points), Source(model, norm="batch")(points), atol=1e-2)


def test_the_two_variants_differ():
    model, points = lively_model(), clouds(4)
    full, simple = (LNTTA(model, variant=variant)(points) for variant in ("full", "simple"))
    assert not torch.allclose(full, simple, atol=1e-2)


def test_the_layers_are_left_as_they_were():
    model, points = lively_model(), clouds(4)
    before = Source(model)(points)
    LNTTA(model)(points)
    assert torch.equal(Source(model)(points), before)
    assert not any(layer._forward_hooks for layer in model.modules())


def test_a_single_cloud_may_be_doubled_as_released_which_tells_nothing_apart():
    model = lively_model()
    with pytest.raises(ValueError, match="norm='blend'"):
        LNTTA(model)(clouds(1))
    doubled = LNTTA(model, duplicate=True)
    assert torch.allclose(doubled(clouds(1)), doubled(clouds(1, seed=1)), atol=1e-2)
    blended = LNTTA(model, norm="blend")
    assert not torch.allclose(blended(clouds(1)), blended(clouds(1, seed=1)), atol=1e-2)


def test_what_ln_tta_cannot_work_with_is_refused():
    with pytest.raises(ValueError, match="ln_tta needs a class token"):
        LNTTA(WithoutBatchNorm(3, 4))
    with pytest.raises(ValueError, match="variant must be one of full, simple; got 'half'"):
        LNTTA(small_model(), variant="half")
