"""The viewer's server: loopback, two routes, and no message that ends it."""

import http.client
import json
import random
import socket
import threading

import pytest

from purgegate.figures.exhibits import exhibit_data
from purgegate.figures.page_server import PageServer, served
from purgegate.figures.viewer import Viewer
from purgegate.io.labelled import Dataset
from purgegate.points.shapes import make_shapes


@pytest.fixture(scope="module")
def viewer() -> Viewer:
    exhibits = exhibit_data(Dataset(*make_shapes("test", count=1)), places=[0, 7])
    return Viewer("point_mae_tiny.shapes", exhibits, methods=["source"])


@pytest.fixture(scope="module")
def server(viewer):
    with served("<!doctype html>the page", viewer.routes, announce=lambda text: None) as server:
        yield server


def ask(server: PageServer, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, bytes]:
    """Status and content of an answer."""
    connection = http.client.HTTPConnection(*server.server_address, timeout=20)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_it_listens_on_loopback_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_told_with_a_way_out(server, viewer):
    port = server.server_address[1]
    with pytest.raises(
        OSError, match=rf"port {port} cannot be had \(.*\): give another, or 0 for a free one"
    ):
        PageServer("page", viewer.routes, port=port)


def test_it_gives_the_page_and_the_scenes_of_its_clouds(server, viewer):
    assert ask(server, "/") == (200, b"<!doctype html>the page")
    status, content = ask(server, "/scene?cloud=1&method=source&corruption=uniform&severity=2")
    assert status == 200
    assert json.loads(content) == viewer.scene(1, "source", corruption="uniform", severity=2)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/../../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/page.html", "/scene/",
     "/scene.json", "/index.html"],
)  # fmt: skip
def test_it_knows_no_other_path(server, path: str):
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize(
    "query",
    ["", "cloud=", "cloud=x", "cloud=2", "cloud=-1", "cloud=0&cloud=1", "cloud=0&path=/etc/passwd",
     "cloud=../../etc/passwd", "cloud=0&method=tent", "cloud=0&corruption=rain", "cloud=1e400",
     "cloud=0&corruption=uniform&severity=0", "cloud=99999999999999999999999999999",
     "&".join(["cloud=0"] * 50)],
)  # fmt: skip
def test_a_wrong_question_is_answered_with_what_is_wrong(server, query: str):
    status, content = ask(server, f"/scene?{query}")
    assert status == 400
    assert json.loads(content)["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(server, method: str):
    assert ask(server, "/", method=method)[0] == 501


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "localhost:1"])
def test_a_foreign_name_for_this_machine_is_refused(server, host: str):
    assert ask(server, "/", host=host)[0] == 403
    assert ask(server, "/scene?cloud=0", host=host)[0] == 403


def test_it_survives_a_thousand_random_messages(server):
    draw = random.Random(0)
    before = ask(server, "/scene?cloud=0&method=source")
    letters = "GET /scene?cloudmethodcorruptionseverity=&%0123456789-../\r\n: HTTP/1.1Host"
    for _ in range(1000):
        kind = draw.randrange(3)
        if kind == 0:
            message = draw.randbytes(draw.randrange(1, 400))
        elif kind == 1:
            message = "".join(draw.choices(letters, k=draw.randrange(1, 300))).encode()
        else:
            query = "".join(draw.choices("cloud=&method%severity0123456789-.", k=draw.randrange(40)))
            message = f"GET /scene?{query} HTTP/1.1\r\nHost: {server.address[7:-1]}\r\n\r\n".encode()
        with socket.create_connection(server.server_address, timeout=20) as client:
            client.sendall(message)
            client.shutdown(socket.SHUT_WR)
            client.settimeout(0.002 if draw.random() < 0.5 else 5)  # half of them hang up at once
            try:
                while client.recv(65536):
                    pass
            except OSError:
                pass
    assert ask(server, "/scene?cloud=0&method=source") == before
    assert ask(server, "/")[0] == 200


def test_many_may_ask_at_once(server):
    answers = []

    def work(cloud: int) -> None:
        answers.append((cloud, ask(server, f"/scene?cloud={cloud}&method=source&corruption=shear")))

    threads = [threading.Thread(target=work, args=(place % 2,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({content for cloud, (_, content) in answers if cloud == 0}) == 1
    assert {status for _, (status, _) in answers} == {200}
