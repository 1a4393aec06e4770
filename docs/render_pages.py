"""Take the pictures of the pages: `python docs/render_pages.py` writes docs/view*.png and docs/report*.png.

It needs a browser (tools/install_browser.sh) and playwright, which the tests need too.
"""

import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from purgegate.cli.view import make_view
from purgegate.figures.exhibits import exhibit_data
from purgegate.figures.viewer import Viewer
from purgegate.io.datasets import load_dataset
from purgegate.report.results_page import make_report
from purgegate.report.tables import load_rows

DOCS = Path(__file__).parent
CHAIR = 51
WIDE, PHONE = (1280, 800), (390, 844)
SHOWN, DRAWN = "#viewer[aria-busy=false]", "#cost-0 .scatterlayer .point"


def view_page() -> str:
    """An object among stray points."""
    exhibits = exhibit_data(load_dataset("shapes"), places=[CHAIR])
    viewer = Viewer("point_mae_tiny.shapes", exhibits, featured=True)
    return make_view(viewer, title="purgegate view", live=False, corruption="background")


def report_page() -> str:
    """The kept rows of ModelNet40-C."""
    rows = load_rows(DOCS / "results" / "modelnet40_c" / "results.jsonl")
    return make_report(rows, title="ModelNet40-C")


def photograph(browser: Any, page: Path, name: str, size: tuple[int, int], *, wait: str, **more: Any) -> None:
    """Write a picture of a page; `keys` are typed first, `at` is scrolled to."""
    dark, keys, at = more.get("dark", False), more.get("keys", ""), more.get("at", "body")
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector(wait)
    for key in keys:
        tab.keyboard.press(key)
    tab.locator(at).first.evaluate("element => element.scrollIntoView()")
    tab.wait_for_timeout(1000)
    Image.open(io.BytesIO(tab.screenshot())).convert("RGB").save(DOCS / f"{name}.png", optimize=True)
    context.close()


def main() -> None:
    """Take all pictures."""
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        view, report = Path(folder) / "view.html", Path(folder) / "report.html"
        view.write_text(view_page(), "utf-8")
        report.write_text(report_page(), "utf-8")
        photograph(browser, view, "view", WIDE, wait=SHOWN, keys="]" * 18)
        photograph(browser, view, "view_phone", PHONE, wait=SHOWN, keys="mm", dark=True)
        photograph(browser, report, "report", WIDE, wait=DRAWN, at="h2:has-text('Gains')")
        photograph(browser, report, "report_phone", PHONE, wait=DRAWN, dark=True)
        browser.close()


if __name__ == "__main__":
    main()
