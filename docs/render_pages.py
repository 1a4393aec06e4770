"""Take the pictures of the pages: `python docs/render_pages.py` writes those of docs/view.md.

It needs a browser (tools/install_browser.sh) and playwright, which the tests need too.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import purgegate as pg
from purgegate.alarm import Alarm
from purgegate.cli.view import make_view
from purgegate.cli.watch import make_stream_page
from purgegate.evaluate import Domain
from purgegate.figures.exhibits import exhibit_data
from purgegate.figures.objects import corrupted_clouds
from purgegate.figures.page_server import served
from purgegate.figures.timeline import Answered, Timeline
from purgegate.figures.viewer import Viewer
from purgegate.io.datasets import load_dataset
from purgegate.report.results_page import make_report
from purgegate.report.tables import load_rows

DOCS = Path(__file__).parent
WEIGHTS = "point_mae_tiny.shapes"
CHAIR = 51
CLOUDS = 70  # of each half of the stream
WIDE, PHONE = (1280, 800), (390, 844)
SHOWN, DRAWN = "#viewer[aria-busy=false]", "#cost-0 .scatterlayer .point"
CONFUSED, COURSE = "#confusion-0 .heatmaplayer image", "#purged-course path.js-line"


def view_page() -> str:
    """An object among stray points."""
    viewer = Viewer(WEIGHTS, exhibit_data(load_dataset("shapes"), places=[CHAIR]), featured=True)
    return make_view(viewer, title="purgegate view", live=False, corruption="background")


def report_page() -> str:
    """The kept rows of ModelNet40-C."""
    rows = load_rows(DOCS / "results" / "modelnet40_c" / "results.jsonl")
    return make_report(rows, title="ModelNet40-C")


def confusion_page() -> str:
    """What the source takes the embedded test objects for, seen by lidar."""
    model, data = pg.load_backbone(WEIGHTS), load_dataset("shapes")
    bad = np.stack(corrupted_clouds(data, "lidar", severity=5, points=model.points))
    domain = Domain(data._replace(points=bad), "shapes", "lidar", 5)
    return make_report(
        pg.evaluate(pg.create_adapter("source", model), [domain], confusion=True), title="Lidar"
    )


def fill(timeline: Timeline) -> None:
    """A stream of clean objects, then of objects among stray points."""
    data, draw = load_dataset("shapes"), np.random.default_rng(0)
    alarms: list[Alarm] = []
    stream = pg.Stream(pg.load_backbone(WEIGHTS), on_alarm=alarms.append)
    for number, place in enumerate(draw.permutation(len(data.label))[: 2 * CLOUDS]):
        cloud = data.points[place]
        if number >= CLOUDS:
            cloud = pg.corrupt(cloud, "background", severity=5, generator=draw)
        points, name = stream.prepared(cloud), data.classes[data.label[place]]
        (answer,) = stream.answer(points)
        timeline.show(Answered(f"scan{number}.ply", points[0], answer, name))
        while alarms:
            timeline.ring(alarms.pop())


def photograph(browser: Any, page: str, name: str, size: tuple[int, int], *, wait: str, **more: Any) -> None:
    """Write a picture of a page; `keys` are typed first, `at` is scrolled to."""
    dark, keys, at = more.get("dark", False), more.get("keys", ""), more.get("at", "body")
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    tab = context.new_page()
    tab.set_default_timeout(120_000)  # machines may be busy
    tab.goto(page)
    tab.wait_for_selector(wait)
    for key in keys:
        tab.keyboard.press(key)
    tab.locator(at).first.evaluate("element => element.scrollIntoView()")
    tab.wait_for_timeout(1000)
    Image.open(io.BytesIO(tab.screenshot())).convert("RGB").save(DOCS / f"{name}.png", optimize=True)
    context.close()


def main() -> None:
    """Take all pictures."""
    timeline = Timeline()
    fill(timeline)
    streaming = make_stream_page("scans", method="pg_auto", weights=WEIGHTS)
    with (
        sync_playwright() as play,
        tempfile.TemporaryDirectory() as folder,
        served(streaming, timeline.routes, announce=sys.stderr.write) as server,
    ):
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        view, report, confusion = (Path(folder) / f"{name}.html" for name in ("view", "report", "confusion"))
        view.write_text(view_page(), "utf-8")
        report.write_text(report_page(), "utf-8")
        confusion.write_text(confusion_page(), "utf-8")
        photograph(browser, view.as_uri(), "view", WIDE, wait=SHOWN, keys="]" * 18)
        photograph(browser, view.as_uri(), "view_phone", PHONE, wait=SHOWN, keys="mm", dark=True)
        photograph(browser, report.as_uri(), "report", WIDE, wait=DRAWN, at="h2:has-text('Gains')")
        photograph(browser, report.as_uri(), "report_phone", PHONE, wait=DRAWN, dark=True)
        photograph(
            browser, confusion.as_uri(), "confusion", WIDE, wait=CONFUSED, at="h2:has-text('Confusion')"
        )
        photograph(browser, server.address, "stream", (1280, 1080), wait=COURSE)
        photograph(browser, server.address, "stream_phone", PHONE, wait=COURSE, dark=True)
        browser.close()


if __name__ == "__main__":
    main()
