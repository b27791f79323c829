"""vLLM itself under the server layer: ready, measured, reset, stopped with nothing left; starts that fail; runs that die."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fleetsieve.instance import Status
from fleetsieve.live.processes.session import identity_of
from fleetsieve.live.serving.config import ServeConfig, read_serve_config
from fleetsieve.live.serving.metrics import ClientMeans, deltas, mean_differences, missing
from fleetsieve.live.serving.register import Register, living, stop_orphans
from fleetsieve.live.serving.server import Server

ROOT = Path(__file__).resolve().parents[2]
RUN_IN_SMALL = """
import sys, time
from pathlib import Path
from fleetsieve.live.serving.config import read_serve_config
from fleetsieve.live.serving.register import Register
from fleetsieve.live.serving.server import Server
folder = Path(sys.argv[1])
config = read_serve_config(folder / "serve.toml")
server = Server.start(config, 1, (), int(sys.argv[2]), folder / "log", Register(folder))
print(server.wait_ready(), flush=True)
time.sleep(600)
"""


def some_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def prompt_of(seed: int, tokens: int = 200) -> list[int]:
    return random.Random(seed).choices(range(3, 1000), k=tokens)


def ask(server: Server, prompt: list[int], tokens: int) -> tuple[float, float]:
    """One streamed completion: time to first token and to the last byte, in seconds."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    began = time.monotonic()
    try:
        sent = json.dumps({**body, "temperature": 0, "stream": True})
        connection.request("POST", "/v1/completions", sent, {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        answer.readline()
        first_s = time.monotonic() - began
        answer.read()
        return first_s, time.monotonic() - began
    finally:
        connection.close()


@contextmanager
def beside_the_server() -> Iterator[None]:
    """Keeps this thread off the first core, where a server of TP 1 computes."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(cores) < 2:
        yield
        return
    os.sched_setaffinity(0, cores - {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture(scope="module")
def config(serve_toml, tmp_path_factory: pytest.TempPathFactory) -> ServeConfig:
    return read_serve_config(serve_toml(tmp_path_factory.mktemp("config")))


@pytest.fixture(scope="module")
def server(config: ServeConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of TP 1 that is ready; the last test that has it stops it."""
    folder = tmp_path_factory.mktemp("run")
    started = Server.start(config, 1, (), some_port(), folder / "server.log", Register(folder))
    try:
        failure = started.wait_ready()
        assert failure is None, "\n".join([str(failure), *failure.last_lines])
        yield started
    finally:
        started.stop()


def test_it_is_ready_and_ours(server: Server) -> None:
    assert server.ready_s is not None
    assert server.alive()
    assert server.failure() is None
    assert server.endpoint.served() == ("tiny",)


def test_every_metric_is_there_and_agrees_with_the_client(server: Server) -> None:
    ask(server, prompt_of(0), 8)
    before = server.scrape()
    assert before is not None
    assert missing(before) == ()
    for first in range(1, 81, 10):  # a machine that others use may disturb some rounds, not eight
        before = server.scrape()
        with beside_the_server():
            seen = [ask(server, prompt_of(seed), 30) for seed in range(first, first + 8)]
        client = ClientMeans(8, sum(ttft for ttft, _ in seen) / 8, sum(e2e for _, e2e in seen) / 8)
        own = deltas(before, server.scrape())
        if not mean_differences(client, own):
            break
    assert mean_differences(client, own) == []
    assert (own.finished, own.preemptions, own.prefix_hit_share) == (8, 0, 0.0)
    doubled = replace(client, ttft_mean_s=2 * (client.ttft_mean_s or 0) + 0.1)
    assert "mean time to first token" in mean_differences(doubled, own)[0]


def test_the_prefix_cache_is_reset(server: Server) -> None:
    prompt = prompt_of(99, 1024)

    def hit_share() -> float | None:
        before = server.scrape()
        ask(server, prompt, 2)
        return deltas(before, server.scrape()).prefix_hit_share

    assert hit_share() == 0.0
    assert (hit_share() or 0.0) > 0.5
    assert server.reset_cache() is None
    assert hit_share() == 0.0


def test_it_is_stopped_with_a_request_in_flight(server: Server, config: ServeConfig) -> None:
    known = server._session
    known.adopt()
    processes = dict(known.known)
    assert len(processes) >= 2

    def ask_until_stopped() -> None:  # again and again: one request may have ended before the server is asked about it
        with suppress(OSError, http.client.HTTPException):  # the stream ends, in order or not
            while not stopping.is_set():
                ask(server, prompt_of(5), 1800)

    stopping = threading.Event()
    asking = threading.Thread(target=ask_until_stopped)
    asking.start()
    try:
        while not (scrape := server.scrape()) or not scrape.running:
            assert asking.is_alive()
            time.sleep(0.05)
    finally:
        stopping.set()
    stopped = server.stop()
    asking.join()
    assert stopped.left == ()
    assert stopped.stop_s < config.stop_s + 5.0
    assert not any(identity_of(pid) == identity for pid, identity in processes.items())
    assert server.gpu_s == server.held_s


def test_a_killed_engine_is_a_crash_that_is_noticed(config: ServeConfig, tmp_path: Path) -> None:
    with Server.start(config, 1, (), some_port(), tmp_path / "log", Register(tmp_path)) as server:
        assert server.wait_ready() is None
        (engine,) = (
            p for p in psutil.Process(server.pid).children() if "EngineCore" in p.name() + "".join(p.cmdline())
        )
        engine.kill()
        killed_s = time.monotonic()
        while (failure := server.failure()) is None:
            assert time.monotonic() < killed_s + 30.0
            time.sleep(0.1)
        assert failure.status is Status.CRASHED
    assert server.stop().left == ()


def test_two_cores_serve_tp_2(config: ServeConfig, tmp_path: Path) -> None:
    if 2 not in config.per_tp:
        pytest.skip("TP 2 takes two cores")
    with Server.start(config, 2, (), some_port(), tmp_path / "log", Register(tmp_path)) as server:
        failure = server.wait_ready()
        assert failure is None, "\n".join(failure.last_lines)
        ask(server, prompt_of(1), 4)
        assert server.gpu_s > 2 * (server.ready_s or 0.0)
    assert server.stop().left == ()


FAILED = [
    ("tp", (), Status.FAILED_START, False, "TP 3 does not divide the 8 attention heads; TP can be 1, 2, 4, 8"),
    ("flag", ("--no-such-flag",), Status.FAILED_START, False, "an argument was rejected: vllm: error: unrecognized"),
    ("length", ("--max-model-len", "99999"), Status.FAILED_START, False, "the configuration was rejected: Value error"),
    ("port", (), Status.CRASHED, True, "a port is in use"),
]


@pytest.mark.parametrize(("case", "more", "status", "retry", "reason"), FAILED, ids=[case[0] for case in FAILED])
def test_a_failed_start_is_understood(config, tmp_path, case, more, status, retry, reason) -> None:
    blind = replace(config, attention_heads=None, arguments=(*config.arguments, *more))
    with socket.socket() as taken:
        port = some_port()
        if case == "port":
            taken.bind(("127.0.0.1", port))
            taken.listen()
        started = Server.start(blind, 3 if case == "tp" else 1, (), port, tmp_path / "log", Register(tmp_path))
        failure = started.wait_ready()
    assert failure is not None
    assert (failure.status, failure.retry) == (status, retry), failure
    assert failure.reason.startswith(reason)
    assert started.stop().left == ()


def test_a_start_that_takes_too_long_is_ended(config: ServeConfig, tmp_path: Path) -> None:
    started = Server.start(config, 1, (), some_port(), tmp_path / "log", Register(tmp_path))
    failure = started.wait_ready(deadline_s=6.0)
    assert failure is not None
    assert (failure.status, failure.retry) == (Status.TIMEOUT, True)
    assert started.stop().left == ()
    assert started.held_s < 6.0 + config.stop_s + 5.0


def test_what_a_killed_run_leaves_is_stopped_even_without_its_leader(serve_toml, tmp_path: Path) -> None:
    """The run is killed, and then the API server alone, which leaves the engine."""
    serve_toml(tmp_path)
    words = [sys.executable, "-c", RUN_IN_SMALL, str(tmp_path), str(some_port())]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        assert run.stdout.readline().strip() == "None"
        run.kill()
    (left,) = living(tmp_path)
    os.kill(left.pid, signal.SIGKILL)
    (orphan,) = stop_orphans(tmp_path)
    assert orphan.left == ()
    assert not any(identity_of(pid) == identity for pid, identity in left.known.items())
