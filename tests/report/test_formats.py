import csv
import io
import re

import pytest
from rich.console import Console

from purgegate.report.formats import print_tables, to_csv, to_latex, to_markdown, to_text
from purgegate.report.layout import grid_of, number
from purgegate.report.names import COLUMNS
from purgegate.report.published import PUBLISHED, beside_paper, published_lines
from purgegate.report.tables import make_tables
from tests.report.rows import SHARED, full


@pytest.fixture
def tables():
    rows = full("source", 100) + full("source_bn", 110)
    rows += full("pg_sp", 116) + full("pg_sp", 120, seed=1) + full("mate", 100)[:-1]
    return make_tables(rows)


def test_headers_are_the_papers():
    header = grid_of(make_tables(full("source"))[0]).header
    assert " ".join(header[1:16]) == (
        "uni gauss backg impul upsam rbf rbf-inv den-dec dens-inc shear rot cut distort oclsion lidar"
    )


def test_the_best_of_each_column_is_bold_and_ties_all_are(tables):
    grid = grid_of(tables[0])
    best = [[cell.best for cell in line[1:17]] for line in grid.lines]
    assert [line[0].text for line in grid.lines] == ["Source", "Source + BN reset", "MATE", "PG-SP"]
    assert all(best[3])
    assert not any(map(any, best[:3]))
    tied = grid_of(make_tables(full("source", 110) + full("source_bn", 110) + full("tent", 100))[0])
    assert [any(cell.best for cell in line) for line in tied.lines] == [True, True, False]


def test_what_is_not_an_accuracy_is_never_bold(tables):
    assert not any(cell.best for line in grid_of(tables[0]).lines for cell in (line[0], *line[17:]))


def test_a_lone_line_is_the_best_of_nothing():
    assert "**" not in to_markdown(make_tables(full("source")))


def test_markdown_shows_means_spread_differences_and_gaps(tables):
    text = to_markdown(tables)
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert {len(line) for line in lines} == {21}
    shown = {line[0]: line[1:] for line in lines}
    assert shown["PG-SP"][15:] == ["**66.00 ± 1.41**", "+8.00", "+3.00", "2", "200"]
    assert shown["Source"][15:] == ["57.00", "0.00", "−5.00", "1", "200"]
    assert shown["MATE"][14:18] == ["–", "–", "–", "–"]
    assert "MATE has no mean" in text


@pytest.mark.parametrize(
    ("value", "sign", "text"),
    [(None, False, "–"), (68.926, False, "68.93"), (-9.271, True, "−9.27"), (12.174, True, "+12.17"),
     (-0.001, True, "0.00"), (0.0, True, "0.00"), (100.0, False, "100.00")],
)  # fmt: skip
def test_numbers_have_two_decimals_and_a_true_minus(value, sign, text):
    assert number(value, sign=sign) == text


def test_csv_is_unrounded_and_gaps_are_empty(tables):
    records = {record["method"]: record for record in csv.DictReader(io.StringIO(to_csv(tables)))}
    assert float(records["pg_sp"]["mean"]) == pytest.approx(66.0)
    assert float(records["pg_sp"]["spread"]) == pytest.approx(2**0.5)
    assert float(records["pg_sp"]["difference_to_control"]) == pytest.approx(3.0)
    assert records["mate"]["lidar"] == records["mate"]["mean"] == records["mate"]["spread"] == ""
    assert records["source"]["total"] == "200"


def test_csv_of_tables_with_other_columns_has_one_header():
    text = to_csv(make_tables([*full("source"), {**full("source")[0], "corruption": "clean", "severity": 0}]))
    clean, corrupted = csv.DictReader(io.StringIO(text))
    assert (clean["clean"], clean["uniform"]) == ("50.0", "")
    assert (corrupted["clean"], corrupted["uniform"]) == ("", "50.0")


def test_latex_escapes_what_would_be_a_command():
    rows = full("100%_&#${}~^\\", weights="a_b^c")
    text = to_latex(make_tables(rows))
    assert r"100\%\_\&\#\$\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}" in text
    assert r"a\_b\textasciicircum{}c" in text
    assert text.isascii()


def test_latex_lines_have_a_cell_for_every_column_and_braces_close(tables):
    text = to_latex(tables)
    columns = re.search(r"\\begin\{tabular\}\{([lr|]+)\}", text).group(1).replace("|", "")
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") + 1 for line in lines} == {len(columns)} == {21}
    assert text.count("{") == text.count("}")
    assert r"\textbf{66.00 $\pm$ 1.41}" in text


def test_markdown_escapes_what_would_break_the_table():
    text = to_markdown(make_tables(full("a|b*c<d")))
    assert r"a\|b\*c\<d" in text


def test_plain_text_marks_the_best_with_a_star(tables):
    line = next(line for line in to_text(tables).splitlines() if line.startswith("PG-SP"))
    assert line.count("*") == 16
    assert "\x1b" not in to_text(tables)


