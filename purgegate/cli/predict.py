"""`purgegate predict`: a person's own clouds to classes."""

import glob
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
import typer
from rich.console import Console
from torch import Tensor

from purgegate.adapt import OURS, create_adapter, find_method
from purgegate.adapt.base import Prediction
from purgegate.answers import Answer, answers_of, class_names_of, compared
from purgegate.cli.options import DEFAULT_WEIGHTS, MethodName, Statistics, Up, Weights
from purgegate.cli.output import as_table
from purgegate.cli.progress import counting_bar
from purgegate.evaluate import device_of
from purgegate.figures.purged import purged_points
from purgegate.io.clouds import read_cloud
from purgegate.io.datasets import cut
from purgegate.io.files import make_folder
from purgegate.io.formats import READERS
from purgegate.io.formats.ply import write_ply
from purgegate.needs import load_model, supply
from purgegate.norms import NORMS
from purgegate.prepare import prepare
from purgegate.reference import SourceReference, Witness

BATCH = 32


Judge = Callable[[Tensor, Prediction, list[Answer]], list[Answer]]


class Prepared(NamedTuple):
    """A file's cloud as the model sees it."""

    file: str
    points: Tensor


Save = Callable[[list[Prepared], Tensor, Tensor], None]


def predict(
    files: Annotated[
        list[str],
        typer.Argument(help="Clouds or meshes: files, folders, quoted patterns, or - for paths on stdin."),
    ],
    weights: Weights = DEFAULT_WEIGHTS,
    method: MethodName = OURS,
    statistics: Statistics = None,
    norm: Annotated[
        str | None,
        typer.Option(
            help=f"Where BatchNorm takes its statistics: {', '.join(NORMS)}; else as the method does."
        ),
    ] = None,
    up: Up = "z",
    top: Annotated[int, typer.Option(min=1, help="Show so many of the likeliest classes.")] = 1,
    precision: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="Of the model's products; bfloat16 is faster.")
    ] = "float32",
    drop_invalid: Annotated[
        bool, typer.Option(help="Leave out points that are NaN or infinite, as depth cameras give them.")
    ] = False,
    save_purged: Annotated[
        Path | None, typer.Option(help="Folder for each cloud as .ply, with a flag on the purged points.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, not a table.")] = False,
) -> None:
    """Classify FILES; confidence, what was purged and the shift from the source come with each answer.

    The files are one stream in their order. One that cannot be read is reported, the others are answered,
    and the exit code is 2.
    """
    paths, failed = expand(files)
    if save_purged is not None:
        make_folder(save_purged)  # before the work
    model = load_model(weights, precision=precision)
    clouds: list[Prepared] = []
    with counting_bar(transient=True) as progress:
        for path in progress.track(paths, description="read"):
            try:
                cloud = read_cloud(path, drop_invalid=drop_invalid)
                clouds.append(Prepared(path, _prepared(path, cloud, model, up=up)))
            except (ValueError, OSError) as error:
                failed.append(str(error))
        for reason in failed:
            sys.stderr.write(f"purgegate: {reason}\n")
        adapter = make_adapter(model, weights, method, statistics=statistics, norm=norm, clouds=len(clouds))
        judge = make_judge(model)
        save = make_saver(save_purged, paths) if save_purged else None
        answered = classify(clouds, adapter, top=top, save=save, judge=judge)
        bar = progress.track(answered, total=len(clouds), description="answer")
        rows = [describe(each.file, answer, top=top) for each, answer in bar]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    elif rows:
        Console().print(as_table(rows))
    if failed:
        raise typer.Exit(2)


def expand(words: list[str]) -> tuple[list[str], list[str]]:
    """The files that are meant, of a folder or pattern all that can be read; and why a word means none."""
    found: list[str] = []
    failed: list[str] = []
    given = chain.from_iterable(_lines() if word == "-" else [word] for word in words)
    for word in given:
        if not Path(word).exists() and glob.has_magic(word):
            found += (matches := sorted(glob.glob(word, recursive=True)))
            failed += [] if matches else [f"no file fits the pattern {word}"]
        elif Path(word).is_dir():
            found += (inside := list(map(str, _files_in(Path(word)))))
            failed += [] if inside else [f"{word} has no file with one of the endings {' '.join(READERS)}"]
        else:
            found.append(word)
    return found, failed


