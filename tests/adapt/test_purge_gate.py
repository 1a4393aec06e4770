import subprocess
import sys

import numpy as np
import pytest
import torch

import purgegate as pg
from benchmarks.reference import plain_copy, plain_purge, reset_batch_norm
from purgegate.gate.purge import survivors
from purgegate.gate.scores import standardise
from purgegate.norms import statistics_from
from purgegate.points.patches import check_clouds
from tests.models import clouds, small_model, state_of

SIZES = (0, 2, 4, 8, 16, 32)
SMALL = (0, 1, 2, 4, 8)


def small_gate(model=None, *, score: str = "sp", **options) -> pg.PurgeGate:
    model = model or small_model()
    distance = (
        pg.ClassDistance()
        if score == "sf"
        else pg.SourceDistance(pg.SourceStatistics.collect(model, [clouds(8, seed=5)]))
    )
    return pg.PurgeGate(model, distance, **{"purge": SMALL, **options})


@pytest.fixture(scope="module")
def model(shared):
    path = shared / "golden" / "pointmae_forward" / "weights.safetensors"
    return pg.load_backbone(path, classes=10, groups=64, group_size=32, heads=6)


@pytest.fixture(scope="module")
def clean(shared):
    return np.load(shared / "golden" / "pg_sp" / "clean_stats.npz")


def assert_close(found: torch.Tensor, wanted: np.ndarray) -> None:
    assert np.allclose(found.numpy(), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("after_block", "mean", "std"),
    [(True, "mean_official", "std_official"), (False, "mean_block0_input", "std_block0_input")],
)
def test_golden_source_statistics(model, clean, after_block: bool, mean: str, std: str):
    batches = torch.from_numpy(clean["clean_clouds"]).split(16)
    found = pg.SourceStatistics.collect(model, batches, after_block=after_block)
    first = 0 if after_block else ...
    assert found.count == clean["count"][0]
    assert np.allclose(found.mean.numpy(), clean[mean][first], atol=1e-6)
    assert np.allclose(found.std.numpy(), clean[std][first], atol=1e-6)


@pytest.mark.parametrize(("norm", "prefix"), [("source", "bnrun"), ("batch", "bnreset")])
@pytest.mark.parametrize("variant", ["official", "fix"])
def test_golden_pg_sp(shared, model, clean, norm: str, prefix: str, variant: str):
    golden = np.load(shared / "golden" / "pg_sp" / "purge.npz")
    points = torch.from_numpy(golden["points"])
    with torch.no_grad(), statistics_from(model, norm):
        assert_close(standardise(model.tokenize(points).placed()), golden[f"{prefix}_token_normalised"])
    if variant == "official":
        mean, std = clean["mean_official"][0], clean["std_official"][0]
    else:
        mean, std, prefix = clean["mean_block0_input"], clean["std_block0_input"], f"{prefix}_fix"
    statistics = pg.SourceStatistics(torch.from_numpy(mean), torch.from_numpy(std))
    check_against(
        golden, prefix, pg.PurgeGate(model, pg.SourceDistance(statistics), norm=norm).predict(points)
    )


@pytest.mark.parametrize(("norm", "prefix"), [("source", "bnrun"), ("batch", "bnreset")])
def test_golden_pg_sf(shared, model, norm: str, prefix: str):
    golden = np.load(shared / "golden" / "pg_sf" / "purge.npz")
    points = torch.from_numpy(golden["points"])
    with torch.no_grad(), statistics_from(model, norm):
        query, keys = model.class_attention(model.tokenize(points))
    assert_close(query.expand(8, 1, -1), golden[f"{prefix}_cls_query"])
    assert_close(keys, golden[f"{prefix}_token_key"])
    check_against(golden, prefix, pg.PurgeGate(model, pg.ClassDistance(), norm=norm).predict(points))


def check_against(golden, prefix: str, found: pg.Prediction) -> None:
    assert_close(found.scores, golden[f"{prefix}_dist"])
    for size in SIZES:
        assert np.array_equal(survivors(found.scores, size).numpy(), golden[f"{prefix}_kept_{size}"]), (
            f"size {size}"
        )
    assert_close(found.candidates, golden[f"{prefix}_logits"])
    assert_close(found.entropy, golden[f"{prefix}_entropy"])
    assert np.array_equal(found.purge.numpy(), np.array(SIZES)[golden[f"{prefix}_selected"]])
    assert_close(found.logits, golden[f"{prefix}_final_logits"])


