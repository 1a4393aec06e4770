"""The viewer as a person has it: what is drawn, moved, chosen and typed, in a real browser."""

import io
import json
import re

import numpy as np
import pytest

import purgegate as pg
from purgegate.cli.view import make_view
from purgegate.figures.exhibits import exhibit_data, exhibit_files
from purgegate.figures.page_server import served
from purgegate.figures.scenes import unpack
from purgegate.figures.viewer import Viewer
from purgegate.io.labelled import Dataset
from purgegate.points.corruptions import CORRUPTIONS
from purgegate.points.shapes import make_shapes
from purgegate.prepare import prepare

WEIGHTS = "point_mae_tiny.shapes"
READY = "#viewer[aria-busy=false][data-shown]"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def viewer() -> Viewer:
    data = Dataset(*make_shapes("test", count=1))
    return Viewer(WEIGHTS, exhibit_data(data, places=[0, 7, 16]), methods=["pg_sp", "pg_auto"])


@pytest.fixture(scope="module")
def file(viewer, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(make_view(viewer, title="Test", live=False, corruption="background"), "utf-8")
    return path


@pytest.fixture(scope="module")
def shown(file, open_page):
    return open_page(file, ready=READY)


def serving(viewer: Viewer):
    """The page of a viewer, as long as it is served."""
    return served(make_view(viewer, title="Live", live=True), viewer.routes, announce=lambda text: None)


@pytest.fixture(scope="module")
def live(viewer, open_page):
    with serving(viewer) as server:
        yield open_page(server.address, ready=READY)


def pixels(page, selector: str = "#cloud") -> np.ndarray:
    """What is drawn, as (h, w, 3) numbers."""
    image = pytest.importorskip("PIL.Image")
    page.wait_for_timeout(150)
    return np.asarray(image.open(io.BytesIO(page.locator(selector).screenshot())).convert("RGB")).astype(int)


def state(page) -> list:
    """Cloud, method, corruption and purge size that are shown, once nothing is under way."""
    page.wait_for_selector(READY)
    return json.loads(page.locator("#viewer").get_attribute("data-shown"))


def bars(page) -> dict[str, float]:
    """The classes and shares that stand in the page."""
    texts = page.locator("#bars span").all_inner_texts()
    return dict(zip(texts[::2], map(float, texts[1::2]), strict=True))


def move(page, size: int) -> None:
    """Move the slider as a hand does."""
    page.evaluate(
        "size => { const slider = document.getElementById('size'); slider.value = size; "
        "slider.dispatchEvent(new Event('input')); }",
        size,
    )


def test_the_cloud_is_drawn(shown):
    drawn = pixels(shown.page)
    ink = np.abs(drawn - drawn[2, 2]).max(axis=2) > 40
    assert 0.01 < ink.mean() < 0.5
    assert len(np.unique(drawn[ink] // 32, axis=0)) > 10  # in many colours


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_random_clouds_at_random_sizes_are_shown_as_the_gate_answers_them(open_page):
    """The shares in the page, to 1e-3, of clouds broken on the spot, by either score."""
    exhibits = exhibit_data(Dataset(*make_shapes("test", count=3)))
    model, draw = pg.load_backbone(WEIGHTS), np.random.default_rng(0)
    scores = {
        "pg_sp": pg.SourceDistance(pg.SourceStatistics.from_weights(WEIGHTS)),
        "pg_sf": pg.ClassDistance(),
    }
    with serving(Viewer(WEIGHTS, exhibits, methods=list(scores))) as server:
        page = open_page(server.address, ready=READY).page
        for place in range(50):
            if place % 5 == 0:
                name, corruption = str(draw.choice(list(scores))), str(draw.choice(["", *CORRUPTIONS]))
                page.locator("#method").select_option(name)
                page.locator("#corruption").select_option(corruption)
            assert state(page)[:3] == [place, name, corruption]
            severity = int(page.locator("#severity").input_value()) if corruption else 0
            size = int(draw.integers(64))
            move(page, size)
            points = prepare(exhibits[place].cloud(corruption, severity, points=1024), model)
            gate = pg.PurgeGate(model, scores[name], purge=(size,), norm="blend")
            check_shown(page, gate.predict(points), size, model.class_names)
            page.locator("#next").click()


def check_shown(page, found, size: int, names: tuple[str, ...]) -> None:
    """The page shows the five likeliest classes, the entropy, the size and the shift."""
    wanted = found.logits.softmax(-1)[0]
    told = bars(page)
    assert len(told) == 5
    for name, share in told.items():
        assert share == pytest.approx(float(wanted[names.index(name)]), abs=1e-3)
    assert sum(told.values()) == pytest.approx(float(wanted.topk(5).values.sum()), abs=4e-3)
    facts = page.locator("#facts").inner_text()
    assert f"{size} of 64 tokens" in facts
    shown = {name: float(re.search(rf"{name}\s+([\d.]+)", facts)[1]) for name in ("entropy", "shift")}
    assert shown["entropy"] == pytest.approx(float(found.entropy[0, 0]), abs=1e-3)
    assert shown["shift"] == pytest.approx(float(found.shift[0]), abs=6e-3)


def test_the_slider_shows_what_the_gate_answers(shown, viewer):
    model = pg.load_backbone(WEIGHTS)
    score = pg.SourceDistance(pg.SourceStatistics.from_weights(WEIGHTS))
    points = prepare(viewer.exhibits[0].cloud("background", 5, points=1024), model)
    for size in (0, 17, 63):
        move(shown.page, size)
        gate = pg.PurgeGate(model, score, purge=(size,), norm="blend")
        check_shown(shown.page, gate.predict(points), size, model.class_names)


def test_purged_points_turn_red(shown):
    move(shown.page, 0)
    before = pixels(shown.page)
    move(shown.page, 40)
    after = pixels(shown.page)
    red = [((x[..., 0] > 150) & (x[..., 1] < 110) & (x[..., 2] < 120)).sum() for x in (before, after)]
    assert red[0] < 50
    assert red[1] > 1000


def test_the_curve_is_drawn_and_follows_the_slider(shown):
    shown.page.wait_for_selector("#sweep .scatterlayer path.js-line")
    assert shown.page.locator("#sweep .scatterlayer path.js-line").count() == 2
    line = "#sweep .shapelayer path"
    before = shown.page.locator(line).first.get_attribute("d")
    move(shown.page, 11)
    shown.page.wait_for_function(
        f"old => document.querySelector('{line}').getAttribute('d') !== old", arg=before
    )


def test_keys_do_what_the_page_says(shown):
    page = shown.page
    page.locator("h1").click()
    first, method, _, size = state(page)
    page.keyboard.press("]")
    assert state(page)[3] == size + 1
    page.keyboard.press("[")
    page.keyboard.press("[")
    assert state(page)[3] == size - 1
    page.keyboard.press("ArrowRight")
    assert state(page)[0] == (first + 1) % 3
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert state(page)[0] == (first - 1) % 3
    page.keyboard.press("m")
    assert state(page)[1] != method
    page.keyboard.press("m")
    colour = page.locator("#colour").input_value()
    page.keyboard.press("c")
    assert page.locator("#colour").input_value() != colour
    page.keyboard.press("g")
    assert f"{state(page)[3]} tokens" in page.locator("#facts").inner_text()


def test_arrows_change_the_cloud_after_a_tick_and_move_what_they_move(shown):
    page = shown.page
    first, method, *_ = state(page)
    page.locator("#layers input").first.click()
    page.locator("#layers input").first.click()
    page.locator("#wrong").focus()
    page.keyboard.press("ArrowRight")
    assert state(page)[0] == (first + 1) % 3
    page.keyboard.press("ArrowLeft")
    move(page, 10)
    page.locator("#size").focus()
    page.keyboard.press("ArrowRight")
    assert state(page) == [first, method, "", 11]
    page.locator("h1").click()


def test_no_patch_has_the_red_of_what_was_purged(shown):
    red = "(([r, g, b]) => r > 1.4 * Math.max(g, b))"
    assert shown.page.evaluate(
        f"[{red}(colours.STRAY), [...Array(64).keys()].map(colours.hue).some({red})]"
    ) == [
        True,
        False,
    ]


def test_a_finger_turns_and_two_zoom_the_cloud(file, browser):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector(READY)
    box = page.locator("#cloud").bounding_box()
    touch = context.new_cdp_session(page)

    def swipe(*ways: tuple[float, float, float, float]) -> None:
        for part, kind in ((0, "touchStart"), (0.5, "touchMove"), (1, "touchMove")):
            points = [
                {"x": box["x"] + x + part * dx, "y": box["y"] + y + part * dy, "id": finger}
                for finger, (x, y, dx, dy) in enumerate(ways)
            ]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    before = page.evaluate("viewer.stage.view")
    swipe((100, 150, 60, 30))
    turned = page.evaluate("viewer.stage.view")
    assert turned["yaw"] == pytest.approx(before["yaw"] - 0.5, abs=0.1)
    assert turned["pitch"] == pytest.approx(before["pitch"] + 0.25, abs=0.05)
    swipe((150, 150, -50, 0), (250, 150, 50, 0))
    assert page.evaluate("viewer.stage.view")["zoom"] == pytest.approx(2 * turned["zoom"], rel=0.05)
    assert page.evaluate("scrollY") == 0
    context.close()


def test_a_hand_turns_and_zooms_the_cloud(shown):
    page = shown.page
    page.mouse.move(0, 0)
    before = pixels(page)
    box = page.locator("#cloud").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 90, middle[1] + 20, steps=4)
    page.mouse.up()
    turned = pixels(page)
    assert np.abs(turned - before).max() > 40
    page.mouse.wheel(0, -400)
    near = pixels(page)
    ink = [(np.abs(each - each[2, 2]).max(axis=2) > 40).sum() for each in (turned, near)]
    assert ink[1] > 1.2 * ink[0]
    page.mouse.dblclick(*middle)
    page.mouse.move(0, 0)
    np.testing.assert_array_equal(pixels(page), before)


def test_dark_and_light_are_a_click_apart(shown, file, open_page):
    page = shown.page
    light = pixels(page)[2, 2]
    page.locator("#theme").click()
    dark = pixels(page)[2, 2]
    page.locator("#theme").click()
    assert light.min() > 200
    assert dark.max() < 60
    assert pixels(open_page(file, dark=True, ready=READY).page)[2, 2].tolist() == dark.tolist()


def test_wrong_answers_can_be_gone_through(shown, viewer):
    page, names = shown.page, viewer.page_data(live=True)["classes"]
    page.locator("#method").select_option("pg_sp")
    wrong = []
    for place, exhibit in enumerate(viewer.exhibits):
        answer = viewer.scene(place, corruption="background")["answers"]["pg_sp"]
        shares = unpack(answer["probabilities"])
        told = names[int(shares.reshape(64, -1)[answer["chosen"]].argmax())]
        wrong += [place] if told != exhibit.truth else []
    assert 0 < len(wrong) < 3, "the test wants some of each"
    page.locator("#wrong").check()
    seen = []
    for _ in range(3):
        page.locator("#next").click()
        seen.append(state(page)[0])
        assert "wrong" in page.locator("#facts").inner_text()
    assert set(seen) == set(wrong)
    page.locator("#wrong").uncheck()
    page.locator("#next").click()
    while state(page)[0] in wrong:
        page.locator("#next").click()
    page.locator("#wrong").check()  # among right ones, the next wrong one is looked for
    assert state(page)[0] in wrong
    page.locator("#wrong").uncheck()


def test_strays_are_a_layer_that_can_be_switched_off(shown):
    page = shown.page
    page.locator("#method").select_option("pg_auto")
    state(page)
    layer = page.locator("#layers label", has_text="strays")
    with_them = pixels(page)
    layer.locator("input").uncheck()
    without = pixels(page)
    assert (np.abs(with_them - without).max(axis=2) > 40).sum() > 500
    page.locator("#layers label", has_text="strays").locator("input").check()
    assert page.locator("#size").is_disabled()
    page.locator("#method").select_option("pg_sp")


def test_a_phone_shows_all_without_scrolling_sideways(file, open_page):
    page = open_page(file, width=390, ready=READY).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    drawn = pixels(page)
    assert drawn.shape[1] <= 390
    assert (np.abs(drawn - drawn[2, 2]).max(axis=2) > 40).mean() > 0.01


def test_no_page_complains_or_asks_anybody(shown, live, file):
    page = shown.page
    page.evaluate("fetch('https://example.org/').catch(() => 0)")  # what the page's own policy forbids
    page.wait_for_timeout(300)
    assert [line for line in shown.console if "Content Security Policy" in line or "example.org" in line]
    assert [line for line in shown.console if "example.org" not in line] == []
    assert [address for address in shown.asked if "example.org" not in address] == [file.as_uri()]


def test_a_file_with_everything_inside_is_small(viewer, file):
    one = viewer.page_data(live=False, corruption="background")
    assert file.stat().st_size < 6 * MEGABYTE
    assert len(json.dumps(one | {"scenes": one["scenes"][:1]})) < MEGABYTE / 2


def test_the_menus_of_the_server_break_a_chair_and_it_recovers(live, viewer):
    page = live.page
    assert state(page) == [0, "pg_sp", "", state(page)[3]]
    page.locator("#next").click()
    page.locator("#corruption").select_option("background")
    page.locator("#severity").select_option("3")
    assert state(page)[:3] == [1, "pg_sp", "background"]
    answer = viewer.scene(1, "pg_sp", corruption="background", severity=3)["answers"]["pg_sp"]
    assert state(page)[3] == answer["sizes"][answer["chosen"]]
    page.locator("#method").select_option("pg_auto")
    assert state(page)[:3] == [1, "pg_auto", "background"]
    assert "chair, right" in page.locator("#facts").inner_text()
    assert "strays" in page.locator("#facts").inner_text()
    assert live.console == []
    assert all(address.startswith("http://127.0.0.1:") for address in live.asked)


def test_a_cloud_that_cannot_be_read_is_told_on_the_page(tmp_path, open_page):
    np.save(tmp_path / "good.npy", make_shapes("test", count=1).points[0])
    (tmp_path / "bad.ply").write_bytes(b"no cloud at all")
    viewer = Viewer(WEIGHTS, exhibit_files([tmp_path / "good.npy", tmp_path / "bad.ply"]), methods=["source"])
    with serving(viewer) as server:
        page = open_page(server.address, ready=READY).page
        page.locator("#next").click()
        page.wait_for_function("() => document.getElementById('note').textContent.includes('cannot be read')")
        # Nothing of the cloud before it stays beside its name.
        assert page.locator("#name").inner_text() == "bad.ply (2 of 2)"
        assert page.locator("#facts").inner_text() == page.locator("#layers").inner_text() == ""
        assert len(np.unique(pixels(page)[60:], axis=0)) == 1
        page.keyboard.press("]")
        page.keyboard.press("c")
        page.locator("#next").click()
        page.wait_for_function("() => !document.getElementById('note').textContent")
        assert state(page)[0] == 0


def test_a_hundred_thousand_points_stay_usable(tmp_path, open_page):
    rng = np.random.default_rng(0)
    around = rng.normal(size=(100_000, 3))
    np.save(
        tmp_path / "large.npy", (around / np.linalg.norm(around, axis=1, keepdims=True)).astype(np.float32)
    )
    viewer = Viewer(WEIGHTS, exhibit_files([tmp_path / "large.npy"]), methods=["pg_sp"])
    path = tmp_path / "page.html"
    path.write_text(make_view(viewer, title="Large", live=False), "utf-8")
    page = open_page(path, ready=READY).page
    assert "1,024 of 100,000 points; 8,192 are drawn" in page.locator("#note").inner_text()
    each = page.evaluate(
        "(() => { const start = performance.now(); for (let i = 0; i < 20; i += 1) "
        "{ viewer.stage.turn(0.1, 0); viewer.stage.draw(); } return (performance.now() - start) / 20; })()"
    )
    assert each < 250  # milliseconds a frame, on a machine that is busy with other tests
