"""A real browser, where there is one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ALONE = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


class Opened(NamedTuple):
    """A page in the browser, with what it said on its console and where it asked."""

    page: Any
    console: list[str]
    asked: list[str]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser without a window; tests that need it are skipped without one."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright, an extra of dev")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("needs a browser: run tools/install_browser.sh, or install chromium")
    with driver.sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, args=list(ALONE))
        yield started
        started.close()


@pytest.fixture(scope="module")
def open_page(browser) -> Iterator[Any]:
    """Open a file or an address in a window of some size and colours."""
    contexts = []

    def open_it(where: Path | str, *, width: int = 1280, dark: bool = False, ready: str = "") -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(90_000)  # machines may be busy
        opened = Opened(page, [], [])
        page.on("console", lambda told: opened.console.append(f"{told.type}: {told.text}"))
        page.on("pageerror", lambda error: opened.console.append(f"error: {error}"))
        page.on("request", lambda request: opened.asked.append(request.url))
        page.goto(where.as_uri() if isinstance(where, Path) else where)
        if ready:
            page.wait_for_selector(ready)
        return opened

    yield open_it
    for context in contexts:
        context.close()
