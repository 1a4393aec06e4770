"""A page and its answers on loopback, for the person at this machine and nobody else."""

import json
import logging
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

LOOPBACK = "127.0.0.1"

Routes = Mapping[str, Callable[[str], dict[str, Any]]]  # by path: from a query to what is sent as JSON

log = logging.getLogger("purgegate")


class PageServer(ThreadingHTTPServer):
    """The page, and a few answers for its script. No path of a file is ever taken."""

    daemon_threads = True

    def __init__(self, page: str, routes: Routes, *, port: int = 0) -> None:
        self.page, self.routes = page.encode(), routes
        try:
            super().__init__((LOOPBACK, port), Answering)
        except OSError as error:
            raise OSError(
                f"port {port} cannot be had ({error.strerror}): give another, or 0 for a free one"
            ) from error

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
        """Give the page or an answer, or say in a word why not."""
        address = urlsplit(self.path)
        if not self._is_ours():
            self._send_json(HTTPStatus.FORBIDDEN, {"error": "this server answers its own page alone"})
        elif address.path == "/":
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif address.path in self.server.routes:
            self._send_json(*self._answer(self.server.routes[address.path], address.query))
        else:
            self._send_json(
                HTTPStatus.NOT_FOUND, {"error": f"there are / and {', '.join(self.server.routes)}"}
            )

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: a person reads the terminal."""

    def _answer(
        self, route: Callable[[str], dict[str, Any]], query: str
    ) -> tuple[HTTPStatus, dict[str, Any]]:
        try:
            return HTTPStatus.OK, route(query)
        except (ValueError, OSError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except Exception as error:  # the next question is to be answered, whatever is wrong with this one
            log.exception("a question of the page failed")
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"}

    def _is_ours(self) -> bool:
        """Whether the request was meant for this server: a foreign page may name it otherwise, to read it."""
        port = self.server.server_address[1]
        return self.headers.get("Host") in (f"{LOOPBACK}:{port}", f"localhost:{port}")

    def _send_json(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self._send(status, json.dumps(value, allow_nan=False).encode(), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)


def read_query(query: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The settings that a query names, the first of `kinds` among them.

    One that is unknown, given twice or not of its kind is refused.
    """
    asked = parse_qs(query, keep_blank_values=True, max_num_fields=len(kinds))
    first = next(iter(kinds))
    if asked.keys() - kinds.keys() or first not in asked or any(len(values) > 1 for values in asked.values()):
        raise ValueError(
            f"a question names {first}, and may name {', '.join(kinds)}, each once; got {query[:80]!r}"
        )
    return {name: kinds[name](values[0][:80]) for name, values in asked.items()}


@contextmanager
def served(
    page: str, routes: Routes, *, port: int = 0, browser: bool = False, announce: Callable[[str], None]
) -> Iterator[PageServer]:
    """Serve a page by a thread of its own for as long as this is entered."""
    with PageServer(page, routes, port=port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            announce(f"See {server.address} (Ctrl-C ends it)")
            if browser:
                webbrowser.open(server.address)
            yield server
        finally:
            server.shutdown()
            thread.join()


def wait_for_interrupt() -> None:
    """Do nothing until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(60)
