"""The report as a person has it: tables that sort, charts that are drawn."""

import pytest

from purgegate.report.results_page import make_report
from tests.report.rows import full


@pytest.fixture(scope="module")
def shown(open_page, tmp_path_factory):
    rows = full("source", 100, seconds=1.0) + full("source_bn", 110, seconds=2.0)
    rows += full("pg_sp", 116, seconds=3.0) + full("tent", 90, seconds=4.0, given={"long": "name" * 20})[:-1]
    for row in rows[:45]:  # of all methods but the last
        right = row["correct"]
        row["confusion"] = {"chair": {"chair": right, "stool": 190 - right}, "stool": {"chair": 10}}
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(make_report(rows, title="Report"), "utf-8")
    return open_page(path, ready="#cost-0 .scatterlayer .point")


def column(page, place: int) -> list[str]:
    return page.locator(f"tbody tr > :nth-child({place})").all_inner_texts()


def test_a_click_on_a_header_sorts_and_another_turns_it_round(shown):
    page = shown.page
    assert [name[:17] for name in column(page, 1)] == [
        "Source",
        "Source + BN reset",
        "TENT (long=namena",
        "PG-SP",
    ]
    header = page.get_by_role("button", name="mean", exact=True)
    header.click()
    assert column(page, 2) == ["65.00", "62.00", "57.00", "–"]
    header.click()
    assert column(page, 2) == ["57.00", "62.00", "65.00", "–"]
    page.get_by_role("button", name="Δ control").click()
    assert column(page, 4) == ["+3.00", "0.00", "−5.00", "–"]


def test_the_gains_are_squares_whose_numbers_come_on_hover(shown):
    page = shown.page
    assert page.locator("#gains-0 .heatmaplayer image").count() == 1
    page.locator("#gains-0").scroll_into_view_if_needed()
    page.locator("#gains-0 .nsewdrag").hover(position={"x": 8, "y": 8})
    page.wait_for_selector("#gains-0 .hoverlayer .hovertext")
    told = page.locator("#gains-0 .hoverlayer").text_content()
    assert "Source, mean: -5.00 points" in told
    assert "57.00 % against 62.00 %" in told


def test_cost_has_a_dot_for_each_method_with_a_mean(shown):
    assert shown.page.locator("#cost-0 .scatterlayer .point").count() == 3
    assert "PG-SP" in shown.page.locator("#cost-0").text_content()


def test_confusion_is_that_of_the_method_and_corruption_in_the_menus(shown):
    page = shown.page
    method, corruption = (page.locator("#confusion-0 select").nth(place) for place in (0, 1))
    assert method.locator("option").all_inner_texts() == ["Source", "Source + BN reset", "PG-SP"]
    words = page.locator("#confusion-0 > p")
    # 15 corruptions with 100, 102, … of 200 right.
    assert words.inner_text() == (
        "Most often: chair taken for stool (1140 of 2850), stool taken for chair (150 of 150)."
    )
    method.select_option(label="PG-SP")
    corruption.select_option("shear")
    assert (
        words.inner_text()
        == "Most often: chair taken for stool (56 of 190), stool taken for chair (10 of 10)."
    )
    chart = page.locator("#confusion-0 .nsewdrag")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] * 0.75, "y": box["height"] * 0.25})
    page.wait_for_selector("#confusion-0 .hoverlayer .hovertext")
    told = page.locator("#confusion-0 .hoverlayer").text_content()
    assert "chair taken for stool: 56 of 190 (29.5%)" in told


def test_a_phone_scrolls_tables_and_not_the_page(shown, open_page):
    address = shown.page.url
    page = open_page(address, width=390, dark=True, ready="#cost-0 .scatterlayer .point").page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('.scroll').scrollWidth") > 390
    names = page.evaluate("[...document.querySelectorAll('tbody th')].map((cell) => cell.offsetWidth)")
    assert 100 < min(names) <= max(names) < 200  # long names leave the numbers their room


def test_the_report_is_silent_and_asks_nobody(shown):
    assert shown.console == []
    assert shown.asked == [shown.page.url]
