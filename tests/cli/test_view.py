import pytest

from purgegate.cli.view import default_weights, find_exhibits
from purgegate.io.formats.ply import write_ply
from purgegate.points.shapes import make_shapes
from tests.report.pages import Page


@pytest.fixture
def files(tmp_path):
    shapes = make_shapes("test", count=1)
    for place in (0, 7):
        write_ply(tmp_path / f"{shapes.classes[place]}.ply", shapes.points[place])
    return tmp_path


def test_files_become_one_page_that_can_be_mailed(purgegate, files):
    out = files / "deep" / "page.html"
    run = purgegate("view", files, "--weights", "point_mae_tiny.shapes", "--method", "pg_sf", "--out", out)
    assert run.code == 0, run.err
    page = Page(out.read_text("utf-8"))
    data = page.data("viewer-data")
    assert [cloud["name"] for cloud in data["clouds"]] == ["aeroplane.ply", "chair.ply"]
    assert [method["title"] for method in data["methods"]] == ["PG-SF"]
    assert all(len(scene["answers"]["pg_sf"]["sizes"]) == 64 for scene in data["scenes"])
    assert str(files) not in out.read_text("utf-8")  # nobody's folders are mailed along
    assert out.stat().st_size < 6_000_000


def test_a_data_set_is_meant_by_its_name_and_brings_its_weights():
    exhibits = find_exhibits(["shapes"], most=2)
    assert [each.truth for each in exhibits] == ["aeroplane", "vase"]
    assert default_weights(["shapes"]) == "point_mae_tiny.shapes"
    assert default_weights(["mine.ply"]) == "point_mae_tiny.modelnet40"


def test_a_data_set_in_a_file_shows_its_classes(tmp_path):
    import numpy as np

    shapes = make_shapes("test", count=1)
    np.savez(tmp_path / "set.npz", points=shapes.points, label=shapes.label, classes=shapes.classes)
    exhibits = find_exhibits([str(tmp_path / "set.npz")])
    assert [each.truth for each in exhibits] == list(shapes.classes)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none.ply"], "none.ply is missing"),
        (["shapes", "--corruption", "rain"], "rain"),
        (["shapes", "--corruption", "uniform", "--severity", 9], "severity"),
    ],
)
def test_the_server_does_not_start_with_what_cannot_be_shown(purgegate, arguments, told: str):
    run = purgegate("view", *arguments, "--no-browser", "--weights", "point_mae_tiny.shapes")
    assert run.code == 2
    assert told in run.err
    assert "http://" not in run.out


def test_a_port_that_cannot_be_is_refused(purgegate):
    run = purgegate("view", "shapes", "--port", 99999, "--no-browser")
    assert run.code == 2
    assert "65535" in run.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none.ply"], "none.ply"),
        (["shapes", "--method", "nothing"], "nothing"),
        (["shapes", "--corruption", "rain"], "rain"),
        (["shapes", "--method", "bftt3d"], "purgegate bench"),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_line(purgegate, tmp_path, arguments, told: str):
    run = purgegate("view", *arguments, "--clouds", 1, "--out", tmp_path / "page.html")
    assert run.code == 2
    assert told in run.err
    assert "Traceback" not in run.err
    assert not (tmp_path / "page.html").exists()
