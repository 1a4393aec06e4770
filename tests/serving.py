"""A server in the tests' own process, and requests to it as anybody may send them."""

import http.client
import io
import json
import socket
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from purgegate.serve.engine import Engine

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

SMALL = 64 << 10  # bytes of the greatest body
POINTS = 2000


@contextmanager
def serving(model, method="source", *, token="", seconds=20.0, **options):
    """A server in this process, on a free port of the loopback."""
    from purgegate.serve.app import Limits, create_app

    engine = Engine(model, method, **options)
    app = create_app(engine, token=token, limits=Limits(SMALL, POINTS, seconds))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield engine, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            engine.drain()


def npy(array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def post(url: str, body: bytes, kind: str, *, path="/v1/predict", token="secret", verb="POST") -> tuple:
    """Status and parsed body of a request as anybody may send it."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {token}"} if token else {})
    connection.request(verb, path, body, headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if text else None, response.headers
