"""Numbers in the README are those of the files."""

from pathlib import Path

import purgegate as pg

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


def test_the_readme_states_the_accuracy_of_every_bundled_model():
    assert pg.list_weights()
    for name, facts in pg.list_weights().items():
        assert f"| `{name}` | {100 * facts.accuracy:.2f} % | {facts.total:,} |" in README


def test_the_readme_names_every_command_and_both_make_targets():
    from purgegate.cli import COMMANDS

    assert all(f"purgegate {name}" in README for name in [*COMMANDS, "train"])
    assert "make demo" in README
    assert "make test" in README


def test_every_file_that_the_readme_links_to_exists():
    import re

    root = Path(__file__).parents[1]
    links = re.findall(r"\]\((docs/[^)]+)\)", README)
    assert links
    assert all((root / link).is_file() for link in links)
