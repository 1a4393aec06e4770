"""What holds for every method."""

import copy
import json

import numpy as np
import pytest
import torch

import purgegate as pg
from purgegate.adapt import METHODS, Adapter, create_adapter
from purgegate.adapt.options import describe_option
from purgegate.adapt.pointnn import PointNN
from purgegate.io.labelled import Dataset
from tests.models import clouds, joint_model, small_mamba, state_of

PURGE = (0, 1, 2, 4, 8)
SMALL = {"purge": PURGE}
FEW = {"copies": 4}
# What a method needs, or what keeps it fast here.
NEEDS = {
    **dict.fromkeys(("dua", "mate", "smart_pc", "memo"), FEW),
    **dict.fromkeys(("random_purge", "pg_sp", "pg_sf"), SMALL),
    "ttt_rot": {"lr": 1e-4},
    "foa": {"population": 4},
    "sar": {"margin": 2.0},  # all clouds teach: those of random weights are never certain
}
RIVALS_THAT_LEARN = ("foa_shift", "foa", "sar", "svwa", "cache")
LEARN = ("tent", "t3a", "shot", "dua", "ttt_rot", "mate", "smart_pc", *RIVALS_THAT_LEARN)
DRAW = ("random_starts", "random_purge", "memo")  # nothing learned, but other draws for every batch
# With these a batch of one is answered where by default it cannot be.
RESETS = (
    "source_bn",
    "random_starts",
    "random_purge",
    "tent",
    "shot",
    "bftt3d_bn",
    "ln_tta",
    "pg_sp",
    "pg_sf",
    "sar",
    "svwa",
    "sor_bn",
    "ror_bn",
)
ALONE = {name: {"norm": "blend"} for name in RESETS}


def make(name: str, model=None, **options) -> Adapter:
    model = model or joint_model()
    needs = dict(NEEDS.get(name, {}))
    if "statistics" in METHODS[name].needs:
        needs["statistics"] = pg.SourceStatistics.collect(model, [clouds(8, seed=5)])
    if "source" in METHODS[name].needs:
        needs["source"] = clouds(10, 64, seed=6), torch.arange(10) % 5
    if "encoder" in METHODS[name].options:
        needs["encoder"] = PointNN(points=64, stages=1, width=12, neighbours=9)
    return create_adapter(name, model, **needs, **options)


@pytest.fixture(params=METHODS)
def name(request) -> str:
    return request.param


def test_the_methods_stand_in_the_paper_s_order_then_rivals_and_ours():
    papers = "source source_bn tent t3a shot dua bftt3d bftt3d_bn ttt_rot mate smart_pc ln_tta pg_sp pg_sf"
    rivals = "lame foa_shift foa sar memo svwa cache sor_bn ror_bn"
    assert list(METHODS) == f"{papers} {rivals} random_purge random_starts pg_auto".split()


def test_clouds_give_logits(name: str):
    adapter = make(name)
    logits = adapter(clouds(4))
    assert isinstance(adapter, Adapter)
    assert adapter.name == name
    assert logits.shape == (4, 5)
    assert torch.isfinite(logits).all()
    assert not logits.requires_grad


def test_a_second_evaluation_finds_the_row_of_the_first(name: str, tmp_path):
    data = Dataset(clouds(4).numpy(), np.arange(4) % 5, ())
    first, again = (
        pg.evaluate(
            make(name), [pg.Domain(data)], facts={"weights": "small"}, results=tmp_path / "rows.jsonl"
        )
        for _ in range(2)
    )
    assert first[0]["total"] == 4
    assert first == again


def test_rows_tell_sources_and_encoders_apart():
    source, other = ((clouds(10, 64, seed=seed), torch.arange(10) % 5) for seed in (6, 7))
    encoder = [PointNN(points=64, stages=1, width=width, neighbours=9) for width in (12, 24)]
    made = [
        create_adapter("bftt3d", joint_model(), source=source, encoder=encoder[0]),
        create_adapter("bftt3d", joint_model(), source=other, encoder=encoder[0]),
        create_adapter("bftt3d", joint_model(), source=source, encoder=encoder[1]),
    ]
    assert len({str(each.options) for each in made}) == 3


def test_rows_tell_numbers_of_numpy_as_plain_ones():
    for sizes in (range(0, 9, 4), np.array([0, 4, 8]), tuple(np.array([0, 4, 8])), [0, 4, np.int64(8)]):
        assert json.dumps(describe_option(sizes)) == "[0, 4, 8]"
    assert (
        json.dumps(describe_option(np.float32(0.5)))
        == json.dumps(describe_option(torch.tensor(0.5)))
        == "0.5"
    )


