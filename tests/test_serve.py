"""The server answers as the method does offline, refuses with a reason, and loses nothing."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import purgegate as pg
from purgegate.cli.serve import TOKEN
from purgegate.serve.bodies import JSON, NPY, PLY, RAW, Refused
from purgegate.serve.engine import Engine, Job
from tests.models import clouds, small_model
from tests.serving import POINTS, SMALL, npy, post, serving

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def model():
    return small_model(groups=40)


@pytest.fixture(scope="module")
def server(model):
    with serving(model, token="secret") as (_, url):
        yield url


@pytest.fixture(scope="module")
def client(server):
    return pg.Client(server, token="secret")


def test_every_kind_of_body_is_the_same_cloud(server, model, tmp_path):
    from purgegate.io.formats.ply import write_ply

    cloud = clouds(1, 300)[0].numpy()
    write_ply(tmp_path / "cloud.ply", cloud)
    bodies = {
        NPY: npy(cloud),
        RAW: cloud.astype("<f4").tobytes(),
        JSON: json.dumps(cloud.tolist()).encode(),
        "application/json; charset=utf-8": json.dumps({"points": cloud.tolist()}).encode(),
        PLY: (tmp_path / "cloud.ply").read_bytes(),
    }
    expected = pg.Stream(model, "source", alpha=None).push(cloud)
    for kind, body in bodies.items():
        status, found, _ = post(server, body, kind)
        assert status == 200, found
        assert (found["label"], found["name"]) == (expected.label, expected.name)
        assert found["confidence"] == pytest.approx(expected.confidence, abs=1e-5)


def test_the_client_answers_as_the_stream_does(client, model, tmp_path):
    np.save(tmp_path / "cloud.npy", clouds(1, 300)[0].numpy())
    own = pg.Stream(model, "source")
    for cloud in [*clouds(3, 300, seed=4).numpy(), tmp_path / "cloud.npy"]:
        found, expected = client.predict(cloud, stream="left"), own.push(cloud)
        assert found._replace(confidence=0, top=(), alarm=None) == expected._replace(
            confidence=0, top=(), alarm=None
        )
        assert found.confidence == pytest.approx(expected.confidence, abs=1e-5)
        assert found.alarm == expected.alarm
    assert client.stream("left")["seen"] == 4
    assert client.reset("left")["seen"] == 0
    assert len(client.predict(cloud, top=3).top) == 3
    with pytest.raises(ValueError, match=r"refuses \(404\): there is no stream other"):
        client.stream("other")
    with pytest.raises(ValueError, match="keeps no states"):
        client.save("left")
    assert client.health()["status"] == "ok"
    assert 'purgegate_requests_total{status="200"}' in client.metrics()
    with pytest.raises(ValueError, match="url must be like"):
        pg.Client("nonsense")


def test_a_kept_connection_that_another_thread_takes_first_is_made_anew(server):
    class Contested(list):
        """Connections of which there seems to be one left when there is none."""

        def __bool__(self) -> bool:
            return True

    client = pg.Client(server, token="secret")
    client._idle = Contested()
    assert client.health()["status"] == "ok"


def bad_requests() -> dict[str, tuple]:
    """What is wrong with a request, its body, its type, and the status that says so."""
    cloud = clouds(1, 300)[0].numpy()
    broken = cloud.copy()
    broken[3] = np.nan
    return {
        "nan": (npy(broken), NPY, 422),
        "infinite raw": (np.full((99, 3), np.inf, "<f4").tobytes(), RAW, 422),
        "truncated": (npy(cloud)[:-50], NPY, 422),
        "truncated raw": (cloud.tobytes()[:-5], RAW, 422),
        "too many bytes": (b"x" * (SMALL + 1), RAW, 413),
        "too many points": (np.zeros((POINTS + 1, 3), "<f4").tobytes(), RAW, 413),
        "another type": (npy(cloud), "image/png", 415),
        "no type": (npy(cloud), "", 415),
        "not what it says": (npy(cloud), PLY, 422),
        "pickle": (npy(np.array([{"a": 1}])), NPY, 422),
        "declares too much": (npy(cloud).replace(b"(300, 3)", b"(900000000, 3)"[:8]), NPY, 422),
        "no JSON": (b"{", JSON, 422),
        "deep JSON": (b"[" * 9000, JSON, 422),
        "JSON of words": (b'[["a", 1, 2]]', JSON, 422),
        "ragged": (b"[[1, 2, 3], [1]]", JSON, 422),
        "empty": (b"", RAW, 422),
        "flat": (npy(np.zeros((0, 3))), NPY, 422),
        "one point": (np.zeros((200, 3), "<f4").tobytes(), RAW, 422),
        "two columns": (npy(cloud[:, :2]), NPY, 422),
    }


@pytest.mark.parametrize("name", bad_requests())
def test_a_bad_request_is_refused_with_a_reason(server, name):
    body, kind, expected = bad_requests()[name]
    status, found, _ = post(server, body, kind)
    assert status == expected, found
    assert len(found["error"]) > 10
    assert "/tmp" not in found["error"]


def test_tokens_names_and_numbers_are_checked(server):
    good = clouds(1, 300)[0].numpy().tobytes()
    for token in ("", "wrong", "sécret"):
        status, found, headers = post(server, good, RAW, token=token.encode().decode("latin1"))
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    for path in ("stream=..%2Fpasswd", "stream=.a", "stream=" + "a" * 65, "top=0", "top=x", "stream=%ff%00"):
        status, found, _ = post(server, good, RAW, path=f"/v1/predict?{path}")
        assert status == 422, found
        assert found["error"]
    assert post(server, b"", "", path="/v1/streams/a%2F..%2Fb", verb="GET")[0] == 404
    assert post(server, b"", "", path="/v1/nothing", verb="GET")[0] == 404
    assert post(server, b"", "", path="/openapi.json", verb="GET")[1]["paths"]["/v1/predict"]


def test_a_full_queue_says_when_to_come_again(model, monkeypatch):
    held = threading.Event()
    own = Engine._answer
    monkeypatch.setattr(Engine, "_answer", lambda *args: (held.wait(), own(*args)))
    with serving(model, waiting=2, batch=1) as (engine, url):
        body = clouds(1, 300)[0].numpy().tobytes()
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(post, url, body, RAW) for _ in range(8)]
            while engine.metrics.requests[429] < 5:
                time.sleep(0.01)
            held.set()
            found = [each.result() for each in asked]
        assert Counter(status for status, _, _ in found) == {429: 5, 200: 3}
        assert {headers["Retry-After"] for status, _, headers in found if status == 429} == {"1"}


def test_who_is_too_slow_is_told_so(model, monkeypatch):
    held, body = threading.Event(), clouds(1, 300)[0].numpy().tobytes()
    own = Engine._answer
    monkeypatch.setattr(Engine, "_answer", lambda *args: (held.wait(), own(*args)))
    with serving(model, seconds=0.3) as (_, url):
        status, found, headers = post(url, body, RAW)
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "no answer within 0.3 s" in found["error"]
        held.set()
        head = f"POST /v1/predict HTTP/1.1\r\nContent-Type: {RAW}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            connection.sendall(head.encode() + body[:100])
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_streams_are_kept_on_disk_and_dropped(model, tmp_path):
    stream = clouds(6, 300)
    with serving(model, "source_bn", states=tmp_path, every=2) as (_, url):
        client = pg.Client(url)
        for cloud in stream[:3]:
            client.predict(cloud, stream="a")
        kept = pg.Stream(model, "source_bn").load(tmp_path / "a.safetensors")
        assert kept.seen == 2  # what a kill would have left
        client.save("a")
    with serving(model, "source_bn", states=tmp_path) as (_, url):
        found = pg.Client(url).predict(stream[4], stream="a")
        own = pg.Stream(model, "source_bn")
        for cloud in stream[:3]:
            own.push(cloud)
        assert found.confidence == pytest.approx(own.push(stream[4]).confidence, abs=1e-5)
        assert post(url, b"", "", path="/v1/streams/a", verb="DELETE")[0] == 204
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["source", "pg_auto", "lame", "pg_sf"])
def test_clouds_of_no_stream_do_not_see_each_other(model, method):
    with serving(model, method) as (engine, url):
        assert engine._together == (method in ("source", "pg_sf"))  # the others look at their batch, or back
        client, stream = pg.Client(url), [*clouds(6, 300) * 3]
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(client.predict, stream))
        for cloud, answer in zip(stream, found, strict=True):
            alone = pg.Stream(model, method, norm="source").push(cloud)
            assert answer.confidence == pytest.approx(alone.confidence, abs=1e-5)


@pytest.mark.parametrize(
    ("method", "options", "forwards"),
    # The source model needs no batch of its own; statistics of a stream need one each, and one look for all.
    [("source", {}, 1), ("source_bn", {}, 1 + 4), ("source_bn", {"norm": "source"}, 1)],
)
def test_clouds_of_many_streams_are_asked_together(model, monkeypatch, method, options, forwards):
    engine, some, batches = Engine(model, method, **options), list(clouds(8, 300)), []
    whole = type(model).encode
    try:
        for name in "abc":
            engine.stream(name, make=True)
        monkeypatch.setattr(
            type(model), "encode", lambda self, tokens: batches.append(1) or whole(self, tokens)
        )
        jobs = [
            Job(engine.prepared(cloud), "abc"[k % 4] if k % 4 < 3 else "", 1, Future())
            for k, cloud in enumerate(some)
        ]
        engine._answer(jobs)
        assert len(batches) == forwards
        for name in ("a", "b", "c", ""):
            own = pg.Stream(model, method, **options | ({} if name else {"norm": "source"}))
            mine = [(job, cloud) for job, cloud in zip(jobs, some, strict=True) if job.stream == name]
            expected = own.push_many([cloud for _, cloud in mine])
            for (job, _), answer in zip(mine, expected, strict=True):
                assert job.done.result().confidence == pytest.approx(answer.confidence, abs=1e-5)
            if name:
                assert engine.stream(name).seen == 2
    finally:
        engine.drain()


def test_a_stream_that_cannot_be_made_does_not_cost_the_others_their_answers(model, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"no state")
    with serving(model, "source_bn", states=tmp_path) as (engine, url):
        jobs = [Job(engine.prepared(clouds(1, 300)[0]), name, 1, Future()) for name in ("bad", "good", "")]
        engine._answer(jobs)
        with pytest.raises(Refused, match="holds no state"):
            jobs[0].done.result()
        assert jobs[1].done.result().label == jobs[2].done.result().label
        assert pg.Client(url).health()["status"] == "ok"


def test_a_client_that_goes_away_is_no_error_of_the_server(model, caplog):
    with serving(model) as (engine, url):
        port, body = int(url.rpartition(":")[2]), clouds(1, 300)[0].numpy().tobytes()
        head = f"POST /v1/predict HTTP/1.1\r\nContent-Type: {RAW}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head.encode() + body[:100])
            time.sleep(0.2)
        while not engine.metrics.requests:
            time.sleep(0.01)
        assert dict(engine.metrics.requests) == {400: 1}
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("method", ["source", "pg_auto"])
def test_every_door_answers_alike_under_source_statistics(purgegate, tmp_path, method):
    weights, some = "point_mae_tiny.shapes", pg.load_dataset("shapes", split="test").points[::120, :1500]
    for number, cloud in enumerate(some):
        np.save(tmp_path / f"{number}.npy", cloud)
        os.utime(tmp_path / f"{number}.npy", (number, number))
    stream = pg.Stream(weights, method, norm="source")
    expected = [stream.push(cloud) for cloud in some]
    common = (tmp_path, "--weights", weights, "--method", method, "--norm", "source", "--json")
    shown = [purgegate("predict", *common), purgegate("watch", *common, "--once", "--interval", 0)]
    with serving(pg.load_backbone(weights), method, norm="source") as (_, url):
        client = pg.Client(url)
        served = [[client.predict(cloud, stream=name) for cloud in some] for name in ("left", "")]
    rows = [[json.loads(line) for line in run.out.splitlines()] for run in shown]
    rows += [[answer._asdict() | {"class": answer.name} for answer in answers] for answers in served]
    for door in rows:
        for row, answer in zip(door, expected, strict=True):
            facts = (row["class"], row["purged"], row["unknown"])
            assert facts == (answer.name, answer.purged, answer.unknown)
            assert row["confidence"] == pytest.approx(answer.confidence, abs=1e-4)
            assert row["shift"] == pytest.approx(answer.shift, rel=1e-3)


@pytest.mark.slow
def test_under_load_every_good_request_is_answered_right_and_every_bad_one_refused(model):
    good = list(clouds(40, 300).numpy())
    expected = [pg.Stream(model, "source", alpha=None).push(cloud).confidence for cloud in good]
    bad = [each for name, each in bad_requests().items() if name != "too many bytes"]
    with serving(model, token="secret", waiting=512) as (engine, url):

        def ask(number: int) -> bool:
            if number % 10 == 9:
                body, kind, status = bad[number // 10 % len(bad)]
                return post(url, body, kind)[0] == status
            place = number % len(good)
            found = client.predict(good[place])
            return abs(found.confidence - expected[place]) < 1e-5

        client = pg.Client(url, token="secret")
        with ThreadPoolExecutor(50) as pool:
            right = list(pool.map(ask, range(600)))
        assert all(right)
        assert engine.accepted == engine.answered


@pytest.fixture
def start(tmp_path):
    """Start a server as a person does, with a folder for states; what still runs at the end is killed."""
    weights, started = tmp_path / "small.safetensors", []
    pg.save_backbone(small_model(groups=40), weights)

    def run(*options: object) -> tuple[subprocess.Popen, str]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "purgegate", "serve", "--weights", weights, "--port", port, *options]
        process = subprocess.Popen(
            [*map(str, command), "--states", str(tmp_path / "states")],
            stderr=subprocess.PIPE, text=True, env={**os.environ, TOKEN: "secret"},
        )  # fmt: skip
        started.append(process)
        wait_for(f"http://127.0.0.1:{port}")
        return process, f"http://127.0.0.1:{port}"

    yield run
    for process in started:
        process.kill()
        process.communicate()


def wait_for(url: str) -> None:
    for _ in range(600):
        try:
            pg.Client(url, token="secret").health()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not start")


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_loses_nothing_that_it_accepted(start, tmp_path):
    process, url = start("--method", "source")
    answered, stop = [], threading.Event()

    def ask() -> None:
        client = pg.Client(url, token="secret", retries=0)
        while not stop.is_set():
            try:
                answered.append(client.predict(clouds(1, 300)[0], stream="left"))
            except (ValueError, OSError, http.client.HTTPException):
                return

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    stop.set()
    for thread in threads:
        thread.join()
    line = next(line for line in err.splitlines() if "accepted" in line)
    assert line == f"purgegate: {len(answered)} clouds accepted, {len(answered)} answered"
    assert len(answered) > 20
    kept = pg.Stream(pg.load_backbone(tmp_path / "small.safetensors"), "source")
    assert kept.load(tmp_path / "states" / "left.safetensors").seen == len(answered)


@pytest.mark.slow
def test_a_server_that_is_killed_goes_on_from_the_last_save(start, tmp_path):
    stream = clouds(8, 300).numpy()
    own = pg.Stream(pg.load_backbone(tmp_path / "small.safetensors"), "source_bn")
    process, url = start("--method", "source_bn", "--every", 3)
    for cloud in stream[:5]:  # saved at the third
        pg.Client(url, token="secret").predict(cloud, stream="left")
    process.kill()
    process.wait()
    for cloud in stream[:3]:
        own.push(cloud)
    _, url = start("--method", "source_bn")
    client = pg.Client(url, token="secret")
    assert client.stream("left")["seen"] == 3
    for cloud in stream[5:]:
        found = client.predict(cloud, stream="left")
        assert found.confidence == pytest.approx(own.push(cloud).confidence, abs=1e-5)


def test_a_server_open_to_others_needs_a_token(purgegate, monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    run = purgegate("serve", "--host", "0.0.0.0")
    assert run.code == 2
    assert TOKEN in run.err