@pytest.mark.parametrize("norm", ["source", "batch", "blend"])
@pytest.mark.parametrize("score", ["sp", "sf"])
def test_purging_nothing_is_the_source_model(score: str, norm: str):
    model, points = small_model(), clouds(6)
    with torch.no_grad(), statistics_from(model, norm, clouds=6):
        source = model(points)
    assert torch.equal(small_gate(model, score=score, purge=(0,), norm=norm)(points), source)


def test_the_gate_equals_whole_plain_forwards():
    model, points = small_model(), clouds(6)
    gate = small_gate(model)
    plain = plain_copy(model)
    reset_batch_norm(plain)
    statistics = gate.score.statistics
    wanted = plain_purge(plain, points, mean=statistics.mean, std=statistics.std, purge=SMALL)
    assert torch.allclose(gate.predict(points).candidates, wanted, atol=1e-4)


@pytest.mark.parametrize("score", ["sp", "sf"])
def test_the_gate_ignores_the_order_of_points(score: str):
    gate, points = small_gate(score=score), clouds(4)
    order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(255)])
    assert torch.allclose(gate(points), gate(points[:, order]), atol=1e-4)


def test_the_gate_drops_tokens_that_are_far_from_the_source():
    gate = small_gate(norm="source")
    points = clouds(4)
    points[:, :6] *= 20
    scores = gate.predict(points).scores
    with torch.no_grad():
        centers = gate.model.tokenize(points).centers
    far = centers.abs().amax(dim=-1) > 1
    assert scores[far].mean() > scores[~far].mean()


def test_the_answer_is_the_candidate_of_least_entropy():
    found = small_gate().predict(clouds(16))
    chosen = found.entropy.argmin(dim=1)
    assert torch.equal(found.logits, found.candidates[torch.arange(16), chosen])
    assert torch.equal(found.purge, torch.tensor(SMALL)[chosen])
    assert torch.equal(found.shift, found.scores.mean(dim=1))


def test_the_gate_leaves_the_model_as_it_was():
    model = small_model().train()
    before = state_of(model)
    gate = small_gate(model)
    first = gate(clouds(4))
    gate.reset()
    assert torch.equal(gate(clouds(4)), first)
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_a_batch_of_one_needs_blend_and_says_so():
    points = clouds(1)
    with pytest.raises(ValueError, match="norm='blend'"):
        small_gate()(points)
    assert torch.isfinite(small_gate(norm="blend")(points)).all()


def test_a_blend_of_one_cloud_is_the_source():
    points = clouds(1)
    assert torch.equal(small_gate(norm="blend")(points), small_gate(norm="source")(points))


class ThreeDoors:
    """A person's own model: three methods, no base class."""

    def __init__(self) -> None:
        inner = small_model()
        self.tokenize, self.encode, self.head = inner.tokenize, inner.encode, inner.head


def test_any_function_is_a_score_and_any_model_with_three_doors_will_do():
    gate = pg.PurgeGate(
        ThreeDoors(), lambda model, tokens: tokens.centers.norm(dim=-1), purge=(0, 3), norm="source"
    )
    assert gate(clouds(2)).shape == (2, 5)