def test_clouds_with_a_history_are_answered_as_any(name: str):
    scale = torch.ones(1, requires_grad=True)
    adapter, points = make(name), clouds(4) * scale
    plain = make(name)
    for _ in range(2):
        assert torch.equal(adapter(points), plain(clouds(4)))
    assert scale.grad is None


@pytest.mark.parametrize("name", LEARN)
def test_a_frozen_model_is_adapted_as_any(name: str):
    frozen = joint_model().requires_grad_(False)
    answers = [
        [adapter(clouds(4, seed=seed)) for seed in range(2)] for adapter in (make(name), make(name, frozen))
    ]
    for plain, own in zip(*answers, strict=True):
        assert torch.equal(plain, own)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_a_lower_precision_for_a_while_is_borne(name: str):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.isfinite(make(name)(clouds(4))).all()


def test_the_same_seed_gives_the_same_answers(name: str):
    first, again = (make(name, seed=3) for _ in range(2))
    for seed in range(2):
        assert torch.equal(first(clouds(4, seed=seed)), again(clouds(4, seed=seed)))


@pytest.mark.parametrize("name", [*DRAW, "svwa", "foa", "dua", "mate", "smart_pc", "ttt_rot"])
def test_another_seed_gives_other_answers_where_something_is_drawn(name: str):
    answers = [make(name, seed=seed)(clouds(4)) for seed in (3, 4)]
    assert not torch.equal(*answers)


@pytest.mark.parametrize("name", ["tent", "t3a", "shot", "dua", "ttt_rot", "mate", "svwa"])
def test_dropout_as_released_matters_and_comes_from_the_seed(name: str):
    off, on, again = (make(name, seed=3, dropout=dropout) for dropout in (False, True, True))
    for adapter in (off, on, again):
        adapter(clouds(4))  # what learns has learned otherwise by the second batch
    answers = [adapter(clouds(4, seed=1)) for adapter in (off, on, again)]
    assert not torch.allclose(answers[0], answers[1], atol=1e-6)
    assert torch.equal(answers[1], answers[2])


def test_global_randomness_neither_matters_nor_changes(name: str):
    answers = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        answers.append(make(name)(clouds(4)))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*answers)


def test_reset_forgets_everything(name: str):
    adapter = make(name)
    stream = [clouds(4, seed=seed) for seed in range(3)]
    first = [adapter(points) for points in stream]
    for _ in range(2):
        adapter.reset()
        assert all(torch.equal(adapter(points), wanted) for points, wanted in zip(stream, first, strict=True))


def test_a_method_goes_on_from_its_state_or_says_that_it_cannot(name: str):
    adapter, other = make(name), make(name)
    for seed in range(3):
        adapter(clouds(4, seed=seed))
    if adapter.writes:
        with pytest.raises(ValueError, match="writes to the weights"):
            adapter.state()
        return
    kept = adapter.state()
    expected = [adapter(clouds(4, seed=seed)) for seed in (5, 6)]
    for each in (adapter, other):  # back, and in another place
        each.load_state(kept)
        assert all(torch.equal(each(clouds(4, seed=s)), e) for s, e in zip((5, 6), expected, strict=True))


def test_methods_that_learn_or_draw_answer_otherwise_the_second_time_and_the_others_do_not(name: str):
    adapter = make(name)
    first = adapter(clouds(4))
    remembers = "pool" in METHODS[name].options.values()
    assert torch.equal(adapter(clouds(4)), first) == (name not in (*LEARN, *DRAW) and not remembers)


def test_the_given_model_is_never_touched_and_reset_restores_the_copy(name: str):
    model = joint_model()
    model.train()
    model.class_head.eval()
    model.cls_token.requires_grad_(False)
    before, twin = state_of(model), copy.deepcopy(model)
    adapter = make(name, model)
    adapter(clouds(4))
    adapter.reset()
    for state in (model.state_dict(), adapter.model.state_dict()):
        assert state.keys() == before.keys()
        assert all(torch.equal(value, before[key]) for key, value in state.items())
    assert [module.training for module in model.modules()] == [module.training for module in twin.modules()]
    wanted = [parameter.requires_grad for parameter in twin.parameters()]
    assert [parameter.requires_grad for parameter in model.parameters()] == wanted
    assert all(parameter.grad is None for parameter in model.parameters())


