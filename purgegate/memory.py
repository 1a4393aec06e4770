"""How freed memory is treated, and how much a piece of work needed at its peak."""

import ctypes
import sys
import threading
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

STATUS = Path("/proc/self/statm")
PAGE = 4096

# Parameters of glibc's mallopt.
TRIM_THRESHOLD, MMAP_MAX = -1, -4

MOST_KEPT = 2**28  # bytes that a model keeps between two calls


def keep_freed_memory() -> None:
    """Let the process keep what it frees, where the C library can: long work takes up to a quarter less time.

    By default every large tensor is new memory from the system, and the system clears each page of it.
    """
    _call_libc("mallopt", MMAP_MAX, 0)
    _call_libc("mallopt", TRIM_THRESHOLD, 2**31 - 1)


def give_back_freed_memory() -> None:
    """Return what was kept to the system, where the C library can."""
    _call_libc("malloc_trim", 0)


class Room:
    """Memory in which one call after another works, so that it is not new to the process every time.

    Twins of its owner share it; one call at a time has it, others meanwhile get memory of their own.
    """

    def __init__(self) -> None:
        self.kept: list[Tensor] = []

    def take(self, count: int, *, like: Tensor) -> Tensor:
        """So many numbers of the kind of `like`, of any value."""
        try:
            room = self.kept.pop()
        except IndexError:
            room = like.new_empty(0)
        fits = room.numel() >= count and room.dtype == like.dtype and room.device == like.device
        return room[:count] if fits else like.new_empty(count)

    def give_back(self, room: Tensor) -> None:
        """Keep what was taken for the next call, unless it is too much to keep or another has been kept."""
        whole = room if room._base is None else room._base
        if whole.nbytes <= MOST_KEPT and not self.kept:
            self.kept.append(whole)

    def __reduce__(self) -> tuple[type["Room"], tuple[()]]:
        return Room, ()


def _call_libc(name: str, *numbers: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:
        function(*numbers)


class PeakMemory:
    """Context manager: `.megabytes` is the most memory in use above what was in use at the start.

    On a GPU its allocator tells. On a CPU a thread looks every few milliseconds; where the system does not
    show a process's memory, the answer is NaN.
    """

    def __init__(self, device: torch.device | None = None, *, interval: float = 0.003) -> None:
        self.interval, self.megabytes = interval, float("nan")
        self._gpu = device if device is not None and device.type == "cuda" else None

    def __enter__(self) -> "PeakMemory":
        give_back_freed_memory()  # else the work could live on what others have freed
        self._start = self._peak = _resident()
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        if self._gpu is not None:
            torch.cuda.reset_peak_memory_stats(self._gpu)
            self._start = torch.cuda.memory_allocated(self._gpu)
        else:
            self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gpu is not None:
            self._peak = torch.cuda.max_memory_allocated(self._gpu)
        else:
            self._stop.set()
            self._watcher.join()
        self.megabytes = (self._peak - self._start) / 2**20

    def _watch(self) -> None:
        while not self._stop.wait(self.interval):
            self._peak = max(self._peak, _resident())


def _resident() -> float:
    try:
        return float(STATUS.read_text().split()[1]) * PAGE
    except OSError:
        return float("nan")
