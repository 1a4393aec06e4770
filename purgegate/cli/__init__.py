"""The command line: one file a command, collected in COMMANDS."""

import sys
from typing import Annotated

import typer

from purgegate.cli.bench import bench
from purgegate.cli.corrupt import corrupt
from purgegate.cli.demo import demo
from purgegate.cli.plot import plot
from purgegate.cli.predict import predict
from purgegate.cli.statistics import statistics
from purgegate.cli.table import table
from purgegate.cli.train import app as train

COMMANDS: dict = {
    "demo": demo,
    "predict": predict,
    "bench": bench,
    "corrupt": corrupt,
    "statistics": statistics,
    "table": table,
    "plot": plot,
}

app = typer.Typer(
    name="purgegate",
    help="Keep a point-cloud classifier working when the world changes: no gradients, no labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(train, name="train")


def _tell_version(wanted: bool) -> bool:
    if wanted:
        from purgegate.version import __version__

        typer.echo(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep a point-cloud classifier working when the world changes: no gradients, no labels."""


def main() -> None:
    """Run the command line; what a person can mend is one line on stderr and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"purgegate: {error}\n")
        sys.exit(2)
