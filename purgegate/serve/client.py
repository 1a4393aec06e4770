"""A client of the server, with nothing but the standard library and NumPy."""

import http.client
import io
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np

from purgegate.alarm import Alarm
from purgegate.answers import Answer
from purgegate.io.clouds import read_cloud

STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, http.client.CannotSendRequest)


class Client:
    """Asks a server, from any number of threads; connections are kept until `close`.

    A server with too much to do is asked again, up to `retries` times, when it says.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8000", *, token: str = "", timeout: float = 60.0, retries: int = 10
    ) -> None:
        self._idle: list[http.client.HTTPConnection] = []
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://127.0.0.1:8000; got {url!r}")
        self.url, self.timeout, self.retries = url, timeout, retries
        self._parts = parts
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def predict(self, cloud: Any, *, stream: str = "", top: int = 1) -> Answer:
        """The answer to a cloud (N, 3), an array or a file that is read here."""
        cloud = read_cloud(cloud) if isinstance(cloud, (str, Path)) else np.asarray(cloud)
        body = io.BytesIO()
        np.save(body, cloud, allow_pickle=False)
        query = urlencode({"stream": stream, "top": top})
        return _answer(self.ask("POST", f"/v1/predict?{query}", body.getvalue(), "application/x-npy"))

    def health(self) -> dict[str, Any]:
        """Whether the server answers."""
        return self.ask("GET", "/health")

    def metrics(self) -> str:
        """The server's counters, in Prometheus' text format."""
        return self.ask("GET", "/metrics")

    def stream(self, name: str) -> dict[str, Any]:
        """The state of a stream."""
        return self.ask("GET", f"/v1/streams/{quote(name, safe='')}")

    def reset(self, name: str) -> dict[str, Any]:
        """Let a stream forget."""
        return self.ask("POST", f"/v1/streams/{quote(name, safe='')}/reset")

    def acknowledge(self, name: str) -> dict[str, Any]:
        """Silence the alarm of a stream."""
        return self.ask("POST", f"/v1/streams/{quote(name, safe='')}/acknowledge")

    def save(self, name: str) -> dict[str, Any]:
        """Let the server save a stream."""
        return self.ask("POST", f"/v1/streams/{quote(name, safe='')}/save")

    def ask(self, verb: str, path: str, body: bytes = b"", kind: str = "") -> Any:
        """A request's answer: parsed JSON, or text; ValueError with the server's reason if it refuses."""
        for left in range(self.retries, -1, -1):
            response, text = self._once(verb, path, body, kind)
            if response.status not in (429, 503) or not left:
                break
            time.sleep(float(response.headers.get("Retry-After") or 1))
        if response.status >= 400:
            raise ValueError(f"{self.url} refuses ({response.status}): {_reason(text)}")
        return json.loads(text) if "json" in response.headers.get("Content-Type", "") else text.decode()

    def _once(self, verb: str, path: str, body: bytes, kind: str) -> tuple[http.client.HTTPResponse, bytes]:
        headers = self._headers | ({"Content-Type": kind} if kind else {})
        target = self._parts.path.rstrip("/") + path
        while True:
            kept = self._take_idle()
            connection = kept or self._connect()
            try:
                connection.request(verb, target, body or None, headers)
                response = connection.getresponse()
                text = response.read()
            except BaseException as error:
                connection.close()
                if kept and isinstance(error, STALE):
                    continue  # it was closed at the other end since; a fresh one answers or raises
                raise
            self._idle.append(connection)
            return response, text

    def _take_idle(self) -> http.client.HTTPConnection | None:
        try:  # to ask first whether there is one would leave time for another thread to take it
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self) -> http.client.HTTPConnection:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(str(self._parts.hostname), self._parts.port, timeout=self.timeout)

    def close(self) -> None:
        """Close the kept connections."""
        while connection := self._take_idle():
            connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _answer(found: dict[str, Any]) -> Answer:
    alarm = found["alarm"] and Alarm(**found["alarm"] | {"stages": _pairs(found["alarm"]["stages"])})
    return Answer(**found | {"stages": tuple(found["stages"]), "top": _pairs(found["top"]), "alarm": alarm})


def _pairs(found: list[list[Any]]) -> tuple[Any, ...]:
    return tuple(map(tuple, found))


def _reason(text: bytes) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace")[:200]
