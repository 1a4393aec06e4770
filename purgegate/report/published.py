"""The paper's published numbers, beside ours."""

import csv
from dataclasses import replace
from pathlib import Path

from purgegate.adapt import METHODS
from purgegate.io.results import Row
from purgegate.points.corruptions import published
from purgegate.report.tables import Line, Table

PUBLISHED = Path(__file__).with_name("paper.csv")
SEVERITY = 5  # the only one in the paper's tables

DATASETS = {
    "modelnet40-c": ("modelnet40", "modelnet40c", "modelnetc"),
    "scanobjectnn-c": ("scanobjectnnc", "scanobjectnnobjonly", "scanobjectnnobjonlyc"),
    "shapenet-c": ("shapenetc", "shapenet55", "shapenet55c", "shapenetcore", "shapenetcorec"),
}


def beside_paper(table: Table) -> Table:
    """The table with the paper's line under the last of each method that the paper has for its setting."""
    known = published_lines(table.setting) if table.columns == published() else {}
    if not known:
        note = "The paper has no numbers for this data set, backbone, severity and set of corruptions."
        return replace(table, notes=(*table.notes, note))
    lines: list[Line] = []
    for place, line in enumerate(table.lines):
        lines.append(line)
        last = place + 1 == len(table.lines) or table.lines[place + 1].method != line.method
        if last and line.method in known:
            lines.append(known[line.method])
    notes = [
        "Lines of the paper are as published: its own weights, corrupted files and (for some methods) runs."
    ]
    if any(line.method in METHODS and METHODS[line.method].standard for line in lines):
        notes.append(
            "The paper's MATE and SMART-PC start anew from the source for every cloud (`online=False`)."
        )
    return replace(table, lines=tuple(lines), notes=(*table.notes, *notes))


def published_lines(setting: Row) -> dict[str, Line]:
    """The paper's line for each of our methods in a setting; none where the paper has no such table."""
    dataset = next((name for name, ours in DATASETS.items() if _letters(setting["dataset"]) in ours), None)
    backbone = _letters(setting["backbone"])
    if setting["severity"] != SEVERITY:
        return {}
    with PUBLISHED.open(newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["dataset"] == dataset]
    rows = [row for row in measured if backbone.startswith(_letters(row["backbone"]))]
    cells: dict[str, dict[str, float]] = {}
    for row in rows:
        cells.setdefault(row["method"], {})[row["corruption"]] = float(row["accuracy"])
    return {
        ours: Line(
            ours,
            "",
            tuple(cells[method.published][name] for name in published()),
            mean=cells[method.published]["mean"],
            published=True,
        )
        for ours, method in METHODS.items()
        if method.published in cells
    }


def _letters(name: object) -> str:
    return "".join(letter for letter in str(name).lower() if letter.isalnum())
