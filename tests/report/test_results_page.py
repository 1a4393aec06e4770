import pytest

from purgegate.report.charts import confusion_data, cost_chart, gains_chart
from purgegate.report.layout import across, grid_of, mean_first
from purgegate.report.results_page import make_report
from purgegate.report.tables import make_tables
from tests.report.pages import Page
from tests.report.rows import full, row

ROWS = full("source", 100) + full("source_bn", 110) + full("pg_sp", 116) + full("pg_sp", 120, seed=1)


def test_the_mean_stands_first_and_no_cell_is_lost():
    grid = grid_of(make_tables(ROWS)[0])
    first = mean_first(grid)
    assert first.header[:5] == ("method", "mean", "Δ source", "Δ control", "uni")
    assert [sorted(line) for line in first.lines] == [sorted(line) for line in grid.lines]
    pairs = zip(grid.lines, first.lines, strict=True)
    for before, after in pairs:
        assert dict(zip(grid.header, before, strict=True)) == dict(zip(first.header, after, strict=True))


def test_a_table_across_has_the_same_cells():
    grid = grid_of(make_tables(ROWS)[0])
    turned = across(grid)
    cells = {
        (line[0].text, name): cell
        for line in turned.lines
        for name, cell in zip(turned.header[1:], line[1:], strict=True)
    }
    assert len(cells) == 20 * 3
    for line in grid.lines:
        assert all(
            cells[name, line[0].text] == cell for name, cell in zip(grid.header[1:], line[1:], strict=True)
        )


def test_gains_are_points_against_the_control_with_both_numbers():
    chart = gains_chart(ROWS)["data"][0]
    assert chart["y"] == ["Source", "PG-SP"]
    assert chart["x"][:2] == ["mean", "uni"]
    assert chart["z"][0] == pytest.approx([-5.0] * 16)
    assert chart["customdata"][1][1] == pytest.approx((58.0, 55.0))  # the seed that the control has too
    assert gains_chart(full("source")) is None


def test_a_mean_of_gains_needs_every_corruption():
    torn = gains_chart(full("source_bn") + full("source") + full("tent")[:-1])["data"][0]
    assert [line[0] for line in torn["z"]] == [0.0, None]
    assert torn["z"][1][-1] is None


def test_cost_is_time_a_cloud_against_the_mean():
    rows = full("source", 100, seconds=2.0) + full("pg_sp", 116, seconds=8.0)
    chart = cost_chart(rows)["data"][0]
    assert chart["text"] == ["Source", "PG-SP"]
    assert chart["x"] == pytest.approx([10.0, 40.0])
    assert chart["y"] == pytest.approx([57.0, 65.0])
    assert cost_chart(full("source")) is None
    assert cost_chart([{**row, "seconds": 0} for row in rows]) is None


def test_confusion_is_summed_over_seeds_by_method_and_corruption():
    first, second = {"a": {"a": 100, "b": 50}, "b": {"a": 50}}, {"a": {"a": 90, "c": 110}}
    rows = [
        row("pg_sp", "shear", confusion=first),
        row("pg_sp", "shear", seed=1, correct=90, confusion=second),
        row("source", "lidar", confusion=first),
        row("source", "uniform"),
    ]
    data = confusion_data(rows)
    assert data["classes"] == ["a", "b", "c"]
    assert data["corruptions"] == ["shear", "lidar"]
    assert [method["title"] for method in data["methods"]] == ["Source", "PG-SP"]
    counts = data["methods"][1]["counts"]
    assert counts == {"shear": [[0, 0, 190], [0, 1, 50], [1, 0, 50], [0, 2, 110]]}
    assert confusion_data(ROWS) is None


def test_rows_without_confusion_make_the_report_that_they_made():
    assert not any("confusion" in str(attributes) for _, attributes in Page(make_report(ROWS, title="")).tags)


def test_a_long_name_takes_several_lines_beside_a_chart():
    rows = full("source_bn") + full("source", given={"norm": "batch", "momentum": "slow"})
    (name,) = gains_chart(rows)["data"][0]["y"]
    assert name == "Source (momentum=slow,<br>norm=batch)"


def test_a_report_has_a_table_and_two_charts_for_each_setting():
    page = Page(make_report(ROWS + [{**row, "severity": 3} for row in ROWS], title="Two"))
    assert page.count("table") == 2
    names = [each.get("id") for name, each in page.tags if name == "div" and each.get("class") == "chart"]
    assert names == ["gains-0", "cost-0", "gains-1", "cost-1"]


def test_without_the_library_the_tables_are_there():
    page = Page(make_report(ROWS, title="Plain", charts=False))
    assert page.count("table") == 1
    assert sum(map(len, page.scripts)) < 10_000


def test_the_command_writes_a_page(purgegate, tmp_path):
    import json

    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    run = purgegate(
        "report", tmp_path / "rows.jsonl", "--out", tmp_path / "deep" / "page.html", "--title", "Mine"
    )
    assert run.code == 0, run.err
    page = Page((tmp_path / "deep" / "page.html").read_text())
    assert "Mine" in page.texts
    assert purgegate("report", tmp_path / "none.jsonl").code == 2
