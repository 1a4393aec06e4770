import pytest
from matplotlib.colors import to_hex

from purgegate.adapt import METHODS
from purgegate.report.names import COLUMNS, options_of
from purgegate.report.plots import PLOTS
from purgegate.report.plots.batch_size import batch_size
from purgegate.report.plots.batchnorm import batchnorm, mode_of
from purgegate.report.plots.brittleness import brittleness, points_of
from purgegate.report.plots.compare import compare, headings, mean_label
from purgegate.report.plots.corruptions import corruptions
from purgegate.report.plots.cost import cost, megabytes, milliseconds
from purgegate.report.plots.gains import by_method, differences, gains
from purgegate.report.plots.style import look_of
from purgegate.report.plots.sweep import sweep
from purgegate.report.plots.training import read_log, training
from tests.report.rows import full, row


def lines_of(axes) -> dict:
    """The named lines of a panel, as label to (x, y)."""
    named = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in named}


def swept(method: str = "pg_sp", **facts) -> list:
    return [
        row(
            method,
            "background",
            correct=100 - abs(size - 3),
            options={"purge": [size]},
            entropy=size / 10,
            **facts,
        )
        for size in range(8)
    ]


def test_what_lacks_cells_of_the_others_is_left_out_and_said(caplog):
    rows = [row("a", "uniform", correct=20), row("a", "shear", correct=100), row("b", "uniform", correct=40)]
    values, cells = compare(rows, lambda each: each["method"])
    assert cells == [("shear", 5), ("uniform", 5)]
    assert {key: value.mean for key, value in values.items()} == {"a": 30.0}
    assert "b is left out of the plot: it has 1 of 2 cells" in caplog.text


def test_means_are_compared_over_the_seeds_that_all_have():
    rows = [row("a", correct=20, seed=0), row("a", correct=60, seed=1), row("b", correct=40, seed=1)]
    values, cells = compare(rows, lambda each: each["method"])
    assert {key: value.mean for key, value in values.items()} == {"a": 30.0, "b": 20.0}
    assert mean_label(cells) == "accuracy, uniform, %"


def test_panels_tell_clean_sets_and_no_fingerprint_beside_other_weights():
    panels = [[row(weights="a", fingerprint="1")], [row(weights="b", fingerprint="2")]]
    assert headings(panels)[1] == ["a", "b"]
    clean = [row(corruption="clean", severity=0)]
    assert headings([clean, [row()]], apart=["severity"])[1] == ["clean", "severity 5"]


def test_spread_is_over_seeds_that_have_all_cells():
    rows = [row("a", name, correct=correct, seed=seed)
            for name in ("uniform", "shear") for seed, correct in enumerate((20, 40))]  # fmt: skip
    values, _ = compare([*rows, row("a", "uniform", correct=200, seed=2)], lambda each: each["method"])
    assert values["a"].mean == pytest.approx(15.0)
    assert values["a"].spread == pytest.approx(50**0.5)


def test_what_shares_no_corruption_cannot_be_compared():
    with pytest.raises(ValueError, match="share at least one corruption"):
        compare([row("a", "uniform"), row("b", "shear")], lambda each: each["method"])


def test_corruptions_stand_in_the_paper_s_order_with_their_spread_over_seeds():
    rows = [row("source", name, correct=correct, seed=seed)
            for name in ("shear", "uniform") for seed, correct in enumerate((20, 40))]  # fmt: skip
    figure = corruptions([*rows, row("pg_sp", "shear", correct=100), row("source", "clean", correct=190)])
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [COLUMNS["uniform"], COLUMNS["shear"]]
    drawn = {bar.get_label(): bar.lines[0] for bar in axes.containers}
    assert list(drawn["Source"].get_ydata()) == [15, 15]
    assert list(drawn["PG-SP"].get_xdata()) == [1]
    (spread,) = axes.containers[0].lines[2]
    assert spread.get_segments()[0][:, 1].tolist() == pytest.approx([15 - 50**0.5, 15 + 50**0.5])


def test_a_plot_of_corruptions_needs_one():
    with pytest.raises(ValueError, match="at least one corruption"):
        corruptions([row("source", "clean")])


