"""`import purgegate` is quick: a public name is imported when it is first used."""

import ast
import sys
from pathlib import Path

import pytest

import purgegate as pg
from tests.fresh import HEAVY, run_fresh


def test_importing_the_package_imports_nothing_heavy():
    loaded = run_fresh("import purgegate").loaded
    assert "purgegate.version" in loaded
    assert not loaded & HEAVY


def test_what_type_checkers_see_is_what_is_public():
    tree = ast.parse(Path(pg.__file__).read_text())
    seen = {
        alias.asname: f"{node.module}.{alias.name}"
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: f"purgegate.{module}.{name}" for name, module in pg.PUBLIC.items()}
    assert pg.__all__ == sorted(seen)


@pytest.mark.parametrize("name", pg.PUBLIC)
def test_a_public_name_is_that_of_its_module(name):
    assert getattr(pg, name) is getattr(sys.modules[f"purgegate.{pg.PUBLIC[name]}"], name)


@pytest.mark.parametrize(
    "code",
    [
        "from purgegate import *; assert callable(evaluate) and callable(load_backbone)",
        # The function, though the module of the same name was imported first.
        "import purgegate.evaluate, purgegate; assert callable(purgegate.evaluate)",
        "import purgegate as pg; assert pg.cli.main and pg.points.__path__; assert callable(pg.evaluate)",
    ],
)
def test_a_name_is_found_whatever_was_imported_before(code):
    run_fresh(code)


def test_public_names_are_listed_before_they_are_used():
    listed = run_fresh("import purgegate; print(*dir(purgegate))").printed.split()
    assert {*pg.__all__, "__version__", "__doc__"} <= {*listed}


def test_a_misspelt_name_is_told_the_nearest():
    with pytest.raises(AttributeError, match="no 'corupt'; the nearest is 'corrupt'"):
        pg.corupt  # noqa: B018
    with pytest.raises(AttributeError, match="it has BACKBONES, CORRUPTIONS"):
        pg.zzz  # noqa: B018
    assert not hasattr(pg, "_hidden")
