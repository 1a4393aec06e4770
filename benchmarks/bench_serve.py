"""The server under load, on the loopback: right answers, refusals, memory, latency, and throughput.

    python benchmarks/bench_serve.py --requests 20000 --flight 200

Every tenth request is a bad one. The server is compared with the same clouds answered offline in batches of
32, in turns and by processor time, because clients and others need the same cores; one thread each.
"""

import argparse
import http.client
import io
import json
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


class Offline:
    """The same clouds answered without a server: what is right, and what it costs."""

    def __init__(self, some: list[np.ndarray]) -> None:
        self.some, self.model = some, pg.load_backbone(WEIGHTS)
        self.adapter = pg.create_adapter(METHOD, self.model)
        self.points = torch.cat([pg.prepare(cloud, self.model) for cloud in some])
        shares = [self.adapter(part).softmax(dim=1)[0] for part in self.points.split(1)]
        self.right = [(int(each.argmax()), float(each.max())) for each in shares]

    def bare(self) -> float:
        """Processor seconds of a cloud in batches of 32, prepared before."""
        start = time.process_time()
        for part in self.points.split(32):
            self.adapter.predict(part)
        return (time.process_time() - start) / len(self.points)

    def whole(self) -> float:
        """The same with its preparation."""
        start = time.process_time()
        for first in range(0, len(self.some), 32):
            part = [pg.prepare(cloud, self.model) for cloud in self.some[first : first + 32]]
            self.adapter.predict(torch.cat(part))
        return (time.process_time() - start) / len(self.some)


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
        env={**os.environ, "PURGEGATE_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    while True:
        try:
            pg.Client(url, token=TOKEN).health()
        except OSError:
            time.sleep(0.2)
        else:
            return process, url


def busy(process: subprocess.Popen) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: subprocess.Popen) -> float:
    """Megabytes of a process, now."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Load:
    """Requests of which every tenth is a bad one, and what came of them."""

    def __init__(self, url: str, some: list[np.ndarray], right: list[tuple[int, float]]) -> None:
        self.url, self.some, self.right = url, some, right
        self.client, self.bad = pg.Client(url, token=TOKEN, retries=100), bad_requests(some[0])
        self.seconds: list[float] = []

    def ask(self, number: int) -> bool:
        """Whether a request was answered as it must be."""
        return self._bad(number // 10) if number % 10 == 9 else self._good(number)

    def _bad(self, number: int) -> bool:
        body, kind, token, statuses = self.bad[number % len(self.bad)]
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        connection.request(
            "POST", "/v1/predict", body, {"Content-Type": kind, "Authorization": f"Bearer {token}"}
        )
        response = connection.getresponse()
        reason = json.loads(response.read())["error"]
        connection.close()
        return response.status in statuses and bool(reason)

    def _good(self, number: int) -> bool:
        start, place = time.perf_counter(), number % len(self.some)
        found = self.client.predict(self.some[place])
        self.seconds.append(time.perf_counter() - start)
        label, sure = self.right[place]
        return found.label == label and abs(found.confidence - sure) < 1e-4


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--flight", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20, help="in which server and bare forward take turns")
    args = parser.parse_args()
    torch.set_num_threads(1)
    offline = Offline(clouds())
    process, url = start_server()
    load = Load(url, offline.some, offline.right)
    memory, rounds, right, clock = [resident(process)], [], 0, 0.0
    with ThreadPoolExecutor(args.flight) as pool:
        list(pool.map(load.ask, range(args.flight)))  # warm
        load.seconds.clear()
        for part in np.array_split(np.arange(args.requests), args.rounds):
            costs = [[offline.bare(), offline.whole()] for _ in range(2)]
            start, used, before = time.perf_counter(), busy(process), len(load.seconds)
            right += sum(pool.map(load.ask, part.tolist()))
            clock += time.perf_counter() - start
            served = (busy(process) - used) / (len(load.seconds) - before)
            costs += [[offline.bare(), offline.whole()] for _ in range(2)]
            rounds.append([*np.mean(costs, axis=0), served])
            memory.append(resident(process))
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1].splitlines()
    report(np.array(rounds), memory, load, right, clock, args)
    print(next(line for line in said if "accepted" in line))


def report(rounds: np.ndarray, memory: list, load: Load, right: int, clock: float, args) -> None:
    """What came out, in a few lines."""
    bare, whole, served = 1000 * rounds.mean(axis=0)
    shares = np.quantile(rounds[:, 0] / rounds[:, 2], [0.25, 0.5, 0.75])
    p50, p99 = 1000 * np.quantile(load.seconds, [0.5, 0.99])
    after = ", ".join(f"{memory[1 + len(rounds) * quarter // 4 - 1]:.0f}" for quarter in (1, 2, 3, 4))
    print(f"{right} of {args.requests} as they must be; {args.flight} in flight, 1 in 10 bad")
    print(f"p50 {p50:.0f} ms, p99 {p99:.0f} ms; memory {memory[0]:.0f} MB, after each quarter {after} MB")
    print(f"{len(load.seconds) / clock:.1f} good ones a second by the clock, clients on the same machine")
    print(f"processor time of a good one, refusals included: {served:.2f} ms; in turns with it, offline:")
    print(
        f"  bare forward in batches of 32 {bare:.2f} ms: the server has {bare / served:.0%} of its throughput"
    )
    print(f"  the same clouds with their preparation {whole:.2f} ms: {whole / served:.0%}")
    quartiles = ", ".join(f"{share:.0%}" for share in shares)
    print(f"quartiles of the {len(rounds)} rounds against the bare forward: {quartiles}")


if __name__ == "__main__":
    main()
