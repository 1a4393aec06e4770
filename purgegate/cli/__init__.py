"""The command line: one file per command, listed in COMMANDS and imported when the command is run."""

import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from purgegate.version import __version__

ABOUT = "Keep a point-cloud classifier working when the world changes: no gradients, no labels."


class Command(NamedTuple):
    """The module that has a function (or an app) of the command's name, and its line in the list."""

    module: str
    help: str


COMMANDS = {
    "demo": Command("purgegate.cli.demo", "The main job on embedded data, ending with a table and a page."),
    "predict": Command(
        "purgegate.cli.predict", "Classes of your own clouds, from files of any known format."
    ),
    "watch": Command("purgegate.cli.watch", "Answer clouds as they appear; ring when the world changes."),
    "serve": Command("purgegate.cli.serve", "Answer clouds over HTTP, with a stream per sensor."),
    "bench": Command(
        "purgegate.cli.bench", "Run a recipe of methods over corruptions; a stopped run goes on."
    ),
    "corrupt": Command("purgegate.cli.corrupt", "Make a corrupted benchmark from clean clouds."),
    "statistics": Command("purgegate.cli.statistics", "Collect the source statistics that PG-SP needs."),
    "table": Command("purgegate.cli.table", "Print the paper's table from files of results."),
    "plot": Command("purgegate.cli.plot", "Draw results, a training log, or a model and its clouds."),
    "export": Command("purgegate.cli.export", "Write a classifier as an ONNX graph for other runtimes."),
    "view": Command("purgegate.cli.view", "See clouds, tokens and answers on a page, in the browser."),
    "report": Command("purgegate.cli.report", "Write results as one page: tables, gains, cost."),
    "train": Command("purgegate.cli.train", "Train a source model."),
}


class LazyGroup(TyperGroup):
    """Commands that are listed by COMMANDS alone, and imported when one is run, explained or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is meant; the one in the list has a help line and nothing else."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Import a command: a function, or an app with commands of its own."""
    found = getattr(import_module(COMMANDS[name].module), name)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    return typer.main.get_command(found)


app = typer.Typer(
    name="purgegate",
    cls=LazyGroup,
    help=ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name, help=command.help)(lambda: None)  # LazyGroup runs the real one


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit
    return wanted


@app.callback(help=ABOUT)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the command line; what a person can mend is one line on stderr and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"purgegate: {error}\n")
        sys.exit(2)
