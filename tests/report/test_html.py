import base64
import re
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure

from purgegate.report.html import write_page
from purgegate.report.tables import make_tables
from tests.report.rows import full

EMPTY = {"meta", "img"}


class Page(HTMLParser):
    """A page's tags and texts; tags must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def page(tmp_path):
    def write(**parts) -> str:
        write_page(tmp_path / "deep" / "page.html", **parts)
        return (tmp_path / "deep" / "page.html").read_text("utf-8")

    return write


def figure() -> Figure:
    made = Figure(figsize=(1, 1))
    made.subplots().plot([0, 1])
    return made


def test_a_page_holds_all_it_shows(page):
    (table,) = make_tables(full("source", 100) + full("pg_sp", 110))
    text = page(title="Demo", intro="One.\n\nTwo.", table=table, figures=[("A line", figure())])
    tags = Page(text).tags
    names = [name for name, _ in tags]
    assert names.count("tr") == 3
    assert names.count("p") == 4
    assert names.count("b") == 16
    assert not set(names) & {"script", "link", "iframe"}
    sources = [attributes["src"] for name, attributes in tags if name == "img"]
    assert base64.b64decode(sources[0].removeprefix("data:image/png;base64,"))[:4] == b"\x89PNG"
    assert not re.search(r"https?://|url\(|@import", text)


def test_what_a_person_wrote_is_shown_and_not_run(page):
    evil = '<script>alert("&")</script>'
    (table,) = make_tables(full(evil, weights=evil))
    text = page(title=evil, intro=evil, table=table, figures=[(evil, figure())])
    parsed = Page(text)
    assert "script" not in [name for name, _ in parsed.tags]
    assert sum(evil in each for each in parsed.texts) == 6
    assert next(attributes["alt"] for name, attributes in parsed.tags if name == "img") == evil


def test_a_page_fits_phones_and_the_dark(page):
    text = page(title="Demo")
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert "overflow-x: auto" in text


def test_several_tables_follow_each_other(page):
    tables = make_tables(full("source") + full("source", severity=3))
    assert page(title="Demo", table=tables).count("<table>") == 2
