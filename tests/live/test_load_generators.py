"""Real load generators against a real server that misbehaves on demand: what is recorded, and in how many seconds.

AIPerf is the command or environment in FLEETSIEVE_AIPERF, or `aiperf` in the PATH; without it the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fleetsieve.instance import CellKey, Measurement, Status
from fleetsieve.live.load.aiperf import AIPerf
from fleetsieve.live.load.outcome import measured
from fleetsieve.live.load.protocol import Flow, GeneratorEnding, LoadGenerator
from fleetsieve.live.load.schedule import Shape, Tokens, closed_loop, open_loop
from fleetsieve.live.load.traces import Trace
from fleetsieve.live.load.vllm_bench import VllmBench
from fleetsieve.live.load.warnings import LEAST_IN_FLIGHT
from fleetsieve.live.serving.config import read_serve_config
from fleetsieve.live.serving.metrics import deltas
from fleetsieve.live.serving.register import Register
from fleetsieve.live.serving.server import Server as RealServer

HOSTILE = Path(__file__).with_name("hostile_server.py")
IDS = (100, 1000)
TOKENS = 8
BUSY_S = 0.4
"""What a machine that does other things at the same time may add to a latency or a send time; benchmarks measure a quiet one."""

EVEN = Trace("even.csv", np.arange(100) * 1.0, np.full(100, 20), np.full(100, TOKENS))
"""Arrivals at equal distances: which request is the k-th to arrive is known."""


def aiperf_command() -> tuple[str, ...]:
    named = os.environ.get("FLEETSIEVE_AIPERF", "aiperf")
    found = shutil.which(str(Path(named) / "bin" / "aiperf") if Path(named).is_dir() else named)
    if found is None:
        pytest.skip(
            "no aiperf: FLEETSIEVE_AIPERF is not its command or the folder of its environment, and none is in PATH"
        )
    return (found,)


@pytest.fixture
def aiperf() -> AIPerf:
    return AIPerf(aiperf_command(), request_timeout_s=3.0, send_error_limit_s=BUSY_S)


@pytest.fixture(params=["aiperf", "vllm-bench"])
def generator(request: pytest.FixtureRequest) -> LoadGenerator:
    if request.param == "aiperf":
        return AIPerf(aiperf_command(), request_timeout_s=3.0, send_error_limit_s=BUSY_S)
    return VllmBench((str(request.getfixturevalue("vllm")),), send_error_limit_s=BUSY_S)


@dataclass
class Server:
    url: str
    process: subprocess.Popen[bytes]

    def metric(self, name: str) -> float:
        text = urllib.request.urlopen(f"{self.url}/metrics", timeout=5.0).read().decode()
        (value,) = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"vllm:{name}{{")]
        return value


@contextmanager
def hostile(*faults: str) -> Iterator[Server]:
    port = free_port()
    started = [
        sys.executable,
        str(HOSTILE),
        "tiny",
        "--port",
        str(port),
        "--ttft-s",
        "0.03",
        "--tpot-s",
        "0.004",
        *faults,
    ]
    process = subprocess.Popen(started, stdout=subprocess.DEVNULL)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/health")
        yield Server(f"http://127.0.0.1:{port}", process)
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 10.0
    while True:
        try:
            urllib.request.urlopen(url, timeout=1.0).close()
            return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def even_load(rate_rps=20.0, window_s=3.0):
    return open_loop(EVEN, rate_rps, warmup_s=0.5, window_s=window_s, cooldown_s=0.5, seed=5, token_ids=IDS)


def test_latencies_and_lengths_are_those_of_the_server(generator, tmp_path):
    schedule = open_loop(Shape(Tokens(20, 60), Tokens(4, 12)), 20.0, warmup_s=1.0, window_s=4.0, seed=5, token_ids=IDS)
    with hostile() as server:
        sent = generator.send(schedule, server.url, "tiny", tmp_path / "load", 90.0)
        told = {name: server.metric(f"{name}_seconds_sum") for name in ("time_to_first_token", "e2e_request_latency")}
        counted = server.metric("e2e_request_latency_seconds_count")
        hits = server.metric("prefix_cache_hits_total")
    assert sent.as_asked, sent.warnings
    assert sent.exit_code == 0
    assert {row.status for row in sent.rows} == {"ok"}
    assert [row.input_tokens for row in sent.rows] == schedule.input_tokens.tolist()
    assert [row.output_tokens for row in sent.rows] == schedule.output_tokens.tolist()
    assert (len(sent.rows), hits) == (counted, 0)
    # The client's mean may lie above the server's by what the way costs (more on a busy machine), and not below.
    ttft, e2e = (np.mean([getattr(row, name) for row in sent.rows]) for name in ("ttft_s", "e2e_s"))
    assert 0.0 <= ttft - told["time_to_first_token"] / counted < BUSY_S
    assert 0.0 <= e2e - told["e2e_request_latency"] / counted < BUSY_S
    assert sent.send_error_p50_s < BUSY_S / 4
    row = measured(Measurement(CellKey("chat", 1, "r20")), sent)
    assert (row.status, row.requests, row.success_rate.value) == (Status.OK, 80, 1.0)
    assert row.throughput_rps.value == pytest.approx(20.0, abs=1.0)


def test_every_fault_of_a_server_is_a_failure_of_its_own_request(aiperf, tmp_path):
    faults = {"reject": 11, "short": 13, "stall": 17, "error": 19, "cut": 23}
    with hostile(*(part for fault, every in faults.items() for part in (f"--{fault}-every", str(every)))) as server:
        sent = aiperf.send(even_load(), server.url, "tiny", tmp_path / "load", 60.0)
    statuses = {"reject": "rejected", "short": "failed", "stall": "timeout", "error": "failed", "cut": "failed"}
    expected = [
        next((statuses[fault] for fault, every in faults.items() if number % every == 0), "ok")
        for number in range(1, len(sent.rows) + 1)
    ]
    assert len(sent.rows) == 70
    assert [row.status for row in sent.rows] == expected
    assert sent.ending is GeneratorEnding.DONE
    assert sent.as_asked, sent.warnings
    assert sum(sent.failures.values()) == sum(row.status != "ok" for row in sent.rows if row.sent_at_s >= 0.0)
    ok = [row for row in sent.rows if row.status == "ok"]
    assert max(row.e2e_s for row in ok) < 1.0, "a stalled stream is no latency"


@pytest.mark.parametrize(
    ("tokens", "faults", "status", "warnings"),
    [
        (1, (), Status.OK, ()),
        (1, ("--one-chunk",), Status.OK, ()),
        (
            8,
            ("--one-chunk",),
            Status.OK,
            ("60 of 60 answers came in one piece: their time per output token is not known",),
        ),
        (8, ("--short-every", "1"), Status.REJECTED, ()),
        (1, ("--short-every", "1"), Status.REJECTED, ()),
    ],
    ids=["one-token", "one-token-at-once", "one-piece", "half", "none"],
)
def test_short_answers_are_what_they_are(aiperf, tmp_path, tokens, faults, status, warnings):
    shape = Shape(Tokens(20, 20), Tokens(tokens, tokens))
    schedule = open_loop(shape, 20.0, warmup_s=0.5, window_s=3.0, cooldown_s=0.5, seed=5, token_ids=IDS)
    with hostile(*faults) as server:
        sent = aiperf.send(schedule, server.url, "tiny", tmp_path / "load", 60.0)
    assert measured(Measurement(CellKey("chat", 1, "r20")), sent).status is status, sent.failures
    assert sent.warnings == warnings


def test_a_closed_loop_holds_its_concurrency_and_stops_when_its_window_has_ended(aiperf, tmp_path):
    shape = Shape(Tokens(20, 20), Tokens(30, 30))
    schedule = closed_loop(shape, 4, warmup_s=1.0, window_s=4.0, seed=5, token_ids=IDS)
    with hostile("--max-num-seqs", "4", "--tpot-s", "0.012") as server:
        sent = aiperf.send(schedule, server.url, "tiny", tmp_path / "load", 60.0)
    assert sent.as_asked, sent.warnings
    assert {row.status for row in sent.rows} == {"ok"}
    assert sent.in_flight == pytest.approx(4.0, rel=0.1)
    assert len(sent.rows) < len(schedule)
    row = measured(Measurement(CellKey("chat", 1, "c4")), sent)
    assert row.throughput_rps.value == pytest.approx(4.0 / np.mean([row.e2e_s for row in sent.rows]), rel=0.1)


def test_a_server_that_dies_leaves_failures_and_not_a_shorter_table(aiperf, tmp_path):
    with hostile("--die-after", "30") as server:
        sent = aiperf.send(even_load(), server.url, "tiny", tmp_path / "load", 60.0)
        assert server.process.wait(5.0) == 0
    assert len(sent.rows) == 70
    assert Counter(row.status for row in sent.rows)["ok"] <= 29
    assert all(row.status == "failed" for row in sent.rows[29:])


def test_a_port_where_nobody_listens_is_a_failure_of_every_request(generator, tmp_path):
    start = time.monotonic()
    sent = generator.send(even_load(), f"http://127.0.0.1:{free_port()}", "tiny", tmp_path / "load", 90.0)
    assert len(sent.rows) == 70
    assert "ok" not in {row.status for row in sent.rows}
    assert measured(Measurement(CellKey("chat", 1, "r20")), sent).status is Status.CRASHED
    assert time.monotonic() - start < 90.0


def test_at_its_deadline_the_generator_is_gone_and_what_it_saw_is_kept(aiperf, tmp_path):
    seen: list[Flow] = []
    with hostile("--stall-every", "5") as server:
        slow = AIPerf(aiperf.command, request_timeout_s=600.0)
        start = time.monotonic()
        sent = slow.send(even_load(), server.url, "tiny", tmp_path / "load", 20.0, watch=lambda f: bool(seen.append(f)))
    assert time.monotonic() - start < 35.0
    assert sent.ending is GeneratorEnding.DEADLINE
    assert not sent.as_asked
    counts = Counter(row.status for row in sent.rows)
    assert counts["ok"] == 56
    assert counts["missing"] + counts["failed"] == 14
    assert max(flow.succeeded for flow in seen) >= 50
    assert seen[-1].output_tokens >= 50 * TOKENS


def test_sending_stops_when_the_watcher_says_so(aiperf, tmp_path):
    with hostile() as server:
        start = time.monotonic()
        sent = aiperf.send(
            even_load(window_s=60.0),
            server.url,
            "tiny",
            tmp_path / "load",
            90.0,
            watch=lambda flow: flow.succeeded >= 20,
        )
    assert time.monotonic() - start < 40.0
    assert sent.ending is GeneratorEnding.STOPPED
    assert 20 <= Counter(row.status for row in sent.rows)["ok"] < 500


@pytest.fixture(scope="module")
def real_server(serve_toml, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    folder = tmp_path_factory.mktemp("vllm")
    config = read_serve_config(serve_toml(folder))
    started = RealServer.start(config, 1, (), free_port(), folder / "server.log", Register(folder))
    try:
        failure = started.wait_ready()
        assert failure is None, "\n".join([str(failure), *failure.last_lines])
        yield started
    finally:
        started.stop()


@pytest.mark.parametrize("kind", ["open", "one in flight", "three in flight"])
def test_a_real_vllm_agrees_on_every_request(aiperf, real_server, tmp_path, kind):
    told = {"warmup_s": 2.0, "window_s": 6.0, "token_ids": IDS}
    # A loop's answers take long against the client's gaps between them, so that a busy machine holds the loop as well.
    short, long = Shape(Tokens(30, 90), Tokens(6, 20)), Shape(Tokens(30, 90), Tokens(40, 120))
    loops = {
        "open": lambda: open_loop(short, 4.0, cooldown_s=3.0, seed=21, **told),
        "one in flight": lambda: closed_loop(long, 1, seed=22, **told),
        "three in flight": lambda: closed_loop(long, 3, seed=22, **told),
    }
    schedule = loops[kind]()
    patient = AIPerf(aiperf.command, request_timeout_s=60.0, send_error_limit_s=BUSY_S)
    before = real_server.scrape()
    sent = patient.send(schedule, f"http://127.0.0.1:{real_server.port}", "tiny", tmp_path / "load", 120.0)
    counted = deltas(before, real_server.scrape())
    assert {row.status for row in sent.rows} == {"ok"}, sent.failures
    assert [row.input_tokens for row in sent.rows] == schedule.input_tokens[: len(sent.rows)].tolist()
    assert [row.output_tokens for row in sent.rows] == schedule.output_tokens[: len(sent.rows)].tolist()
    assert counted.prefix_hit_share == 0.0
    assert counted.preemptions == 0
    row = measured(Measurement(CellKey("chat", 1, "x")), sent)
    assert row.status is Status.OK
    if kind == "open":
        assert row.requests == 24
    else:
        held = schedule.concurrency or 0
        assert 0.5 * held <= sent.in_flight <= 1.01 * held, (
            "a busy client leaves places of the loop empty, and fills none twice"
        )
        told_so = any(f"requests were in flight on average, of {held}" in warning for warning in sent.warnings)
        assert told_so == (sent.in_flight < LEAST_IN_FLIGHT * held), sent.warnings
