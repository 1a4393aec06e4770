"""Data flows one way: a module imports only from those above it in docs/architecture.md."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "purgegate"

MAP = PACKAGE.parent / "docs" / "architecture.md"

# Top to bottom, as the map of the house shows them. A folder's modules may import each other.
ORDER = [
    room.rstrip("/")
    for floor in re.findall(r"^\| [\w ]+ \| ((?:`[\w/]+` ?)+) \|", MAP.read_text(), flags=re.MULTILINE)
    for room in re.findall(r"`([\w/]+)`", floor)
]


def imported_layers(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    parts = [name.split(".") for name in names]
    return {part[1] if len(part) > 1 else "cli" for part in parts if part[0] == "purgegate"}


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_module_has_its_place():
    assert {layer_of(path) for path in MODULES} == set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_above(path: Path):
    allowed = set(ORDER[: ORDER.index(layer_of(path)) + 1])
    assert imported_layers(path) <= allowed
