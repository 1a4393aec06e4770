"""What answers: one thread that takes waiting clouds batch by batch, each for its stream or for none."""

import logging
import queue
import re
import time
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

import torch
from torch import Tensor

from purgegate.adapt import OURS, find_method
from purgegate.adapt.base import Prediction
from purgegate.answers import Answer
from purgegate.evaluate import device_of
from purgegate.prepare import prepare
from purgegate.reference import Seen
from purgegate.serve.bodies import Refused
from purgegate.serve.metrics import Metrics
from purgegate.stream import Stream

log = logging.getLogger("purgegate")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # of a stream: also the name of its file
WAIT = 0.002  # seconds that a batch waits for more clouds
MOST_STREAMS = 256
SAME = 1e-4  # confidences that differ by less are equal


class Job(NamedTuple):
    """A prepared cloud that waits for its answer."""

    points: Tensor
    stream: str
    top: int
    done: "Future[Answer]"


class Asked(NamedTuple):
    """Prepared clouds, and what was asked for them together."""

    points: Tensor = torch.empty(0)
    found: Prediction | None = None
    seen: Seen | None = None

    def at(self, rows: list[int]) -> "Asked":
        """Some of them."""
        return Asked(self.points[rows], self.found and self.found.at(rows), self.seen and self.seen.at(rows))


