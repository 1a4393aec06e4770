"""The HTTP side of the server: limits, tokens, routes; `engine` answers."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from torch import Tensor

from purgegate.answers import Answer
from purgegate.serve.bodies import JSON, NPY, PLY, RAW, Refused, cloud_of
from purgegate.serve.engine import Engine
from purgegate.version import __version__

RETRY = "1"  # seconds after which a client may try again
AT_ONCE = 16 << 10  # bytes of a binary body that is read without a thread
MOST_TOP = 1000
DISCARD = 4  # times the limit that a body is read and thrown away, so that its sender can read why
BODY = {
    "required": True,
    "content": {
        NPY: {"schema": {"type": "string", "format": "binary"}},
        PLY: {"schema": {"type": "string", "format": "binary"}},
        RAW: {"schema": {"type": "string", "format": "binary"}},
        JSON: {"schema": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}},
    },
}

QUERY = [
    {
        "name": "stream", "in": "query", "schema": {"type": "string"},
        "description": "The sensor that sent the cloud; each has a state of its own.",
    },
    {
        "name": "top", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": MOST_TOP},
        "description": "So many of the likeliest classes.",
    },
]  # fmt: skip


class Limits(NamedTuple):
    """What a request may ask for."""

    body: int = 16 << 20  # bytes
    points: int = 1 << 20
    seconds: float = 30.0


def create_app(engine: Engine, *, token: str = "", limits: Limits | None = None) -> FastAPI:
    """The server's application; with a token, every request but that for the health must bear it."""
    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(engine.drain)

    app = FastAPI(title="purgegate", version=__version__, lifespan=lifespan)
    app.add_middleware(Guard, engine=engine, token=token)
    app.exception_handler(Refused)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    _add_predict(app, engine, limits)
    _add_streams(app, engine)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the server answers, and how many clouds wait."""
        return {"status": "ok", "version": __version__, "method": engine.method, "waiting": engine.waiting}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Counters in Prometheus' text format."""
        evidence = {name: each.alarm.evidence for name, each in dict(engine.streams).items() if each.alarm}
        return PlainTextResponse(engine.metrics.text(queue=engine.waiting, streams=evidence))

    return app


def _add_predict(app: FastAPI, engine: Engine, limits: Limits) -> None:
    @app.post("/v1/predict", openapi_extra={"requestBody": BODY, "parameters": QUERY})
    async def predict(request: Request) -> JSONResponse:
        """Answer one cloud, as .npy, .ply, raw little-endian float32 or JSON."""
        # FastAPI would read these two in a tenth of a millisecond, which is much beside a cloud's few.
        stream, top = request.query_params.get("stream", ""), _top(request.query_params.get("top", "1"))
        try:
            async with asyncio.timeout(limits.seconds):
                body = await _read(request, limits.body)
        except TimeoutError as error:
            raise Refused(408, f"the body must come within {limits.seconds} s") from error
        except ClientDisconnect as error:  # who reads this is the one that counts
            raise Refused(400, "the body did not come whole") from error
        kind = request.headers.get("content-type", "")
        # A thread costs more than a small cloud does, which is a fraction of a millisecond.
        small = len(body) <= AT_ONCE and kind in (NPY, RAW)
        points = (
            _points(engine, body, kind, limits)
            if small
            else await run_in_threadpool(_points, engine, body, kind, limits)
        )
        waiting = engine.submit(points, stream=stream, top=top)
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(waiting), limits.seconds)
        except TimeoutError as error:
            raise Refused(503, f"no answer within {limits.seconds} s: try again soon") from error
        return JSONResponse(as_json(answer))


def _add_streams(app: FastAPI, engine: Engine) -> None:
    @app.get("/v1/streams")
    async def streams() -> list[str]:
        """The names of the streams."""
        return sorted(engine.streams)

    @app.get("/v1/streams/{name}")
    def describe(name: str) -> JSONResponse:
        """The state of a stream."""
        return JSONResponse(_plain(engine.stream(name).describe()))

    @app.post("/v1/streams/{name}/{action}")
    def act(name: str, action: str) -> JSONResponse:
        """Do one of: reset (forget every cloud), acknowledge (silence the alarm), save (to disk)."""
        stream = engine.stream(name)
        actions: dict[str, Callable[[], None]] = {
            "reset": stream.reset,
            "acknowledge": stream.acknowledge,
            "save": lambda: engine.save(name),
        }
        if action not in actions:
            raise Refused(404, f"a stream can {', '.join(actions)}; got {action}")
        actions[action]()
        return JSONResponse(_plain(stream.describe()))

    @app.delete("/v1/streams/{name}", status_code=204)
    def forget(name: str) -> Response:
        """Drop a stream and its file."""
        engine.forget(name)
        return Response(status_code=204)


def as_json(answer: Answer) -> dict[str, Any]:
    """An answer as JSON has it."""
    alarm = answer.alarm._asdict() if answer.alarm else None
    return answer._asdict() | {"alarm": alarm}


def _plain(value: Any) -> Any:
    """Whatever a stream says of itself, in what JSON knows."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _points(engine: Engine, body: bytes, kind: str, limits: Limits) -> Tensor:
    """A body's cloud as the model sees it."""
    return engine.prepared(cloud_of(body, kind, most_points=limits.points))


def _top(text: str) -> int:
    """How many classes are asked for."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_TOP):
        raise Refused(422, f"top must be a whole number from 1 to {MOST_TOP}; got {text[:20]!r}")
    return int(text)


async def _read(request: Request, most: int) -> bytes:
    """The body, of at most so many bytes."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= most:
            parts.append(part)
        elif size > DISCARD * most:
            break
    if size > most:
        raise Refused(413, f"a body may have {most} bytes; got {size} or more")
    return b"".join(parts)


class Guard:
    """Lets requests with the token through, and counts all: an ASGI application round another."""

    def __init__(self, app: ASGIApp, *, engine: Engine, token: str) -> None:
        self.app, self.engine, self.token = app, engine, token
        self.wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on, one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await (self.app if self._knows(scope) else _unauthorised)(scope, receive, counted)
        finally:
            self.engine.metrics.request(status, time.perf_counter() - start)

    def _knows(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        free = not self.token or scope["path"] == "/health"
        return free or secrets.compare_digest(given, self.wanted)


async def _unauthorised(scope: Scope, receive: Receive, send: Send) -> None:
    response = _reason(401, "give the server's token: Authorization: Bearer TOKEN")
    response.headers["WWW-Authenticate"] = "Bearer"
    await response(scope, receive, send)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    status = error.status if isinstance(error, Refused) else 500
    return _reason(status, str(error))


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    return _reason(422, " ".join(str(error).split())[:500])


def _reason(status: int, reason: str) -> JSONResponse:
    response = JSONResponse({"error": reason}, status_code=status)
    if status in (429, 503):
        response.headers["Retry-After"] = RETRY
    return response
