"""The source distribution can be tested as it is."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("tests", "docs", "recipes", "benchmarks", "tools", ".ci", "purgegate")
FILES = (
    "Makefile",
    "pyproject.toml",
    "constraints.txt",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
)
BUILD = "from setuptools.build_meta import build_sdist; build_sdist('made')"


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The project without what git leaves out."""
    folder = tmp_path_factory.mktemp("project") / "purgegate"
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*FILES, "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_the_source_distribution_holds_every_file_of_the_project(copy: Path):
    pytest.importorskip("setuptools")
    wanted = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    subprocess.run([sys.executable, "-c", BUILD], cwd=copy, check=True, capture_output=True)
    (archive,) = (copy / "made").glob("*.tar.gz")
    with tarfile.open(archive) as content:
        held = {name.split("/", 1)[1] for name in content.getnames() if "/" in name}
    assert sorted(wanted - held) == []