class Engine:
    """A model behind a bounded queue; `submit` never waits.

    A cloud of no stream is answered under the source's statistics, and what others sent has no part in it.
    Streams are made when they are first named; with `states`, a folder, each goes on from its file there,
    which is written every `every` clouds, on demand and at the end.
    """

    def __init__(
        self,
        model: Any,
        method: str = OURS,
        *,
        batch: int = 32,
        waiting: int = 256,
        states: Path | None = None,
        every: int = 100,
        up: str = "z",
        **options: Any,
    ) -> None:
        self.model, self.method, self.up, self.options = model, method, up, options
        self.batch, self.states, self.every = batch, states, every
        self.metrics, self.streams = Metrics(), dict[str, Stream]()
        self.accepted = self.answered = 0
        self._alone, self._together = self._without_stream(), False
        self._queue: queue.Queue[Job | None] = queue.Queue(waiting)
        self._lock, self._draining = Lock(), False
        self._together = self._treats_each()  # and compiles what is compiled
        self._thread = Thread(target=self._run, name="purgegate-engine")
        self._thread.start()

    def prepared(self, cloud: Any) -> Tensor:
        """A cloud as the model sees it; one that it cannot see is Refused."""
        try:
            return prepare(cloud, self.model, up=self.up)
        except ValueError as error:
            raise Refused(422, str(error)) from error

    def submit(self, points: Tensor, *, stream: str = "", top: int = 1) -> "Future[Answer]":
        """Let a prepared cloud wait for its answer; Refused where too many wait already."""
        if stream:
            check_name(stream)
        job = Job(points, stream, top, Future())
        with self._lock:
            if self._draining:
                raise Refused(503, "the server is about to stop")
            try:
                self._queue.put_nowait(job)
            except queue.Full as error:
                raise Refused(429, f"{self._queue.maxsize} clouds wait already: try again soon") from error
            self.accepted += 1
        return job.done

    @property
    def waiting(self) -> int:
        """Clouds in the queue."""
        return self._queue.qsize()

    def stream(self, name: str, *, make: bool = False) -> Stream:
        """The stream of a name; Refused where there is none and none is to be made."""
        check_name(name)
        if name in self.streams:
            return self.streams[name]
        kept = self._file(name)
        if not make and not (kept and kept.exists()):
            raise Refused(404, f"there is no stream {name}: it is made by the first cloud that names it")
        if len(self.streams) >= MOST_STREAMS:
            raise Refused(429, f"there are {MOST_STREAMS} streams already: DELETE one of them")
        made = Stream(
            self.model, self.method, up=self.up, on_alarm=lambda alarm: self.metrics.alarm(), **self.options
        )
        if kept and kept.exists():
            made.load(kept)
        return self.streams.setdefault(name, made)

    def save(self, name: str) -> None:
        """Write the state of a stream to its file."""
        kept = self._file(name)
        if kept is None:
            raise Refused(409, "this server keeps no states: start it with --states FOLDER")
        try:
            self.stream(name).save(kept)
        except ValueError as error:  # of a method that writes weights
            raise Refused(409, str(error)) from error

    def forget(self, name: str) -> None:
        """Drop a stream and its file."""
        self.stream(name)
        self.streams.pop(name, None)
        if kept := self._file(name):
            kept.unlink(missing_ok=True)

    def drain(self) -> None:
        """Take no more clouds, answer those that wait, save the streams, and stop."""
        with self._lock:
            first, self._draining = not self._draining, True
        if first:
            self._queue.put(None)
        self._thread.join()
        for name in self.streams if self.states else ():
            self.save(name)

    def _without_stream(self) -> Stream:
        """What answers clouds of no stream: each is its first."""
        norm = "source" if "norm" in find_method(self.method).options else None
        options = self.options | {"norm": norm, "memory": None, "alpha": None}
        return Stream(self.model, self.method, up=self.up, **options)

    def _treats_each(self) -> bool:
        """Whether answers do not depend on the batch: nothing of it is kept, and a trial shows it."""
        adapter, draw = self._alone.adapter, torch.Generator().manual_seed(0)
        probe = torch.cat([self.prepared(torch.rand(1024, 3, generator=draw)) for _ in range(4)])
        probe, single = probe.to(device_of(self.model)), []
        for points in probe.split(1):
            adapter.reset()
            single.append(Prediction.by(adapter, points).logits.softmax(dim=1))
        if getattr(adapter, "writes", True) or getattr(adapter, "draws", True):
            return False
        if set(adapter.state()) != {"generator"}:
            return False
        together = Prediction.by(adapter, probe).logits.softmax(dim=1)
        return bool((torch.cat(single) - together).abs().max() < SAME)

    def _file(self, name: str) -> Path | None:
        return self.states / f"{name}.safetensors" if self.states else None

    def _run(self) -> None:
        more = True
        while more and (first := self._queue.get()) is not None:
            jobs, more = self._gather(first)
            jobs = [job for job in jobs if job.done.set_running_or_notify_cancel()]  # not given up
            self._answer(jobs)
            self.answered += len(jobs)

    def _gather(self, first: Job) -> tuple[list[Job], bool]:
        """The first job and those that come within a moment; False if there is no more to come."""
        jobs, until = [first], time.monotonic() + WAIT
        while len(jobs) < self.batch:
            try:
                job = self._queue.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                break
            if job is None:
                return jobs, False
            jobs.append(job)
        return jobs, True

    def _answer(self, jobs: list[Job]) -> None:
        """Answer clouds of any streams, and of none, together as far as each stream allows it."""
        streams: dict[str, Stream] = {}
        for name in dict.fromkeys(job.stream for job in jobs):
            try:
                streams[name] = self.stream(name, make=True) if name else self._alone
            except Exception as error:
                _fail([job for job in jobs if job.stream == name], error)
        jobs = [job for job in jobs if job.stream in streams]
        asked = self._ask(jobs, streams)
        for name, stream in streams.items():
            rows = [row for row, job in enumerate(jobs) if job.stream == name]
            own = [jobs[row] for row in rows]
            try:
                self._answer_stream(stream, own, asked.at(rows))
            except Exception as error:
                if len(own) == 1:
                    _fail(own, error)
                for job in own if len(own) > 1 else ():
                    self._answer([job])

    def _ask(self, jobs: list[Job], streams: dict[str, Stream]) -> Asked:
        """What can be asked for all streams at once: a method that learns nothing, and the source model."""
        if not jobs:
            return Asked()
        points = torch.cat([job.points for job in jobs]).to(device_of(self.model))
        try:
            alike = all(self._treats_alike(stream) for stream in streams.values())
            found = Prediction.by(self._alone.adapter, points) if alike else None
            looks = any(stream.looks for stream in streams.values())
            seen = self._alone.look(points, found and found.source) if looks else None
        except Exception:  # of one of them: each stream asks for itself
            return Asked(points)
        return Asked(points, found, seen)

    def _treats_alike(self, stream: Stream) -> bool:
        """Whether a stream answers as clouds of no stream are answered, whatever it saw before."""
        return self._together and stream.adapter.options == self._alone.adapter.options

    def _answer_stream(self, stream: Stream, jobs: list[Job], asked: Asked) -> None:
        top = max(job.top for job in jobs)
        if stream is self._alone:
            answers = self._answer_alone(asked, top)
        else:
            answers = stream.answer(asked.points, top=top, found=asked.found, seen=asked.seen)
            if self.states and stream.seen // self.every > (stream.seen - len(jobs)) // self.every:
                self.save(jobs[0].stream)
        self.metrics.batch(answers)
        for job, answer in zip(jobs, answers, strict=True):
            job.done.set_result(answer._replace(top=answer.top[: job.top]))

    def _answer_alone(self, asked: Asked, top: int) -> list[Answer]:
        """Clouds of no stream: together where the method treats each for itself, else one by one."""
        count = len(asked.points)
        answers: list[Answer] = []
        for rows in [list(range(count))] if self._together else [[row] for row in range(count)]:
            self._alone.reset()
            part = asked.at(rows)
            answers += self._alone.answer(part.points, top=top, found=part.found, seen=part.seen)
        return [answer._replace(learned=None) for answer in answers]


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a stream."""
    if not NAME.fullmatch(name):
        raise Refused(422, "a stream is named by 1 to 64 letters, digits, points, hyphens and underscores")


def _fail(jobs: list[Job], error: Exception) -> None:
    for job in jobs:
        job.done.set_exception(_refusal(error))


def _refusal(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, ValueError):
        return Refused(422, str(error))
    log.error("a cloud could not be answered", exc_info=error)
    return Refused(500, "the cloud could not be answered: the server's log says why")
