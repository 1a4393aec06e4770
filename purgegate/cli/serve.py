"""`purgegate serve`: clouds answered over HTTP."""

import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from purgegate.adapt import OURS
from purgegate.cli.options import (
    DEFAULT_WEIGHTS,
    Alpha,
    Memory,
    MethodName,
    NormName,
    Reference,
    Statistics,
    Up,
    Weights,
)
from purgegate.gate.statistics import SourceStatistics
from purgegate.io.files import make_folder
from purgegate.needs import load_model
from purgegate.serve.engine import Engine

TOKEN = "PURGEGATE_TOKEN"  # the environment variable that holds it
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    weights: Weights = DEFAULT_WEIGHTS,
    method: MethodName = OURS,
    norm: NormName = None,
    memory: Memory = None,
    statistics: Statistics = None,
    reference: Reference = None,
    alpha: Alpha = 0.01,
    up: Up = "z",
    host: Annotated[str, typer.Option(help=f"Where to listen; beyond this machine only with {TOKEN}.")] = (
        LOOPBACK[0]
    ),
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    batch: Annotated[int, typer.Option(min=1, help="Clouds that are answered together at the most.")] = 32,
    waiting: Annotated[int, typer.Option(min=1, help="Clouds that may wait; more are refused (429).")] = 256,
    body: Annotated[float, typer.Option(min=0.001, help="Megabytes that a request may have.")] = 16.0,
    points: Annotated[int, typer.Option(min=1, help="Points that a cloud may have.")] = 1 << 20,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time limit of a request.")] = 30.0,
    states: Annotated[Path | None, typer.Option(help="Folder for the states of streams.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Save a stream every so many clouds.")] = 100,
) -> None:
    """Answer clouds over HTTP: POST /v1/predict, /health, /metrics, /v1/streams/NAME; /docs describes them.

    A bearer token is taken from the environment variable PURGEGATE_TOKEN. SIGTERM stops the server once
    every accepted request is answered.
    """
    token = os.environ.get(TOKEN, "")
    if host not in LOOPBACK and not token:
        raise ValueError(f"{host} is open to others: set {TOKEN}, or listen at {LOOPBACK[0]}")
    try:
        uvicorn, app = import_module("uvicorn"), import_module("purgegate.serve.app")
    except ImportError as error:
        raise ValueError(f"the server needs `pip install 'purgegate[serve]'` ({error})") from error
    if states is not None:
        make_folder(states)
    options: dict[str, Any] = {} if statistics is None else {"statistics": SourceStatistics.load(statistics)}
    engine = Engine(
        load_model(weights), method, batch=batch, waiting=waiting, states=states, every=every, up=up,
        norm=norm, memory=memory, alpha=alpha or None, reference=reference, **options,
    )  # fmt: skip
    limits = app.Limits(int(body * (1 << 20)), points, seconds)
    made = app.create_app(engine, token=token, limits=limits)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))  # uvicorn raises it again at the end
    try:
        uvicorn.run(
            made, host=host, port=port, log_level="info", access_log=False, backlog=2048,
            proxy_headers=False, server_header=False,
        )  # fmt: skip
    finally:
        engine.drain()
        sys.stderr.write(f"purgegate: {engine.accepted} clouds accepted, {engine.answered} answered\n")