def test_two_adapters_of_one_model_share_nothing(name: str):
    model, points = joint_model(), clouds(4)
    alone = make(name, model)
    wanted = [alone(points), alone(points)]
    first, second = make(name, model), make(name, model)
    assert torch.equal(first(points), wanted[0])
    assert torch.equal(second(points), wanted[0])
    assert torch.equal(first(points), wanted[1])


def test_a_batch_of_one_works_or_says_why_not(name: str):
    if name in ALONE:
        with pytest.raises(ValueError, match=r"a batch of at least 2.*use norm='blend'"):
            make(name)(clouds(1))
    assert torch.isfinite(make(name, **ALONE.get(name, {}))(clouds(1))).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_clouds_that_are_not_finite_are_refused_and_leave_no_trace(name: str, bad: float):
    adapter, fresh = make(name), make(name)
    points = clouds(4)
    points[1, 3, 2] = bad
    with pytest.raises(ValueError, match="1 points with NaN, infinite or far too large ones in 1 of 4"):
        adapter(points)
    assert torch.equal(adapter(clouds(4)), fresh(clouds(4)))


@pytest.mark.parametrize("shape", [(4, 256), (0, 256, 3), (4, 0, 3), (4, 256, 4)])
def test_what_is_no_batch_of_clouds_is_refused(name: str, shape: tuple[int, ...]):
    with pytest.raises(ValueError, match="clouds must have"):
        make(name)(torch.zeros(shape))


@pytest.mark.parametrize("count", [8, 33, 1023])
def test_clouds_of_odd_sizes_are_answered(name: str, count: int):
    logits = make(name)(clouds(2, count))
    assert logits.shape == (2, 5)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize(
    "few", [clouds(2, 1), clouds(2, 7), torch.ones(2, 300, 3), clouds(2, 3).repeat(1, 90, 1)]
)
def test_clouds_of_fewer_points_than_a_patch_has_are_refused(name: str, few: torch.Tensor):
    with pytest.raises(ValueError, match="a cloud needs at least 8 distinct points"):
        make(name)(few)


def test_the_last_batch_may_be_smaller(name: str):
    adapter = make(name)
    assert [len(adapter(clouds(size, seed=size))) for size in (4, 3, 2)] == [4, 3, 2]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_caller_s_gradient_mode_does_not_matter(name: str, mode):
    adapter, wanted = make(name), make(name)(clouds(4))
    with mode():
        found = adapter(clouds(4))
        adapter.reset()
        again = adapter(clouds(4))
        made_there = make(name, model=adapter.model)(clouds(4))
    assert torch.equal(found, wanted)
    assert torch.equal(again, wanted)
    assert made_there.shape == wanted.shape


@pytest.mark.parametrize(
    "name",
    [name for name in METHODS if name not in ("ttt_rot", "mate", "smart_pc", "ln_tta", "pg_sf", "foa")],
)
def test_a_backbone_without_a_class_token_serves_the_methods_that_need_none(name: str):
    model = small_mamba()
    adapter, before = make(name, model), state_of(model)
    first = [adapter(clouds(4, seed=seed)) for seed in range(2)]
    adapter.reset()
    assert all(torch.equal(adapter(clouds(4, seed=seed)), first[seed]) for seed in range(2))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["ln_tta", "pg_sf", "foa"])
def test_a_backbone_without_a_class_token_is_refused_by_the_others(name: str):
    with pytest.raises(ValueError, match="needs a class token"):
        make(name, small_mamba())


def test_unknown_names_and_options_list_the_choices(name: str):
    with pytest.raises(ValueError, match=f"{name} has the options .*seed.*; got learning_rate"):
        make(name, learning_rate=1.0)
    with pytest.raises(ValueError, match=r"the method must be one of source, source_bn, .*; got 'tnet'"):
        create_adapter("tnet", joint_model())


def test_a_missing_need_names_the_way_out():
    model = pg.create_backbone("point_mae", classes=3, width=24, depth=1, heads=2, groups=8, group_size=4)
    for name, hint in {
        "mate": "mate needs a model with a decoder: train one with `purgegate train joint`",
        "ttt_rot": "train one with `purgegate train joint`",
        "smart_pc": "train one with `purgegate train joint`",
        "bftt3d": "give source=",
        "pg_sp": "give statistics=",
        "foa_shift": "foa_shift needs clean source clouds: give source=",
        "foa": "foa needs clean source clouds: give source=",
    }.items():
        with pytest.raises(ValueError, match=hint):
            create_adapter(name, model)
