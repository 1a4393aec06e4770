"""Clouds as they arrive: in a folder, on standard input or in a ROS bag."""

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from purgegate.io.bags import is_bag, read_bag
from purgegate.io.clouds import read_cloud
from purgegate.io.formats import READERS
from purgegate.serve.bodies import points_of_json

PATIENCE = 5  # looks at an unchanged file that cannot be read, before it is given up


class Item(NamedTuple):
    """A cloud by its name, how it is had, and its class where that is known."""

    name: str
    load: Callable[[], Any]
    truth: str = ""


def open_source(
    source: str,
    *,
    topic: str | None,
    interval: float,
    once: bool,
    drop_invalid: bool,
    classes: Collection[str] = (),
) -> Iterator[Item]:
    """The clouds of whatever was given, as they come.

    A file in a folder, inside the one given, that is called as one of the `classes` is of that class; so is a
    JSON line with it as its "truth".
    """
    path = Path(source)
    if source == "-":
        return _from_lines(sys.stdin, drop_invalid=drop_invalid, classes=classes)
    if is_bag(path):
        return (Item(name, partial(_itself, points)) for name, points in read_bag(path, topic))
    if not path.is_dir():
        raise ValueError(
            f"{source} must be a folder, a ROS bag or -: files are answered by `purgegate predict`"
        )
    return _from_folder(path, interval=interval, once=once, drop_invalid=drop_invalid, classes=classes)


def _from_lines(lines: Any, *, drop_invalid: bool, classes: Collection[str]) -> Iterator[Item]:
    """Paths, or JSON: a cloud [[x, y, z], …], or {"points": cloud, "name": …, "truth": …}."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith(("[", "{")):
            yield _from_json(text, f"line {number}", classes)
        elif text:
            yield Item(text, partial(read_cloud, text, drop_invalid=drop_invalid))


def _from_json(text: str, name: str, classes: Collection[str]) -> Item:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Item(name, partial(_refuse, f"{name} is no JSON: {error}"))
    facts = found if isinstance(found, dict) else {}
    truth = str(facts.get("truth", ""))
    return Item(
        str(facts.get("name", name)), partial(points_of_json, found), truth if truth in classes else ""
    )


def _itself(cloud: Any) -> Any:
    return cloud


def _refuse(reason: str) -> None:
    raise ValueError(reason)


class _Look(NamedTuple):
    """What a file was like when it was last looked at."""

    stamp: tuple[int, int]  # time of change and size
    tries: int = 0
    done: bool = False


def _from_folder(
    folder: Path, *, interval: float, once: bool, drop_invalid: bool, classes: Collection[str] = ()
) -> Iterator[Item]:
    """Files that did not change between two looks; one that cannot be read yet is looked at again."""
    known: dict[Path, _Look] = {}
    while True:
        open_ = 0
        for path, stamp in _stamps(folder):
            look = known.get(path)
            if look is None or look.stamp != stamp:
                known[path] = _Look(stamp)
                open_ += 1
            elif not look.done:
                cloud, error = _try(path, drop_invalid)
                last = error is None or look.tries + 1 >= PATIENCE
                known[path] = _Look(stamp, look.tries + 1, done=last)
                open_ += not last
                if error is None:
                    yield Item(str(path), partial(_itself, cloud), _truth(path, folder, classes))
                elif last:
                    yield Item(str(path), partial(_refuse, str(error)))
        if once and not open_:
            return
        time.sleep(interval)


def _truth(path: Path, folder: Path, classes: Collection[str]) -> str:
    """The class as which a folder between the two is called, the nearest to the file; or none."""
    between = reversed(path.relative_to(folder).parts[:-1])
    return next((name for name in between if name in classes), "")


def _stamps(folder: Path) -> list[tuple[Path, tuple[int, int]]]:
    """Files that a reader knows, the oldest first, each with what tells that it changed."""
    found = []
    for path in folder.rglob("*"):
        if path.suffix.lower() in READERS and not path.name.startswith("."):
            try:
                facts = path.stat()
            except OSError:
                continue  # gone since
            found.append((path, (facts.st_mtime_ns, facts.st_size)))
    return sorted(found, key=lambda each: (each[1][0], each[0]))


def _try(path: Path, drop_invalid: bool) -> tuple[Any, Exception | None]:
    try:
        return read_cloud(path, drop_invalid=drop_invalid), None
    except (ValueError, OSError) as error:
        return None, error
