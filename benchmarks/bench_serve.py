"""The server under load, on the loopback: right answers, refusals, memory, latency, and throughput.

    python benchmarks/bench_serve.py --requests 20000 --flight 200

Every tenth request is a bad one. Throughput is compared with the same clouds prepared and answered offline
in batches of 32, in one run: what a request costs beyond that is the server's.
"""

import argparse
import http.client
import io
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import purgegate as pg

WEIGHTS, METHOD, TOKEN = "point_mae_tiny.modelnet40", "source", "secret"
NPY, RAW = "application/x-npy", "application/octet-stream"


def clouds(count: int = 64) -> list[np.ndarray]:
    """Clouds of 1,024 points of the embedded shapes."""
    data = pg.load_dataset("shapes", split="test")
    return [np.ascontiguousarray(cloud[:1024]) for cloud in data.points[:count]]


def offline(some: list[np.ndarray], requests: int) -> tuple[list[pg.Prediction], float, float]:
    """Answers, and clouds a second with and without their preparation, in batches of 32."""
    model = pg.load_backbone(WEIGHTS)
    adapter = pg.create_adapter(METHOD, model)
    points = torch.cat([pg.prepare(cloud, model) for cloud in some])
    right = [adapter.predict(part) for part in points.split(1)]
    rounds = max(requests // len(some), 1)
    start = time.perf_counter()
    for _ in range(rounds):
        for part in points.split(32):
            adapter.predict(part)
    bare = rounds * len(some) / (time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(rounds):
        for first in range(0, len(some), 32):
            adapter.predict(torch.cat([pg.prepare(cloud, model) for cloud in some[first : first + 32]]))
    return right, rounds * len(some) / (time.perf_counter() - start), bare


def bad_requests(cloud: np.ndarray) -> list[tuple[bytes, str, str, tuple[int, ...]]]:
    """Body, type, token, and the right statuses: NaN, truncated, too large, wrong type, wrong token."""
    whole = io.BytesIO()
    np.save(whole, cloud)
    return [
        (np.full_like(cloud, np.nan).tobytes(), RAW, TOKEN, (422,)),
        (whole.getvalue()[:-100], NPY, TOKEN, (422,)),
        (bytes(2 << 20), RAW, TOKEN, (413,)),
        (whole.getvalue(), "image/png", TOKEN, (415,)),
        (whole.getvalue(), NPY, "wrong", (401,)),
    ]


def start_server() -> tuple[subprocess.Popen, str]:
    """A server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "purgegate", "serve", "--weights", WEIGHTS, "--method", METHOD]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--body", "1"],
        env={**os.environ, "PURGEGATE_TOKEN": TOKEN}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    while True:
        try:
            pg.Client(url, token=TOKEN).health()
        except OSError:
            time.sleep(0.2)
        else:
            return process, url


def resident(process: subprocess.Popen) -> float:
    """Megabytes of a process, now."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--flight", type=int, default=200)
    args = parser.parse_args()
    some = clouds()
    right, whole, bare = offline(some, min(args.requests, 640))
    expected = [(int(each.logits.argmax()), float(each.logits.softmax(dim=1).max())) for each in right]
    process, url = start_server()
    client, bad, seconds = pg.Client(url, token=TOKEN, retries=100), bad_requests(some[0]), []

    def ask(number: int) -> bool:
        if number % 10 == 9:
            body, kind, token, statuses = bad[number // 10 % len(bad)]
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
            headers = {"Content-Type": kind, "Authorization": f"Bearer {token}"}
            connection.request("POST", "/v1/predict", body, headers)
            status = connection.getresponse().status
            connection.close()
            return status in statuses
        start, place = time.perf_counter(), number % len(some)
        found = client.predict(some[place])
        seconds.append(time.perf_counter() - start)
        label, sure = expected[place]
        return found.label == label and abs(found.confidence - sure) < 1e-4

    with ThreadPoolExecutor(args.flight) as pool:
        list(pool.map(ask, range(args.flight)))  # warm
        before, _ = resident(process), seconds.clear()
        start = time.perf_counter()
        answered = list(pool.map(ask, range(args.requests)))
        rate = len(seconds) / (time.perf_counter() - start)
    after = resident(process)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    print(f"{sum(answered)} of {args.requests} as they must be; {args.flight} in flight, 1 in 10 bad")
    print(f"p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms; memory {before:.0f} MB, then {after:.0f} MB")
    print(
        f"{rate:.1f} good ones a second: {rate / whole:.0%} of read, prepared and answered offline in batches"
    )
    print(f"of 32 ({whole:.1f}), {rate / bare:.0%} of the bare forward of prepared clouds ({bare:.1f})")


if __name__ == "__main__":
    main()
