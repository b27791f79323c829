"""Load generators against a server whose true latencies are known: send-time errors, latencies, client CPU, and what faults become.

    python benchmarks/load_generators.py --aiperf PATH [--vllm PATH] [--rates 5,20,50] [--loops 1,3,8,32] [--seconds 20] [--faults]

The server is tests/live/hostile_server.py on one core, the generator runs on the others. It logs every request as it saw it.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fleetsieve.bounds.statistics.points import quantile
from fleetsieve.live.load.aiperf import AIPerf
from fleetsieve.live.load.outcome import request_records
from fleetsieve.live.load.protocol import LoadGenerator, Sent
from fleetsieve.live.load.schedule import Schedule, Shape, Tokens, closed_loop, open_loop
from fleetsieve.live.load.vllm_bench import VllmBench

SERVER = Path(__file__).resolve().parents[1] / "tests" / "live" / "hostile_server.py"
CORES = sorted(os.sched_getaffinity(0))
SHAPE = Shape(Tokens(mean=200.0), Tokens(mean=50.0))
FAULTS = {
    "one request of 20 rejected with 503": ["--reject-every", "20"],
    "one of 20 streams stalls": ["--stall-every", "20"],
    "one of 20 streams ends in an error event": ["--error-every", "20"],
    "one of 20 streams is cut off": ["--cut-every", "20"],
    "one of 20 answers has half of its tokens": ["--short-every", "20"],
    "the server dies at request 100": ["--die-after", "100"],
    "nobody listens": None,
}


@contextmanager
def server(faults: Sequence[str] | None, log: Path) -> Iterator[str]:
    """The URL of a server with a first token after 50 ms and one each 4 ms; with None of a port where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if faults is None:
        yield f"http://127.0.0.1:{port}"
        return
    command = [sys.executable, str(SERVER), "tiny", "--port", str(port), "--ttft-s", "0.05", "--tpot-s", "0.004"]
    process = subprocess.Popen([*command, "--log", str(log), *faults], stdout=subprocess.DEVNULL)
    try:
        os.sched_setaffinity(process.pid, CORES[:1])
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1.0).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def at_rate(rate: float, seconds: float) -> Schedule:
    return open_loop(SHAPE, rate, warmup_s=3.0, window_s=seconds, cooldown_s=2.0, seed=7, token_ids=(100, 20000))


def send(generator: LoadGenerator, schedule: Schedule, faults: Sequence[str] | None, log: Path) -> Sent:
    with server(faults, log) as url:
        return generator.send(schedule, url, "tiny", log.parent / "load", schedule.window_s + 120.0)


def told_p99_s(log: Path, sent: Sent) -> tuple[float, float]:
    """The server's own p99 of time to first token and completion, of the requests that arrived in the window."""
    assert sent.started_unix_s is not None
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    inside = [row for row in rows if 0.0 <= row["arrived"] - sent.started_unix_s < sent.window_s]
    ttft, e2e = (quantile(np.array([row[name] for row in inside]), 0.99) for name in ("ttft_s", "e2e_s"))
    assert ttft is not None
    assert e2e is not None
    return ttft, e2e


def speeds(generator: LoadGenerator, rates: Sequence[float], seconds: float) -> None:
    print(f"\n{generator.name}: {seconds:g} s windows; milliseconds, p99 client / server\n")
    print("| requests/s | requests | ok | send error p50 | p99 | TTFT | completion | client CPU s | wall s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rate in rates:
        with tempfile.TemporaryDirectory() as folder:
            sent = send(generator, at_rate(rate, seconds), [], Path(folder) / "log")
            ttft, e2e = told_p99_s(Path(folder) / "log", sent)
        records = request_records(sent.rows, sent.window_s)
        seen = [quantile(records.latencies_s(metric), 0.99) or 0.0 for metric in ("ttft", "e2e")]
        errors = [1e3 * (value or 0.0) for value in (sent.send_error_p50_s, sent.send_error_p99_s)]
        print(
            f"| {rate:g} | {records.sent} | {records.succeeded} | {errors[0]:.1f} | {errors[1]:.1f} "
            f"| {1e3 * seen[0]:.1f} / {1e3 * ttft:.1f} | {1e3 * seen[1]:.1f} / {1e3 * e2e:.1f} "
            f"| {sent.client_cpu_s:.1f} | {sent.wall_s:.1f} |"
        )


def loops(generator: LoadGenerator, loops: Sequence[int], seconds: float) -> None:
    print(f"\n{generator.name}: closed loops, {seconds:g} s windows\n")
    print("| concurrency | in flight on average | requests | completion p50, ms | client CPU s | wall s |")
    print("|---|---|---|---|---|---|")
    for concurrency in loops:
        schedule = closed_loop(SHAPE, concurrency, warmup_s=3.0, window_s=seconds, seed=7, token_ids=(100, 20000))
        with tempfile.TemporaryDirectory() as folder:
            sent = send(generator, schedule, ["--max-num-seqs", str(concurrency)], Path(folder) / "log")
        records = request_records(sent.rows, sent.window_s)
        median_ms = 1e3 * (quantile(records.latencies_s("e2e"), 0.5) or 0.0)
        figures = f"{sent.in_flight or 0.0:.2f} | {records.sent} | {median_ms:.0f} | {sent.client_cpu_s:.1f} | {sent.wall_s:.1f}"
        print(f"| {concurrency} | {figures} |", flush=True)


def faults(generator: LoadGenerator) -> None:
    print(f"\n{generator.name}: 20 requests/s, a 10 s window, requests time out after 5 s\n")
    print("| fault | recorded in the window | exit code | ending | seconds | said |")
    print("|---|---|---|---|---|---|")
    for fault, options in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            sent = send(generator, at_rate(20.0, 10.0), options, Path(folder) / "log")
        counts = Counter(row.status for row in sent.rows if row.sent_at_s >= 0.0)
        recorded = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        said = "; ".join([*sent.failures, *sent.warnings])[:110].replace("|", "/")
        print(f"| {fault} | {recorded} | {sent.exit_code} | {sent.ending} | {sent.wall_s:.1f} | {said} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aiperf", help="its command")
    parser.add_argument("--vllm", help="its command")
    parser.add_argument("--rates", default="5,20,50")
    parser.add_argument(
        "--loops", default="1,3,8,32", help="concurrencies (AIPerf only: vllm bench cannot end one in time)"
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument(
        "--faults", action="store_true", help="the table of faults (AIPerf only: it has a time-out of requests)"
    )
    chosen = parser.parse_args()
    generators: list[LoadGenerator] = [AIPerf((chosen.aiperf,), request_timeout_s=5.0)] if chosen.aiperf else []
    generators += [VllmBench((chosen.vllm,))] if chosen.vllm else []
    os.sched_setaffinity(0, CORES[1:] or CORES)
    for generator in generators:
        speeds(generator, [float(rate) for rate in chosen.rates.split(",")], chosen.seconds)
    if chosen.aiperf:
        loops(generators[0], [int(loop) for loop in chosen.loops.split(",")], chosen.seconds)
    if chosen.faults and chosen.aiperf:
        faults(generators[0])


if __name__ == "__main__":
    main()