def shown(tables, width: int) -> list[str]:
    """The lines that a terminal of this width gets."""
    text = io.StringIO()
    print_tables(tables, console=Console(file=text, width=width, force_terminal=True, no_color=True))
    return re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue()).splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_terminal_gets_corruptions_down_and_the_mean_first(tables, width: int):
    plain = shown(tables, width)
    rows = [line for line in plain if re.search(r"\S  +\S", line)]  # not the words around the table
    names = [line.split("  ")[0] for line in rows if line.startswith(("mean", "seeds", *COLUMNS.values()))]
    blocks = [names[place : place + 17] for place in range(0, len(names), 17)]
    assert all(block == ["mean", *COLUMNS.values(), "seeds"] for block in blocks)
    assert all(len(line) <= width for line in plain if line.startswith((*names, "─", "Δ", " ")))
    means = " ".join(line.removeprefix("mean ") for line in plain if line.startswith("mean "))
    assert means.split() == ["57.00", "62.00", "–", "66.00", "±", "1.41"]


def test_the_demos_seven_methods_fit_eighty_columns_and_no_number_is_cut():
    methods = ("source", "source_bn", "tent", "t3a", "pg_sp", "pg_sf", "pg_auto")
    tables = make_tables([row for method in methods for row in full(method, 100, total=128)])
    plain = shown(tables, 80)
    assert sum(line.startswith("mean ") for line in plain) == 1
    assert next(line for line in plain if line.startswith("lidar")).split() == ["lidar", *["100.00"] * 7]
    assert not any("…" in line for line in plain)
    assert all(len(line) <= 80 for line in plain)  # what is said above and below the table too


def test_a_wide_terminal_gets_methods_down(tables):
    assert sum(line.startswith("method ") for line in shown(tables, 200)) == 1


def test_a_subset_is_marked_on_each_line():
    text = to_text(make_tables(full("source", total=2000) + full("source") + full("mate")))
    assert "MATE †" in text
    assert "† A subset: 200 of 2,000 clouds." in text


def test_the_papers_lines_stand_under_ours_with_its_means_and_differences(tables):
    table = beside_paper(tables[0])
    grid = grid_of(table)
    names = [line[0].text for line in grid.lines]
    assert names == [
        "Source",
        "Source, paper",
        "Source + BN reset",
        "MATE",
        "MATE, paper",
        "PG-SP",
        "PG-SP, paper",
    ]
    paper = [cell.text for cell in grid.lines[-1]]
    assert paper[1:4] == ["77.92", "73.83", "28.12"]
    assert paper[16:] == ["68.93", "+14.77", "–", "", ""]
    assert not any(cell.best for line in grid.lines if line[0].text.endswith("paper") for cell in line)


def test_the_papers_lines_change_no_line_of_ours(tables):
    ours = [line for line in beside_paper(tables[0]).lines if not line.published]
    assert tuple(ours) == tables[0].lines


@pytest.mark.parametrize(
    ("other", "lines"),
    [
        ({}, 11), ({"dataset": "ModelNet40-C"}, 11), ({"dataset": "scanobjectnn_c"}, 11),
        ({"backbone": "PointMamba"}, 2), ({"dataset": "shapenet-c", "backbone": "point_mamba"}, 2),
        ({"severity": 4}, 0), ({"dataset": "shapes"}, 0), ({"backbone": "mine"}, 0), ({"backbone": None}, 0),
    ],
)  # fmt: skip
def test_the_paper_is_quoted_only_for_what_it_measured(other: dict, lines: int):
    assert len(published_lines({**SHARED, **other})) == lines


def test_a_table_that_the_paper_lacks_says_so():
    (table,) = make_tables(full("source", dataset="shapes"))
    assert beside_paper(table).lines == table.lines
    assert "no numbers" in beside_paper(table).notes[-1]


def test_sets_of_reconstructed_meshes_have_a_mean_without_occlusion_and_lidar():
    (table,) = make_tables(full("source", 100, dataset="scanobjectnn_obj_only"))
    (note,) = [note for note in grid_of(beside_paper(table)).notes if "without them" in note]
    assert "Source 56.00, Source, paper 41.46." in note  # ours: 50 to 62 in steps of one
    assert not any("without them" in note for note in grid_of(make_tables(full("source"))[0]).notes)
    torn = [each for each in full("source", dataset="shapenetcore") if each["corruption"] != "uniform"]
    torn += full("source_bn", dataset="shapenetcore")
    assert any("without them: Source –, " in note for note in grid_of(make_tables(torn)[0]).notes)


def test_a_mean_over_some_corruptions_says_of_how_many():
    some = [
        row for row in full("source", 100) + full("tent", 110) if row["corruption"] in ("lidar", "uniform")
    ]
    (table,) = make_tables(some)
    grid = grid_of(table)
    assert grid.header[:4] == ("method", "uni", "lidar", "mean of 2")
    assert [line[4].text for line in grid.lines] == ["0.00", "+5.00"]
    assert not any("no mean" in note for note in grid.notes)


def test_published_means_are_those_of_their_cells():
    lines: dict = {}
    with PUBLISHED.open(newline="") as file:
        for record in csv.DictReader(file):
            key = record["dataset"], record["backbone"], record["method"]
            lines.setdefault(key, {})[record["corruption"]] = float(record["accuracy"])
    assert len(lines) == 39
    for key, cells in lines.items():
        assert set(cells) == {*COLUMNS, "mean"}
        assert cells.pop("mean") == pytest.approx(sum(cells.values()) / 15, abs=0.06), key


def test_the_copy_of_the_papers_numbers_is_whole(shared):
    assert PUBLISHED.read_text() == (shared / "paper" / "tables.csv").read_text()
