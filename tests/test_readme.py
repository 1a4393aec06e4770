"""Numbers in the README are those of the files."""

from pathlib import Path
from statistics import fmean

import numpy as np

import purgegate as pg
from purgegate.io.results import read_rows
from purgegate.report.names import title_of
from tests.models import clouds

# Where the README says more than tables do.
LABELS = {
    "pg_auto one view": "PG-Auto, one view",
    "source_bn": "Source + BatchNorm reset (control)",
    "random_purge": "Random purges of the same sizes",
    "random_starts": "As many random starts",
    "pg_auto first": "PG-Auto, first form (strays alone)",
}

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
RESULTS = ROOT / "docs" / "results"


def test_the_page_on_weights_states_the_accuracy_of_every_bundled_model():
    page = (ROOT / "docs" / "weights.md").read_text("utf-8")
    assert pg.list_weights()
    for name, facts in pg.list_weights().items():
        assert f"| `{name}` | {facts.accuracy:.2%} | {facts.total} |" in page


def test_the_page_on_methods_lists_them_all_as_they_are_described():
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    for name, method in pg.METHODS.items():
        origin = " ".join(str(part) for part in (method.paper, method.year) if part) or "–"
        needs = ", ".join(method.needs) or "–"
        assert f"| `{name}` | {method.title} | {method.kind} | {origin} | {needs} |" in page


def test_the_readme_names_every_command_and_both_make_targets():
    from purgegate.cli import COMMANDS

    assert all(f"purgegate {name}" in README for name in COMMANDS)
    assert "make demo" in README
    assert "make test" in README


def test_every_file_that_the_readme_links_to_exists():
    import re

    root = Path(__file__).parents[1]
    links = re.findall(r"\]\((docs/[^)]+)\)", README)
    assert links
    assert all((root / link).is_file() for link in links)


def test_the_means_in_the_readme_are_those_of_the_kept_rows():
    found: dict[tuple[str, str], list[float]] = {}
    for name in ("modelnet40_c", "mamba", "beyond2"):
        for row in read_rows(RESULTS / name / "results.jsonl"):
            second = row["method"] == "pg_auto" and "stages" not in row["given"]
            if row["corruption"] != "clean" and (name == "beyond2") == second:
                form = " one view" if second else " first"
                key = row["method"] + form * bool(row["given"]), row["weights"]
                found.setdefault(key, []).append(100 * row["correct"] / row["total"])
    weights = sorted({name for _, name in found})
    assert len(weights) == 3
    means = {}
    for method in {method for method, _ in found}:
        runs = [found.get((method, name), []) for name in weights]
        means[LABELS.get(method, title_of(method))] = [
            f"{fmean(values):.2f}" if values and len(values) % 15 == 0 else "–" for values in runs
        ]
    head, *lines = README.split("## Results")[1].split("## The command line")[0].split("|---|---|---|---|")
    assert [cell.strip(" `") for cell in head.splitlines()[-1].split("|")[2:-1]] == weights
    table = [line.split("|")[1:-1] for line in lines[0].splitlines() if line.startswith("|")]
    assert {label.strip(" *"): [cell.strip() for cell in cells] for label, *cells in table} == means


def test_the_ten_lines_of_use_run(tmp_path):
    lines = README.split("## Ten lines of use")[1].split("```python")[1].split("```")[0]
    cloud = np.random.default_rng(0).normal(size=(1024, 3)).astype(np.float32)
    names = {"batch": clouds(4, 1024), "cloud": cloud, "rng": np.random.default_rng(1)}
    exec(lines, names)
    assert names["logits"].shape == names["tent"](names["batch"]).shape == (4, 40)
    assert names["points"].shape == (1, 1024, 3)
    assert names["answer"].logits.shape == (1, 40)
    assert names["bad"].shape != cloud.shape


def test_the_tables_on_streams_are_those_that_were_measured():
    page = (ROOT / "docs" / "streams.md").read_text("utf-8")
    for part in ("accuracy", "alarm", "unknown", "picture"):
        assert (RESULTS / "stream" / f"{part}.md").read_text("utf-8").strip() in page