def test_gains_are_points_against_the_control_over_common_seeds():
    control = [
        row("source_bn", "uniform", correct=correct, seed=seed) for seed, correct in enumerate((100, 120))
    ]
    rows = [row("tent", "uniform", correct=130, seed=1), row("pg_sp", "uniform", correct=98, seed=0)]
    rows += [row("t3a", "shear"), row("dua", "uniform", seed=2)]  # nothing in common with the control
    assert differences(by_method([*rows, *control])) == {
        ("tent", ""): {"uniform": pytest.approx(5.0)},
        ("pg_sp", ""): {"uniform": pytest.approx(-1.0)},
    }


def test_gains_have_a_mean_only_over_all_corruptions_and_the_control_below():
    rows = [*full("source_bn", 100), *full("tent", 102), *full("pg_sp", 90)[1:]]
    (axes,) = gains(rows).axes
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["+1.0"] * 16 + ["−5.0"] * 14
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert (labels[0], labels[-1]) == ("uni\n50.0", "mean\n57.0")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["TENT", "PG-SP"]


def test_a_sweep_draws_accuracy_and_entropy_at_each_size():
    figure = sweep([*swept(), row("pg_sp", "background", correct=99, options={"purge": [0, 2, 4]})])
    upper, lower = figure.axes
    assert lines_of(upper) == {"PG-SP": (list(range(8)), [48.5, 49, 49.5, 50, 49.5, 49, 48.5, 48])}
    curves = [list(line.get_ydata()) for line in lower.get_lines() if len(line.get_xdata()) == 8]
    assert curves == [pytest.approx([size / 10 for size in range(8)])]
    ring = next(line for line in upper.get_lines() if len(line.get_xdata()) == 1)
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([3], [50.0])
    dashed = [line for line in upper.get_lines() if line.get_linestyle() == "--"]
    assert [list(line.get_ydata()) for line in dashed] == [[49.5, 49.5]]
    assert upper.get_title(loc="left") == "background, severity 5"


def test_a_sweep_has_a_column_for_each_corrupted_set():
    figure = sweep(swept() + swept(severity=7) + swept("pg_sf", severity=3))
    assert len(figure.axes) == 6


def test_batch_sizes_are_drawn_for_methods_that_have_several():
    rows = [row(batch=8, correct=90), row(batch=32, correct=100), row("tent", batch=32)]
    (axes,) = batch_size(rows).axes
    assert lines_of(axes) == {"Source": ([8, 32], [45.0, 50.0])}


def test_batchnorm_bars_pair_a_method_with_itself():
    rows = full("source", 90) + full("source_bn", 110) + full("pg_sp", 120) + full("tent", 80)
    rows += full("pg_sp", 100, options={"norm": "source"}) + full("bftt3d", 90)
    (axes,) = batchnorm(rows).axes
    heights = [patch.get_height() for patch in axes.patches]
    assert heights == pytest.approx([52.0, 57.0, 62.0, 67.0])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Source", "PG-SP"]


@pytest.mark.parametrize(
    ("method", "options", "mode"),
    [
        ("source", None, ("source", "source")), ("source_bn", None, ("source", "batch")),
        ("pg_sf", {"norm": "blend"}, ("pg_sf", "blend")), ("zebra", None, None),
        ("tent", None, ("tent", "batch")),
        ("pg_sp", {"purge": [3]}, None), ("pg_sp", {"norm": "strange"}, None),
    ],
)  # fmt: skip
def test_the_mode_of_batchnorm_is_read_off_method_and_options(method, options, mode):
    assert mode_of(row(method, options=options)) == mode


def test_cost_is_time_over_all_clouds_and_the_greatest_peak():
    rows = [row(seconds=2.0, total=100, memory=50.0), row(seconds=4.0, total=300, memory=float("nan"))]
    assert milliseconds(rows) == pytest.approx(15.0)
    assert megabytes(rows) == 50.0


