"""`purgegate` before any command is run: helps, version and completion, without what commands need."""

import ast
from pathlib import Path

import pytest

import purgegate.cli
from purgegate.cli import COMMANDS, load_command
from tests.fresh import HEAVY, Run, run_fresh

FILES = [*Path(purgegate.cli.__file__).parent.glob("*.py")]


def run_shell(*arguments: str, **environment: str) -> Run:
    program = f"sys.argv = ['purgegate', *{arguments!r}]\nfrom purgegate.cli import main; main()"
    return run_fresh(program, **environment)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], [], ["--version"]])
def test_nothing_heavy_is_imported_before_a_command_is_run(arguments):
    printed, loaded = run_shell(*arguments)
    assert "typer" in loaded
    assert not loaded & HEAVY
    assert printed.strip()


def test_the_list_has_one_line_for_every_command():
    printed, _ = run_shell("--help", COLUMNS="100")
    for name, command in COMMANDS.items():
        (line,) = (line for line in printed.splitlines() if line.startswith(f"│ {name} "))
        assert line.strip("│ ").removeprefix(name).strip() == command.help


def test_the_shell_completes_commands_without_importing_them():
    words = {"_PURGEGATE_COMPLETE": "complete_bash", "COMP_WORDS": "purgegate st", "COMP_CWORD": "1"}
    printed, loaded = run_shell(**words)
    assert printed.split() == ["statistics"]
    assert not loaded & HEAVY


def test_the_shell_completes_options_and_kinds_of_plots():
    words = {"_PURGEGATE_COMPLETE": "complete_bash", "COMP_WORDS": "purgegate plot ga", "COMP_CWORD": "2"}
    assert run_shell(**words)[0].split() == ["gains"]
    words |= {"COMP_WORDS": "purgegate train joint --ro", "COMP_CWORD": "3"}
    assert run_shell(**words)[0].split() == ["--root"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_imported_with_its_own_help(purgegate, name):
    assert load_command(name).help
    short, long = (purgegate(name, flag) for flag in ("-h", "--help"))
    assert (short.code, short.out) == (long.code, long.out)
    assert short.code == 0
    assert f" {name} [OPTIONS]" in short.out


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_command_imports_at_the_top_of_its_file(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    inside = [node for function in functions for node in ast.walk(function)]
    assert not [ast.unparse(node) for node in inside if isinstance(node, ast.Import | ast.ImportFrom)]


def test_a_misspelt_command_is_told_the_nearest(purgegate):
    run = purgegate("bnech")
    assert run.code == 2
    assert "Did you mean 'bench'" in run.err
