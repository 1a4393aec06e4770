import math

import numpy as np
import pytest
import torch

from purgegate.figures.attention import Flatness, attention_figure, attention_flatness, measure_flatness
from purgegate.io.labelled import Dataset
from purgegate.tokens import Tokens
from tests.models import clouds, small_model


class Looker:
    """A model with two heads of width 2 whose keys are given."""

    def __init__(self, keys: torch.Tensor) -> None:
        self.keys, self.config, self.points = keys, {"heads": 2}, 64

    def tokenize(self, points: torch.Tensor) -> Tokens:
        return Tokens(self.keys, self.keys, torch.zeros(*self.keys.shape[:2], 3))

    def class_attention(self, tokens: Tokens) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(4), self.keys


def test_equal_keys_are_perfectly_flat():
    assert attention_flatness(Looker(torch.ones(3, 8, 4)), clouds(3)) == pytest.approx(1.0)


def test_one_key_that_takes_all_leaves_one_token():
    keys = torch.zeros(3, 8, 4)
    keys[:, 5] = 1000
    assert attention_flatness(Looker(keys), clouds(3)) == pytest.approx(1 / 8)


def test_heads_are_flat_or_sharp_each_by_itself():
    keys = torch.zeros(1, 8, 4)
    keys[:, 5, 2:] = 1000
    assert attention_flatness(Looker(keys), clouds(1)) == pytest.approx((1 + 1 / 8) / 2)


def test_the_scale_is_the_root_of_a_heads_width():
    keys = torch.zeros(1, 2, 4)
    keys[:, 0] = 0.3
    weight = 1 / (1 + math.exp(-0.6 / math.sqrt(2)))
    effective = math.exp(-weight * math.log(weight) - (1 - weight) * math.log(1 - weight))
    assert attention_flatness(Looker(keys), clouds(1)) == pytest.approx(effective / 2)


def test_it_is_the_attention_of_the_models_first_block():
    model, points = small_model(), clouds(4)
    with torch.no_grad():
        tokens = model.tokenize(points)
        x = torch.cat([(model.cls_token + model.cls_pos).expand(4, -1, -1), tokens.placed()], dim=1)
        first = model.blocks.blocks[0]
        query, key, _ = first.attn.qkv(first.norm1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        attention = (query @ key.transpose(-1, -2) / math.sqrt(12)).softmax(dim=-1)[:, :, 0, 1:]
        share = attention / attention.sum(dim=-1, keepdim=True)
        expected = (-(share * share.log()).sum(dim=-1)).exp().mean() / 16
    assert attention_flatness(model, points) == pytest.approx(float(expected), rel=1e-5)


def test_a_model_without_a_class_token_is_refused():
    with pytest.raises(ValueError, match="class_attention"):
        attention_flatness(torch.nn.Identity(), clouds(1))


def test_every_corruption_is_measured_from_clean_to_the_last_severity():
    model = small_model()
    data = Dataset(clouds(3, 2048).numpy(), np.zeros(3, dtype=np.int64), ("a",))
    calls = []
    rows = measure_flatness(
        model,
        data,
        corruptions=("uniform", "density_inc"),
        severities=(1, 5),
        advance=lambda: calls.append(1),
    )
    assert [row[:2] for row in rows] == [
        ("uniform", 0), ("density_inc", 0),
        ("uniform", 1), ("uniform", 5), ("density_inc", 1), ("density_inc", 5),
    ]  # fmt: skip
    assert rows[0].flatness == rows[1].flatness
    assert len({row.flatness for row in rows}) == 5
    assert len(calls) == 4
    assert rows == measure_flatness(model, data, corruptions=("uniform", "density_inc"), severities=(1, 5))


def test_the_figure_shows_the_change_from_clean_in_percent():
    (axes,) = attention_figure([Flatness("uniform", 0, 0.5), Flatness("uniform", 3, 0.6)]).axes
    line = next(line for line in axes.get_lines() if line.get_label() == "uniform")
    assert list(line.get_xdata()) == [0, 3]
    assert list(line.get_ydata()) == pytest.approx([0.0, 20.0])
