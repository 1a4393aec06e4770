"""One writer at a time: a lock beside a file, or in a folder, which a process that is killed loses."""

import logging
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, where files go without locks
    fcntl = None  # type: ignore[assignment]

PATIENCE = 1.0  # seconds to wait for a writer that is nearly done
PAUSE = 0.05

_held: set[tuple[Path, int]] = set()  # by which threads of this process

log = logging.getLogger("purgegate")


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Keep all others from writing a file, or a folder; one who writes it already is an error."""
    key = Path(os.path.realpath(path)), threading.get_ident()
    if key in _held or fcntl is None:
        yield
        return
    beside = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    handle = _locked(beside, path)
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        if handle is not None:
            beside.unlink(missing_ok=True)
            os.close(handle)


def _locked(beside: Path, path: Path) -> int | None:
    """Take the lock and write into it whose it is; None where the disk has no locks."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o644)
            owner = _owner(handle)
        except OSError as error:
            log.warning("%s cannot be locked (%s): see that nothing else writes it", path, error.strerror)
            return None
        # The one before may have removed its lock between our opening and our locking of it.
        if owner is None and _is_still(beside, handle):
            os.truncate(handle, 0)
            os.write(handle, _myself().encode())
            return handle
        os.close(handle)
        if owner is not None and time.monotonic() > until:
            raise BlockingIOError(
                f"{path} is being written by {owner}: wait until it ends or stop it, or give another "
                f"{'folder' if path.is_dir() else 'file'}"
            )
        time.sleep(PAUSE)


def _owner(handle: int) -> str | None:
    """Who else has the lock; None if it is ours now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 4096).decode("utf-8", "replace") or "another process"
    return None


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _myself() -> str:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return f"process {os.getpid()} on {socket.gethostname()} ({command[:200]})"
