"""Files that appear whole or not at all, and files that are worth opening."""

import os
import stat
from contextlib import suppress
from pathlib import Path

START = 512  # bytes of a file that tell what it is
FOREIGN = {
    b"<!doctype html": "it is a web page: fetch the file itself, by the link for downloads",
    b"<html": "it is a web page: fetch the file itself, by the link for downloads",
    b"version https://git-lfs": "it only points at a file in Git LFS: fetch that with `git lfs pull`",
}


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(f"the folder {path} cannot be made: {error.strerror}") from error


def check_ending(path: Path, *endings: str) -> None:
    """Refuse to write where another kind of file may be, such as the one that was read."""
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path} must end in {' or '.join(endings)}, as what is written there does")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that at any moment its name stands for the old content or for all of the new.

    Its folder is made, and a link to it stays a link.
    """
    make_folder(path.parent)
    if path.exists() and not path.is_file():  # os.replace would put a file in the place of a device
        raise OSError(f"{path} cannot be written: it is a folder, a pipe or a device: give a file")
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to tell
            part.unlink()
        raise type(error)(f"{path} cannot be written: {error.strerror or error}") from error


def check_file(path: Path) -> None:
    """Refuse what cannot be read as a file: a folder, a pipe, a forbidden file, a web page."""
    try:
        kind, start = path.stat().st_mode, b""
        if stat.S_ISREG(kind):  # opening a pipe would wait for ever
            with path.open("rb") as file:
                start = file.read(START).lstrip().lower()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing") from error
    except PermissionError as error:
        raise PermissionError(f"{path} may not be read: ask its owner, or `chmod u+r` it") from error
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(f"{path} is a folder: give a file")
    if not stat.S_ISREG(kind):
        raise OSError(f"{path} is a pipe, a socket or a device: save what it gives as a file, and give that")
    for sign, reason in FOREIGN.items():
        if start.startswith(sign):
            raise ValueError(f"{path} cannot be read: {reason}")
