"""A page and its scenes on loopback, for the person at this machine and nobody else."""

import json
import logging
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from purgegate.figures.scenes import Scene
from purgegate.figures.viewer import Viewer

LOOPBACK = "127.0.0.1"
QUESTION = {"cloud": int, "method": str, "corruption": str, "severity": int}

log = logging.getLogger("purgegate")


class PageServer(ThreadingHTTPServer):
    """Two routes: the page, and the scene of a cloud, by its number. No path of a file is ever taken."""

    daemon_threads = True

    def __init__(self, page: str, viewer: Viewer, *, port: int = 0) -> None:
        self.page, self.viewer = page.encode(), viewer
        super().__init__((LOOPBACK, port), Answering)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up, or a message that is none, is no reason to stop or to shout."""
        log.debug("a request of %s was broken off", client_address, exc_info=True)


class Answering(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PageServer
    timeout = 30

    def do_GET(self) -> None:
        """Give the page or a scene, or say in a word why not."""
        address = urlsplit(self.path)
        if not self._is_ours():
            self._send_json(HTTPStatus.FORBIDDEN, {"error": "this server answers its own page alone"})
        elif address.path == "/":
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif address.path == "/scene":
            self._send_json(*self._scene(address.query))
        else:
            self._send_json(HTTPStatus.NOT_FOUND, {"error": "there are / and /scene"})

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: a person reads the terminal."""

    def _scene(self, query: str) -> tuple[HTTPStatus, Scene]:
        try:
            return HTTPStatus.OK, self.server.viewer.scene(**read_question(query))
        except (ValueError, OSError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except Exception as error:  # the next cloud is to be seen, whatever is wrong with this one
            log.exception("a scene failed")
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"}

    def _is_ours(self) -> bool:
        """Whether the request was meant for this server: a foreign page may name it otherwise, to read it."""
        port = self.server.server_address[1]
        return self.headers.get("Host") in (f"{LOOPBACK}:{port}", f"localhost:{port}")

    def _send_json(self, status: HTTPStatus, value: Scene) -> None:
        self._send(status, json.dumps(value, allow_nan=False).encode(), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)


def read_question(query: str) -> dict[str, Any]:
    """The settings that a query names; one that is unknown, given twice or no number is refused."""
    asked = parse_qs(query, keep_blank_values=True, max_num_fields=len(QUESTION))
    unknown = asked.keys() - QUESTION.keys()
    if unknown or "cloud" not in asked or any(len(values) > 1 for values in asked.values()):
        raise ValueError(f"a scene is asked for by {', '.join(QUESTION)}, each once; got {query[:80]!r}")
    return {name: QUESTION[name](values[0][:80]) for name, values in asked.items()}


def serve_page(
    page: str, viewer: Viewer, *, port: int, browser: bool, announce: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C."""
    with PageServer(page, viewer, port=port) as server:
        announce(f"See {server.address} (Ctrl-C ends it)")
        if browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            announce("")
