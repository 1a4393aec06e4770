import re
import sys

import pytest

from purgegate.report.html import PARTS, chart_library, make_page, page_scripts, paragraphs, to_html
from purgegate.report.results_page import make_report
from purgegate.report.tables import make_tables
from tests.report.pages import Page
from tests.report.rows import full

EVIL = '<script>alert("&")</script><!--'


def test_tables_alone_are_a_page_without_a_script():
    text = to_html(make_tables(full("source", 100) + full("pg_sp", 110)))
    page = Page(text)
    assert page.count("tr") == 3
    assert page.count("b") == 16
    assert not {name for name, _ in page.tags} & {"script", "link", "iframe", "img"}
    assert not re.search(r"https?://|url\(|@import", text)


def test_a_page_of_a_server_asks_it_for_no_icon():
    (link,) = [attributes for tag, attributes in Page(make_page("Live", [], live=True)).tags if tag == "link"]
    assert link == {"rel": "icon", "href": "data:,"}


def test_several_tables_follow_each_other():
    assert Page(to_html(make_tables(full("source") + full("source", severity=3)))).count("table") == 2


def test_what_a_person_wrote_is_shown_and_not_run():
    rows = full(EVIL, weights=EVIL) + full("source_bn", weights=EVIL)
    page = Page(make_report(rows, title=EVIL, intro=EVIL))
    own = Page(make_report(full("a", weights="b") + full("source_bn", weights="b"), title="c", intro="d"))
    assert page.count("script") == own.count("script")
    assert sum(EVIL in each for each in page.texts) == 7
    assert page.data("gains-0-data")["data"][0]["y"] == [EVIL]


def test_a_page_fits_phones_and_the_dark():
    text = make_page("Demo", paragraphs("One.\n\nTwo."))
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert "overflow-x: auto" in text
    assert Page(text).count("p") == 2


@pytest.mark.parametrize(("live", "asked"), [(False, "'none'"), (True, "'self'")])
def test_a_page_may_ask_nobody_but_its_own_server(live, asked):
    (policy,) = [
        each["content"] for name, each in Page(make_page("", [], live=live)).tags if "http-equiv" in each
    ]
    assert "default-src 'none'" in policy
    assert f"connect-src {asked}" in policy


def test_the_pages_own_scripts_name_no_address_and_evaluate_nothing():
    for path in PARTS.iterdir():
        assert not re.search(r"https?://|eval\(|innerHTML|new Function|@import|url\(", path.read_text()), path


def test_no_third_party_script_is_kept_here():
    assert sum(path.stat().st_size for path in PARTS.iterdir()) < 60_000


def test_the_library_comes_last_and_its_absence_is_told_with_the_way_out(monkeypatch):
    assert page_scripts("charts")[-2] == chart_library()
    assert chart_library() not in page_scripts("charts", library=False)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ValueError, match=r"purgegate\[view\]"):
        chart_library()