def _lines() -> list[str]:
    """Paths on standard input, one a line; their bytes are those of the file system, whatever the locale."""
    if sys.stdin is None:  # closed by who started the program
        raise ValueError("standard input is closed: give the paths as arguments")
    lines = getattr(sys.stdin, "buffer", sys.stdin).read().splitlines()
    paths = [os.fsdecode(line) for line in lines if line.strip()]
    if not paths:
        raise ValueError("no path came on standard input: write one on each line")
    return paths


def _files_in(folder: Path) -> list[Path]:
    """Files that a reader knows; hidden ones, as some systems leave beside each file, are left out."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in READERS and path.is_file())
    return sorted(path for path in files if not path.name.startswith("."))


def make_adapter(
    model: Any, weights: str, method: str, *, statistics: Path | None, norm: str | None, clouds: int
) -> Any:
    """The method with what it needs; one that needs a batch blends its statistics for a single cloud."""
    entry = find_method(method)
    options: dict[str, Any] = {"norm": norm} if norm else {}
    if statistics is not None and "statistics" in entry.options:
        options["statistics"] = str(statistics)
    if "source" in entry.needs:
        raise ValueError(f"{method} needs labelled source clouds: run it with `purgegate bench`")
    adapter: Any = create_adapter(method, model, **supply(method, options, weights=weights, at_hand=True))
    if norm or clouds != 1 or getattr(adapter, "least_batch", 1) < 2:
        return adapter
    sys.stderr.write(f"purgegate: {method} takes a batch; a cloud alone is answered with --norm blend\n")
    options["norm"] = "blend"
    return create_adapter(method, model, **supply(method, options, weights=weights, at_hand=True))


def classify(
    clouds: list[Prepared],
    adapter: Any,
    *,
    top: int = 1,
    save: Save | None = None,
    judge: Judge | None = None,
) -> Iterator[tuple[Prepared, Answer]]:
    """Each cloud with its answer, in their order, batch by batch; unknown ones where `judge` can say so."""
    model = getattr(adapter, "model", adapter)
    device, names = device_of(model), class_names_of(model)
    for place in cut(len(clouds), BATCH):
        points = torch.cat([cloud.points for cloud in clouds[place]]).to(device)
        found = Prediction.by(adapter, points)
        if save is not None:
            save(clouds[place], points, purged_points(model, points, found))
        answers = answers_of(found, names, top=top)
        yield from zip(clouds[place], judge(points, found, answers) if judge else answers, strict=True)


def make_judge(model: Any) -> Judge | None:
    """What compares clouds with those of the source, for weights that bring their reference."""
    reference = SourceReference.of_model(model)
    if reference is None:
        return None
    witness = Witness(model, reference.means)

    def judge(points: Tensor, found: Prediction, answers: list[Answer]) -> list[Answer]:
        return compared(answers, found, witness(points, found.source), reference)

    return judge


def describe(file: str, answer: Answer, *, top: int) -> dict[str, Any]:
    """A row of the table, or a line of JSON."""
    row: dict[str, Any] = {
        "file": file,
        "class": answer.name,
        "confidence": answer.confidence,
        "purged": answer.purged,
        "shift": answer.shift,
        "stages": " ".join(answer.stages),
    }
    others = [f"{name} {share:.3f}" for name, share in answer.top[1:]]
    unknown = {} if answer.unknown is None else {"unknown": answer.unknown}
    return row | unknown | ({"then": ", ".join(others)} if top > 1 else {})


def _prepared(path: str, cloud: Any, model: Any, *, up: str) -> Tensor:
    try:
        return prepare(cloud, model, up=up)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def make_saver(folder: Path, files: Sequence[str]) -> Save:
    """What writes each cloud to a folder, under a name of its own that is no file's that was read."""
    taken = {os.path.realpath(file) for file in files}

    def save(clouds: list[Prepared], points: Tensor, purged: Tensor) -> None:
        for cloud, own, flags in zip(clouds, points.cpu(), purged.cpu(), strict=True):
            name = "_".join(Path(cloud.file).with_suffix("").parts[-2:]).strip("/\\")
            places = (folder / f"{name}{f'_{n}' if n > 1 else ''}.ply" for n in count(1))
            path = next(place for place in places if os.path.realpath(place) not in taken)
            taken.add(os.path.realpath(path))
            write_ply(path, own.numpy(), purged=flags.numpy())

    return save