def test_cost_is_drawn_fastest_first_and_unknown_memory_is_said():
    rows = [
        row("tent", seconds=2.0),
        row("source", seconds=1.0, memory=float("nan")),
        row("t3a", seconds=1.5),
    ]
    left, right = cost(rows).axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["Source", "T3A", "TENT"]
    assert [line.get_xdata()[0] for line in left.get_lines()] == pytest.approx([5.0, 7.5, 10.0])
    assert [text.get_text().strip() for text in right.texts] == ["not known", "100", "100"]


def test_other_weights_or_batches_cost_otherwise():
    assert len(cost([row(), row(weights="large"), row(batch=1)]).axes) == 6


@pytest.mark.parametrize("kind", sorted(PLOTS.keys() - {"corruptions"}))
def test_every_plot_says_what_rows_it_lacks(kind: str):
    with pytest.raises(ValueError, match="need"):
        PLOTS[kind]([row("zebra", seconds=0.0)])


@pytest.mark.parametrize("kind", PLOTS)
def test_every_plot_can_be_saved(kind: str, tmp_path):
    rows = swept() + full("source") + full("source_bn") + full("source", batch=8)
    PLOTS[kind](rows).savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"


def test_methods_keep_their_looks_and_strangers_get_different_ones():
    rows = [row("zebra"), row("yak"), row("source")]
    looks = [*(method.look for method in METHODS.values()), look_of("zebra", rows), look_of("yak", rows)]
    assert len({to_hex(look.color) for look in looks}) == len(looks)
    assert look_of("source", rows) == METHODS["source"].look


def test_options_of_one_method_look_apart():
    rows = [row("pg_sf", options={"purge": [size]}) for size in range(8)]
    looks = {look_of("pg_sf", rows, options=options_of(each)) for each in rows}
    assert len({look.marker for look in looks}) == len({look.color for look in looks}) == 8
    assert METHODS["pg_sf"].look not in looks


def test_a_training_log_is_drawn_with_the_epochs_that_were_tested(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "epoch,loss,class_loss,train_accuracy,lr,seconds,test_accuracy\n"
        "1,3.0,3.0,0.4,0.001,5,\n2,2.0,2.0,0.6,0.001,5,0.5\n"
    )
    left, right = training(path).axes
    assert lines_of(left) == {"loss": ([1, 2], [3.0, 2.0])}
    assert lines_of(right) == {"train": ([1, 2], [40.0, 60.0]), "test": ([2], [50.0])}


def test_the_parts_of_a_joint_loss_are_drawn(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss,class_loss,masked_loss\n1,3.0,2.0,1.0\n")
    assert list(lines_of(training(path).axes[0])) == ["loss", "class loss", "masked loss"]


@pytest.mark.parametrize(
    "text", ["", "epoch,loss\n", "a,b\n1,2\n", "epoch,loss\none,two\n", '{"method": 1}\n']
)
def test_what_is_no_log_is_named(tmp_path, text: str):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="must be a log of `purgegate train`"):
        read_log(path)


def test_all_corruptions_fit_a_sweep():
    rows = [each | {"corruption": name} for name in COLUMNS for each in swept()[:2]]
    assert len(sweep(rows).axes) == 30


def test_brittleness_is_the_gain_over_the_control_at_the_sources_accuracy():
    rows = [*full("source", 100), *full("source_bn", 120), *full("pg_sp", 110)]
    points = points_of(rows)[("pg_sp", "")]
    assert len(points) == 15
    assert points[0] == (50.0, -5.0)
    assert all(gain == -5.0 for _, gain in points)


def test_brittleness_has_a_mark_a_model_and_only_methods_that_all_models_have():
    models = [
        each
        for weights, shift in (("a", 0), ("b", 20))
        for method, correct in (("source", 80), ("source_bn", 100), ("pg_sp", 90 + shift))
        for each in full(method, correct + shift, weights=weights, fingerprint=weights)
    ]
    more = full("tent", 100, weights="a", fingerprint="a")
    means, singles = brittleness([*models, *more]).axes
    lines = lines_of(means)
    assert list(lines) == ["PG-SP"]
    assert lines["PG-SP"] == ([47.0, 57.0], [-5.0, 5.0])
    assert len(lines_of(singles)["PG-SP"][0]) == 2 * 15
    with pytest.raises(ValueError, match="same method for all source models"):
        brittleness(full("source"))