def test_the_class_distance_needs_a_class_token_and_says_so():
    with pytest.raises(ValueError, match="PG-SF needs a class token"):
        pg.PurgeGate(ThreeDoors(), pg.ClassDistance())
    with pytest.raises(ValueError, match="methods tokenize, encode and head; got object"):
        pg.PurgeGate(object(), pg.ClassDistance())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"purge": (0, 16)}, r"purge sizes must lie in \[0, 16\), the number of tokens; got \[16\]"),
        ({"purge": (-1,)}, "purge sizes"),
        ({"purge": ()}, "at least one size"),
        ({"norm": "bacth"}, "norm must be one of batch, source, blend"),
    ],
)
def test_impossible_options_are_refused(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        small_gate(**options)


def test_what_is_no_sequence_or_no_tensor_is_refused_with_the_way_out():
    """In a process where arguments are not checked against their types, as a person's are not."""
    program = """
import numpy as np, purgegate as pg
model = pg.load_backbone("point_mae_tiny.shapes")
print(pg.PurgeGate(model, pg.ClassDistance(), purge=np.array([0, 2])).purge)
for act in (
    lambda: pg.PurgeGate(model, pg.ClassDistance(), purge=4),
    lambda: pg.PurgeGate(model, pg.ClassDistance(), purge=(0, 2.5)),
    lambda: pg.PurgeGate(model, pg.ClassDistance())(np.zeros((2, 64, 3))),
    lambda: pg.create_adapter("tent", model)(np.zeros((2, 64, 3))),
):
    try:
        act()
    except ValueError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    sizes, number, fraction, *rest = run.stdout.splitlines()
    assert sizes == "(0, 2)"
    assert number == "purge must be a sequence of whole numbers, such as (0, 2, 4); got 4"
    assert fraction == "purge must be a sequence of whole numbers, such as (0, 2, 4); got (0, 2.5)"
    assert [line.split(":")[0] for line in rest] == ["clouds must be a torch tensor; got ndarray"] * 2


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda model, tokens: torch.zeros(2), r"one floating-point number a token, \(2, 16\)"),
        (lambda model, tokens: torch.zeros(2, 16, dtype=torch.int64), "got torch.int64"),
        (lambda model, tokens: torch.full((2, 16), torch.nan), "got NaN for some tokens"),
    ],
)
def test_a_score_that_is_none_is_refused(score, message: str):
    with pytest.raises(ValueError, match=message):
        pg.PurgeGate(small_model(), score, purge=(0, 2))(clouds(2))


@pytest.mark.parametrize("name", ["source", "tent", "pg_sf", "pg_auto"])
@pytest.mark.parametrize(
    ("points", "message"),
    [
        (clouds(2).double(), "torch.float32, and single or double; got torch.float64: convert them"),
        (clouds(2).half(), "got torch.float16"),
        (clouds(2) * 1e30, "far too large"),
    ],
    ids=["double", "half", "huge"],
)
def test_clouds_of_another_kind_are_refused_with_the_way_out(name: str, points, message: str):
    with pytest.raises(ValueError, match=message):
        pg.create_adapter(name, small_model(groups=40))(points)


def test_a_module_without_parameters_takes_clouds_of_either_precision():
    for points in (clouds(2), clouds(2).double()):
        check_clouds(points, torch.nn.Identity())


def test_statistics_of_another_width_are_refused():
    gate = pg.PurgeGate(
        small_model(), pg.SourceDistance(pg.SourceStatistics(torch.zeros(7), torch.ones(7))), purge=(0,)
    )
    with pytest.raises(ValueError, match="width of the tokens, 48; got 7"):
        gate(clouds(2))


def test_bad_clouds_are_refused_by_the_gate():
    points = clouds(2)
    points[1, 3, 2] = torch.nan
    with pytest.raises(ValueError, match="1 points with NaN, infinite or far too large ones in 1 of 2"):
        small_gate()(points)


def test_survivors_with_nothing_purged_are_the_control():
    model, points = small_model(), clouds(6, seed=1)
    control = pg.create_adapter("source_bn", model)(points)
    assert torch.equal(small_gate(model, purge=(0,), norm="survivors")(points), control)


def test_what_is_purged_has_no_part_in_the_statistics_of_survivors(monkeypatch):
    model, points = small_model(), clouds(6, seed=1)
    gate = small_gate(model, purge=(4,), norm="survivors")
    before = gate.predict(points)
    purged = before.scores.argsort(dim=1, stable=True, descending=True)[:, :4]
    centers, patches = model.cut(points)
    patches[torch.arange(6)[:, None], purged] *= 10  # what a stray does to its patch
    monkeypatch.setattr(model, "cut", lambda points: (centers, patches))
    monkeypatch.setattr(gate, "score", lambda model, tokens: before.scores)
    assert torch.equal(gate(points), before.logits)


def test_survivors_are_scored_under_source_statistics_and_embedded_by_themselves():
    model, points = small_model(), clouds(6, seed=1)
    found = small_gate(model, norm="survivors").predict(points)
    torch.testing.assert_close(found.scores, small_gate(model, norm="source").predict(points).scores)
    centers, patches = model.cut(points)
    for place, size in enumerate(SMALL):
        index = survivors(found.scores, size)[..., None]
        some = patches.gather(1, index[..., None].expand(-1, -1, *patches.shape[2:]))
        with torch.no_grad(), statistics_from(model, "batch"):
            wanted = model.head(model.encode(model.embed(centers.gather(1, index.expand(-1, -1, 3)), some)))
        torch.testing.assert_close(found.candidates[:, place], wanted)


def test_a_selection_by_batch_takes_the_size_of_least_mean_entropy_for_all():
    gate = small_gate(select="batch")
    found = gate.predict(clouds(6, seed=1))
    best = int(found.entropy.mean(dim=0).argmin())
    assert found.purge.tolist() == [SMALL[best]] * 6
    assert torch.equal(found.logits, found.candidates[:, best])


def test_a_model_without_patches_has_no_survivors():
    class Own:
        tokenize = encode = head = lambda self, x: x

    with pytest.raises(ValueError, match=r"norm='survivors' needs a model with the methods cut and embed"):
        pg.PurgeGate(Own(), lambda model, tokens: tokens, norm="survivors")
