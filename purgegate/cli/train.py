"""`purgegate train`: source models, by their objectives."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from purgegate.backbones import create_backbone
from purgegate.backbones.auxiliary import make_auxiliary
from purgegate.backbones.loading import default_device, load_backbone
from purgegate.cli.progress import Bar, counting_bar
from purgegate.evaluate import check_classes
from purgegate.fingerprints import array_fingerprint
from purgegate.io.bundled import list_weights
from purgegate.io.datasets import load_dataset
from purgegate.io.files import make_folder
from purgegate.io.locks import only_writer
from purgegate.memory import keep_freed_memory
from purgegate.points.patches import check_clouds
from purgegate.train.data import farthest_first
from purgegate.train.export import export, save_epoch
from purgegate.train.joint import joint
from purgegate.train.loop import Run, count_correct, fit
from purgegate.train.schedule import Schedule
from purgegate.train.supervised import supervised

Data = Annotated[str, typer.Argument(help="Training set: a name such as `shapes`, or a path.")]
Out = Annotated[Path, typer.Option(help="Folder of the run; one that was broken off there is resumed.")]
Test = Annotated[str | None, typer.Option(help="Test set; by default the test split of the training set.")]
Root = Annotated[Path | None, typer.Option(help="Folder of the named data sets.")]
Backbone = Annotated[str, typer.Option(help="Backbone to begin with, with random weights.")]
Size = Annotated[list[str], typer.Option(help="Size other than the backbone's own, as in `width=96`.")]
Init = Annotated[str | None, typer.Option(help="Weights to begin with instead: a file, or a bundled name.")]
Epochs = Annotated[int, typer.Option(help="Passes over the training set.")]
Seed = Annotated[int, typer.Option(help="The same seed on the same machine gives the same weights.")]
BatchSize = Annotated[int, typer.Option("--batch", help="Clouds in a step.")]
Rate = Annotated[float, typer.Option(help="Greatest learning rate.")]
Warmup = Annotated[float, typer.Option(help="Epochs in which the learning rate rises.")]
Smoothing = Annotated[float, typer.Option(help="Share of a label that is spread over all classes.")]
Augment = Annotated[bool, typer.Option(help="Scale and shift every cloud at random.")]
Pool = Annotated[int, typer.Option(help="Farthest points of a cloud that a step draws its points from.")]
Depth = Annotated[int, typer.Option(min=1, max=64, help="Blocks in each new decoder.")]
Up = Annotated[Literal["z", "y"], typer.Option(help="Axis that points up: turns (TTT-Rot) are about it.")]
Precision = Annotated[
    Literal["float32", "bfloat16"],
    typer.Option(help="Of the products in a step; bfloat16 is a third faster where the processor has it."),
]
KeepEpochs = Annotated[bool, typer.Option(help="Keep the weights of every epoch, as epoch_N.safetensors.")]
TestEvery = Annotated[int, typer.Option(min=1, help="Epochs between two looks at the test set.")]
Threads = Annotated[int, typer.Option(min=0, max=256, help="CPU threads; 0 leaves it to torch.")]

WEIGHTS = "weights.safetensors"

train = typer.Typer(help="Train a source model.", no_args_is_help=True, add_completion=False)


def _trainer(objectives: tuple[str, ...], summary: str) -> Callable[..., None]:
    """The command for class labels and these objectives."""

    def command(
        data: Data,
        out: Out,
        test: Test = None,
        root: Root = None,
        backbone: Backbone = "point_mae_tiny",
        size: Size = [],  # noqa: B006 (typer copies it)
        init: Init = None,
        epochs: Epochs = 12,
        seed: Seed = 0,
        batch: BatchSize = 32,
        lr: Rate = 1e-3,
        warmup: Warmup = 1.0,
        smoothing: Smoothing = 0.2,
        augment: Augment = True,
        pool: Pool = 1200,
        decoder_depth: Depth = 4,
        up: Up = "z",
        precision: Precision = "float32",
        keep_epochs: KeepEpochs = False,
        test_every: TestEvery = 1,
        threads: Threads = 0,
    ) -> None:
        schedule = Schedule(
            epochs, seed, batch, lr, warmup=warmup, smoothing=smoothing, augment=augment, pool=pool,
            precision=precision,
        )  # fmt: skip
        begin = partial(
            _model, objectives, init=init, backbone=backbone, sizes=_parse_sizes(size), seed=seed,
            depth=decoder_depth,
        )  # fmt: skip
        _train(
            schedule, objectives, begin=begin, data=data, test=test, root=root, out=out, up=up,
            test_every=test_every, keep_epochs=keep_epochs, threads=threads,
        )  # fmt: skip

    command.__doc__ = summary
    return command


TRAINERS = {
    "supervised": _trainer((), "Train a classifier on labels."),
    "masked": _trainer(("masked",), "Train on labels and on rebuilding hidden patches (MATE)."),
    "rotation": _trainer(
        ("rotation",), "Train on labels and on naming which of four turns a cloud was given (TTT-Rot)."
    ),
    "skeleton": _trainer(("skeleton",), "Train on labels and on covering clouds with spheres (SMART-PC)."),
    "joint": _trainer(
        ("masked", "rotation", "skeleton"), "Train on labels and all three objectives at once."
    ),
}
for name, trainer in TRAINERS.items():
    train.command(name)(trainer)


@train.command()
def evaluate(
    weights: Annotated[str, typer.Argument(help="A file of weights, or a bundled name.")],
    data: Annotated[str, typer.Argument(help="Test set: a name such as `shapes`, or a path.")],
    root: Root = None,
) -> None:
    """Count the clean test clouds that weights classify rightly, in one view each."""
    model: Any = load_backbone(weights)
    clouds = load_dataset(data, root=root, split="test")
    check_classes(model, clouds, origin=data)
    test = farthest_first(clouds, model.points)
    with counting_bar(transient=True) as progress:
        task = progress.add_task("clouds", total=len(test))
        correct = count_correct(model, test, advance=lambda clouds: progress.advance(task, clouds))
    typer.echo(f"{weights}: {correct} of {len(test)} right, {correct / len(test):.2%}")


@train.command("list")
def list_bundled() -> None:
    """Print the bundled weights as a Markdown table, each with the command that made it."""
    typer.echo("| name | clean accuracy | clouds | objectives | minutes | command |")
    typer.echo("|---|---|---|---|---|---|")
    for name, made in list_weights().items():
        cells = [f"`{name}`", f"{made.accuracy:.2%}", str(made.total), ", ".join(made.objectives)]
        typer.echo(f"| {' | '.join(cells)} | {made.seconds / 60:.0f} | `{made.command}` |")


def _train(
    schedule: Schedule,
    objectives: tuple[str, ...],
    *,
    begin: Callable[..., Any],
    data: str,
    test: str | None,
    root: Path | None,
    out: Path,
    up: str,
    test_every: int,
    keep_epochs: bool,
    threads: int,
) -> None:
    """Train the model that `begin` makes for the classes of the data, and export it."""
    keep_freed_memory()
    torch.set_num_threads(threads or torch.get_num_threads())
    source = load_dataset(data, root=root, split="train")
    target = load_dataset(test or data, root=root, split="test")
    if len(source.classes) < 2 or len(source.label) < 2:
        raise ValueError(
            f"training needs labelled clouds of at least two classes; {data} has {len(source.label)} clouds "
            f"of {len(source.classes)} classes"
        )
    if source.classes != target.classes:
        raise ValueError(f"training and test set must have the same classes; {data} and {test} differ")
    clouds = array_fingerprint(source.points, source.label)
    if clouds == array_fingerprint(target.points, target.label):
        raise ValueError(
            f"{data} has no clouds apart to test on: give a test set of other clouds with --test"
        )
    model = begin(classes=len(source.classes))
    examples, held_out = farthest_first(source, schedule.pool), farthest_first(target, model.points)
    check_clouds(examples.points, model)
    objective = supervised(schedule.smoothing)
    if objectives:
        objective = joint(objectives, smoothing=schedule.smoothing, axis="xyz".index(up))
    same = {"objective": " ".join(objectives), "up": up, "data": clouds}
    run = Run(model, objective, schedule=schedule, facts=same)
    facts = {"data": Path(data).name, "objectives": ["class", *objectives], "command": _command()}
    make_folder(out)
    with only_writer(out):
        with Bar() as bar:
            fit(
                run, examples, out=out, test=held_out, test_every=test_every, progress=bar,
                keep=partial(_keep_epoch, out=out, class_names=source.classes) if keep_epochs else None,
            )  # fmt: skip
        export(run, out / WEIGHTS, examples=examples, test=held_out, class_names=source.classes, facts=facts)
    typer.echo(f"{out / WEIGHTS}: {run.rows[-1]['test_accuracy']:.2%} on {len(held_out)} test clouds")


def _model(
    objectives: tuple[str, ...],
    *,
    classes: int,
    init: str | None,
    backbone: str,
    sizes: dict[str, int],
    seed: int,
    depth: int,
) -> Any:
    """The model that training begins with, with a module for each objective that it has none for."""
    start = partial(load_backbone, init) if init else partial(create_backbone, backbone)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any = start(classes=classes, **sizes)
        for name in objectives:
            if name not in model.auxiliary:
                model.auxiliary[name] = make_auxiliary(name, model, depth=depth)
    return model.to(default_device())


def _keep_epoch(run: Run, *, out: Path, class_names: tuple[str, ...]) -> None:
    save_epoch(run, out / f"epoch_{len(run.rows)}.safetensors", class_names=class_names)


def _parse_sizes(words: list[str]) -> dict[str, int]:
    sizes = {}
    for word in words:
        name, _, number = word.partition("=")
        if not number.isdecimal() or name == "classes":  # which the data tell
            raise ValueError(f"a size must be given as NAME=NUMBER, such as width=96; got {word!r}")
        sizes[name] = int(number)
    return sizes


def _command() -> str:
    """The command line as it was typed, without folders."""
    return shlex.join(["purgegate", *(Path(word).name for word in sys.argv[1:])])
