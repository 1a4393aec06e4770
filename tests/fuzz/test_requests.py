"""Damaged requests to a server: an answer, or a 4xx with a reason; never a 5xx, never a traceback."""

import json
import logging
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgegate.serve.bodies import JSON, NPY, PLY, RAW
from tests.fuzz.mutations import mutations
from tests.models import clouds, small_model
from tests.serving import npy, post, serving

PATIENCE = 0.2  # seconds for an answer to a request that may seem unfinished
CLOUD = clouds(1, 60)[0].numpy()


def written_ply(folder) -> bytes:
    from purgegate.io.formats.ply import write_ply

    write_ply(folder / "cloud.ply", CLOUD)
    return (folder / "cloud.ply").read_bytes()


@pytest.fixture(scope="module")
def server():
    """A server whose log has no error and whose counters no 5xx when all is over."""
    errors: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: errors.append(record.getMessage())  # type: ignore[method-assign]
    with serving(small_model(), "source_bn", token="secret") as (engine, url):
        logging.getLogger("uvicorn.error").addHandler(handler)
        logging.getLogger("purgegate").addHandler(handler)
        yield url
        right = post(url, CLOUD.tobytes(), RAW)
    logging.getLogger("purgegate").removeHandler(handler)
    assert right[0] == 200
    assert engine.accepted == engine.answered
    assert not errors
    assert {status // 100 for status in engine.metrics.requests} <= {2, 4}


@pytest.mark.parametrize("kind", [NPY, RAW, JSON, PLY])
def test_damaged_bodies(server, count, tmp_path, kind) -> None:
    whole = {NPY: npy(CLOUD), RAW: CLOUD.tobytes(), JSON: json.dumps(CLOUD.tolist()).encode()}
    body = whole.get(kind) or written_ply(tmp_path)

    @given(mutations(body), st.sampled_from(["", "?stream=left"]))
    def check(data: bytes, query: str) -> None:
        count["requests"] += 1
        status, found, _ = post(server, data, kind, path=f"/v1/predict{query}")
        assert status in (200, 413, 422), found
        if status == 200:
            assert 0 <= found["confidence"] <= 1
        else:
            assert found["error"].strip()
            assert "/purgegate-" not in found["error"], "no path of the server's disk is told"

    check()


def request(line: str, body: bytes = b"", *headers: str) -> bytes:
    """A request as it goes over the wire."""
    common = ("Host: x", "Connection: close", "Authorization: Bearer secret", f"Content-Length: {len(body)}")
    return "\r\n".join([f"{line} HTTP/1.1", *common, *headers, "", ""]).encode() + body


CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (CLOUD.nbytes, CLOUD.tobytes())
REQUESTS = {
    "predict": request(
        "POST /v1/predict?stream=right&top=3", CLOUD.tobytes(), "Content-Type: application/octet-stream"
    ),
    "chunks": request("POST /v1/predict", CHUNKED, f"Content-Type: {RAW}", "Transfer-Encoding: chunked"),
    "state": request("GET /v1/streams/left"),
    "reset": request("POST /v1/streams/left/reset"),
    "save": request("POST /v1/streams/left/save"),
    "drop": request("DELETE /v1/streams/right"),
    "metrics": request("GET /metrics"),
    "docs": request("GET /openapi.json"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_damaged_requests(server, count, name) -> None:
    port = int(server.rpartition(":")[2])

    @given(mutations(REQUESTS[name]))
    def check(data: bytes) -> None:
        count["requests"] += 1
        assert not reply(port, data).startswith((b"HTTP/1.1 5", b"HTTP/1.0 5"))

    assert reply(port, REQUESTS[name], patience=30.0).startswith(b"HTTP/1.1 ")
    check()


def reply(port: int, data: bytes, *, patience: float = PATIENCE) -> bytes:
    """The first bytes of what comes back, or nothing where the server still waits for more."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(patience)
        try:
            connection.sendall(data)
            return connection.recv(64)
        except (TimeoutError, ConnectionError):
            return b""
