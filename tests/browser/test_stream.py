"""The page of a stream while it runs."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

import purgegate as pg
from purgegate.alarm import Alarm
from purgegate.answers import Answer
from purgegate.cli.watch import make_stream_page
from purgegate.figures.page_server import served
from purgegate.figures.timeline import Answered, Timeline
from purgegate.points.shapes import make_shapes

READY = "#stream[aria-busy=false]"
SHAPES = make_shapes("test", count=2)
CLOUDS = [pg.prepare(cloud, SimpleNamespace(points=1024))[0] for cloud in SHAPES.points]


def feed(
    timeline: Timeline, count: int, *, first: int = 0, shift: float = 13.0, state: str = "quiet"
) -> None:
    """So many answers: every fourth is wrong, and of every fifth the class is not known."""
    for place in range(first, first + count):
        name = SHAPES.classes[SHAPES.label[place % 44]]
        truth = "" if place % 5 == 4 else "sofa" if place % 4 == 3 and name != "sofa" else name
        answer = Answer(
            0, name, 0.8, purged=10, shift=shift + 0.1 * (place % 3), purged_share=0.05,
            stages=("strays",), alarm=Alarm(state, 0.1 * place, place + 1), unknown=place % 7 == 0,
        )  # fmt: skip
        timeline.show(Answered(f"scans/{name}/<b>{place}.ply", CLOUDS[place % 44], answer, truth))


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline()


@pytest.fixture(scope="module")
def address(timeline):
    page = make_stream_page("scans", method="pg_auto", weights="point_mae_tiny.shapes")
    with served(page, timeline.routes, announce=lambda text: None) as server:
        yield server.address


@pytest.fixture(scope="module")
def shown(address, open_page):
    return open_page(address, ready=READY)


def tile(page, name: str) -> str:
    return page.locator(f"#{name}").inner_text()


def wait_for(page, seen: int) -> None:
    page.wait_for_selector(f"{READY}[data-seen='{seen}']")


def test_a_stream_is_followed_while_it_runs(shown, timeline):
    page = shown.page
    assert tile(page, "seen") == "0"
    assert "No cloud has come yet" in tile(page, "note")
    feed(timeline, 20)
    wait_for(page, 20)
    told = timeline.since(0)
    assert tile(page, "all") == f"{100 * told['right'] / told['known']:.1f} %"
    assert tile(page, "shift") == f"{np.mean([cloud['shift'] for cloud in told['clouds']]):.2f}"
    assert tile(page, "purged") == "5.0 %"
    assert tile(page, "alarm") == "quiet"
    feed(timeline, 60, first=20, shift=20.0)
    wait_for(page, 80)
    last = timeline.since(30)["clouds"]
    known = [cloud["right"] for cloud in last if cloud["right"] is not None]
    assert tile(page, "accuracy") == f"{100 * np.mean(known):.1f} %"
    assert tile(page, "shift") == f"{np.mean([cloud['shift'] for cloud in last]):.2f}"


def test_four_courses_are_drawn(shown):
    for name, lines in (("accuracy", 1), ("shift", 1), ("alarm", 1), ("purged", 1)):
        assert shown.page.locator(f"#{name}-course path.js-line").count() == lines
    assert shown.page.locator("#shift-course .point").count() == 80
    ends = shown.page.evaluate(
        "document.querySelector('#accuracy-course .course').data[0].y.map((share) => Math.round(1e6 * share))"
    )
    assert len(ends) == 64  # clouds whose class is known
    assert ends[0] == 1_000_000


def test_the_last_clouds_are_pictures_the_newest_first(shown, timeline):
    page = shown.page
    captions = page.locator("#pictures figcaption").all_inner_texts()
    assert len(captions) == 8
    assert captions[0].startswith("80: <b>79.ply")
    picture = timeline.since(79)["pictures"][0]
    assert f"{picture['class']} 0.80" in captions[0]
    image = pytest.importorskip("PIL.Image")
    for place in (0, 7):
        shot = page.locator("#pictures canvas").nth(place).screenshot()
        drawn = np.asarray(image.open(io.BytesIO(shot)).convert("RGB")).astype(int)
        assert (np.abs(drawn - drawn[2, 2]).max(axis=2) > 40).mean() > 0.02


def test_an_alarm_is_put_into_words_and_lines(shown, timeline):
    feed(timeline, 1, first=80, state="ringing")
    timeline.ring(Alarm("ringing", 1.2, seen=81, rang=81, since=60, rank=0.9))
    wait_for(shown.page, 81)
    shown.page.wait_for_selector("#alarms li")
    assert tile(shown.page, "alarm") == "ringing"
    assert "alarm at cloud 81: since cloud 60" in tile(shown.page, "alarms")
    assert shown.page.locator("#shift-course .shapelayer path").count() == 2


def test_failures_are_told_and_a_name_is_text(shown, timeline):
    timeline.fail("x.ply", "x.ply cannot be read: <i>no cloud</i>")
    shown.page.wait_for_function(
        "() => document.getElementById('note').textContent.includes('cannot be read')"
    )
    assert "1 not answered, the last: x.ply cannot be read: <i>no cloud</i>" in tile(shown.page, "note")


def test_a_phone_shows_a_stream_in_one_column_and_in_the_dark(address, open_page):
    page = open_page(address, width=390, dark=True, ready="#shift-course path.js-line").page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    places = page.evaluate("[...document.querySelectorAll('.courses > div')].map((each) => each.offsetLeft)")
    assert len(set(places)) == 1
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"


def test_another_run_at_the_same_address_is_begun_anew(open_page):
    first = Timeline()
    feed(first, 12)
    current = [first]
    page = make_stream_page("scans", method="pg_auto", weights="point_mae_tiny.shapes")
    with served(
        page, {"/stream": lambda query: current[0].routes["/stream"](query)}, announce=lambda text: None
    ) as server:
        opened = open_page(server.address, ready=f"{READY}[data-seen='12']").page
        current[0] = Timeline()
        feed(current[0], 3)
        wait_for(opened, 3)
        assert opened.locator("#shift-course .point").count() == 3
        assert opened.locator("#pictures figure").count() == 3


def test_a_long_stream_is_lines_of_two_thousand_clouds_and_dots_of_three_hundred(open_page):
    timeline = Timeline()
    feed(timeline, 2100)
    page = make_stream_page("scans", method="pg_auto", weights="point_mae_tiny.shapes")
    with served(page, timeline.routes, announce=lambda text: None) as server:
        opened = open_page(server.address, ready="#shift-course path.js-line").page
        assert opened.locator("#shift-course .point").count() == 300
        count = "document.querySelector('#alarm-course .course').data[0].y.length"
        assert opened.evaluate(count) == 2000
        assert tile(opened, "seen") == "2,100"


def test_the_end_is_told_and_nothing_is_asked_after_it(shown, timeline):
    timeline.end()
    shown.page.wait_for_function("() => document.getElementById('note').textContent.includes('has ended')")
    asked = len(shown.asked)
    shown.page.wait_for_timeout(2500)
    assert len(shown.asked) == asked


def test_the_page_is_silent_and_asks_its_own_server_alone(shown, address):
    assert shown.console == []
    assert all(url.startswith(address) for url in shown.asked)
