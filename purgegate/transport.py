"""Calls as bytes, which only a worker with this version of the package opens."""

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, no_type_check

from purgegate.version import __version__


class Shared(NamedTuple):
    """Stands for a value that many calls need; `task` is by what Dask brings its bytes to a worker."""

    task: Any


def pack(value: Any) -> tuple[bytes, list[Any]]:
    """A value as bytes, and the tasks of what is shared in it."""
    from cloudpickle import Pickler  # takes along what a person's own script defines

    tasks: list[Any] = []

    class Packer(Pickler):
        def persistent_id(self, part: Any) -> int | None:
            if not isinstance(part, Shared):
                return None
            tasks.append(part.task)
            return len(tasks) - 1

    buffer = io.BytesIO()
    Packer(buffer).dump(value)
    return buffer.getvalue(), tasks


def unpack(packed: bytes, shared: Sequence[bytes] = ()) -> Any:
    """What was packed, with the bytes of what is shared in it."""

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, place: Any) -> Any:
            return unpack(shared[place])

    return Unpacker(io.BytesIO(packed)).load()


def door(topic: str) -> Callable[..., Any]:
    """What a worker calls with packed calls: it looks for the package before anything of ours is read."""
    wanted = __version__

    # Nested, so that it is sent whole and not by its name: a worker that cannot read its post shuts down. And
    # without the checks that tests put round functions, which cannot be sent.
    @no_type_check
    def enter(packed, *shared):
        import importlib
        import socket

        try:
            here = "purgegate " + importlib.import_module("purgegate.version").__version__
        except ImportError:
            here = "no purgegate"
        if here != "purgegate " + wanted:
            raise ValueError(
                f"the worker on {socket.gethostname()} has {here}, but {wanted} is wanted: install that there"
            )
        return importlib.import_module("purgegate.cluster").run_there(topic, packed, shared)

    return enter
