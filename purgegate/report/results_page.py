"""Results as one page: tables that sort, gains, cost against accuracy, and clouds where there are some."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from purgegate.io.results import Row
from purgegate.report.charts import confusion_data, cost_chart, gains_chart
from purgegate.report.html import (
    VIEWER,
    chart_section,
    confusion_section,
    make_page,
    page_scripts,
    paragraphs,
    table_section,
    viewer_section,
)
from purgegate.report.layout import as_grid, mean_first
from purgegate.report.published import beside_paper
from purgegate.report.tables import group_rows, make_tables


def make_report(
    rows: Sequence[Row],
    *,
    title: str,
    intro: str = "",
    paper: bool = False,
    viewer: dict[str, Any] | None = None,
    charts: bool = True,
) -> str:
    """The page; `viewer` is what the cloud viewer is to show, and without `charts` no library is needed."""
    tables = make_tables(rows)
    shown = [beside_paper(each) for each in tables] if paper else tables
    body = paragraphs(intro) + [table_section(mean_first(as_grid(each))) for each in shown]
    if charts:
        body += [
            section for number, group in enumerate(group_rows(rows)) for section in _charts(group, number)
        ]
    if viewer is not None:
        body += ["<h2>Some of the clouds</h2>", viewer_section(viewer)]
    names = [*(VIEWER if viewer else ()), "charts", *(["confusion"] if charts else [])]
    scripts = page_scripts(*names, library=charts)
    return make_page(title, body, scripts=scripts)


def has_charts() -> bool:
    """Whether the library of the charts is installed."""
    return find_spec("plotly") is not None


def _charts(rows: list[Row], number: int) -> list[str]:
    (table,) = make_tables(rows)
    of = as_grid(table).title
    sections = []
    if chart := gains_chart(rows):
        caption = "Points gained or lost against the control; the numbers of both are shown on hover."
        sections.append(chart_section(f"Gains: {of}", caption, chart, name=f"gains-{number}"))
    if chart := cost_chart(rows):
        caption = "Up and to the left is better; the time is that of one cloud, on the machine that ran them."
        sections.append(chart_section(f"Cost: {of}", caption, chart, name=f"cost-{number}"))
    if data := confusion_data(rows):
        sections.append(confusion_section(f"Confusion: {of}", data, name=f"confusion-{number}"))
    return sections
