"""A server from its start to the end of its last process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time

import psutil
import pytest
from hostile import hostile

from fleetsieve.errors import UsageError
from fleetsieve.instance import Status
from fleetsieve.live.processes.session import identity_of
from fleetsieve.live.serving.endpoint import Endpoint
from fleetsieve.live.serving.external import ExternalServer
from fleetsieve.live.serving.register import unfinished
from fleetsieve.live.serving.server import Server


def ask(server: Server, tokens: int = 4, prompt: object = (1, 2, 3), timeout_s: float = 10.0) -> bytes:
    """One streamed completion, all of its bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)
    body = {
        "model": "tiny",
        "prompt": prompt,
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    try:
        connection.request("POST", "/v1/completions", json.dumps(body))
        return connection.getresponse().read()
    finally:
        connection.close()


def children_of(server: Server) -> list[int]:
    """What the hostile server says that it started."""
    return [int(line.split()[1]) for line in server.log.read_text().splitlines() if line.startswith("child ")]


def test_it_is_ready_counts_its_seconds_and_leaves_nothing(start, tmp_path) -> None:
    began = time.monotonic()
    server = start(tp=2)
    assert server.wait_ready() is None
    assert server.ready_s is not None
    assert server.failure() is None
    first = server.log.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert f"--port {server.port} --tensor-parallel-size 2 --served-model-name tiny" in first
    stopped = server.stop()
    took = time.monotonic() - began
    assert (stopped.exit_code, stopped.killed, stopped.left) == (0, False, ())
    assert server.ready_s < server.held_s <= took
    assert server.gpu_s == pytest.approx(2 * server.held_s)
    assert server.stop() is stopped
    assert unfinished(tmp_path) == ()


def test_it_has_a_session_of_its_own_and_its_variables(start, monkeypatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    server = start(config=hostile(environment={"A": "b"}))
    assert server.wait_ready() is None
    assert os.getsid(server.pid) == server.pid != os.getsid(0)
    found = psutil.Process(server.pid).environ()
    assert found["A"] == "b"
    assert found["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"] == "120"
    assert "VLLM_API_KEY" not in found


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults", [("--ignore-sigterm",), ("--spawn-child",), ("--stray-child",), ("--ignore-sigterm", "--spawn-child")]
)
def test_one_that_will_not_go_is_killed_with_its_children(start, faults) -> None:
    server = start(*faults)
    assert server.wait_ready() is None
    children = children_of(server)
    assert all(identity_of(pid) for pid in children)
    stopped = server.stop()
    assert stopped.killed
    assert stopped.left == ()
    assert 0.5 <= stopped.stop_s < 3.0
    assert not any(identity_of(pid) for pid in (server.pid, *children))


def test_at_once_is_at_once(start) -> None:
    server = start("--ignore-sigterm")
    assert server.wait_ready() is None
    assert server.stop(0.0).stop_s < 0.5


@pytest.mark.slow
def test_a_leader_that_is_killed_alone_takes_the_rest_with_it(start) -> None:
    server = start("--spawn-child")
    assert server.wait_ready() is None
    os.kill(server.pid, signal.SIGKILL)
    while server.alive():
        time.sleep(0.01)
    (child,) = children_of(server)
    assert identity_of(child)
    failure = server.failure()
    assert failure is not None
    assert (failure.status, failure.reason) == (
        Status.CRASHED,
        "it was killed by signal 9 while serving (the kernel does that when memory runs out)",
    )
    assert not identity_of(child)


@pytest.mark.slow
def test_an_interrupted_stop_kills_at_once(start, monkeypatch) -> None:
    server = start("--ignore-sigterm", config=hostile("--ignore-sigterm", stop_s=60.0))
    assert server.wait_ready() is None
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        server.stop()
    timer.join()
    assert not identity_of(server.pid)
    assert server.stop().left == ()


def test_an_interrupted_wait_leaves_nothing(start) -> None:
    server = start("--never-ready", "--spawn-child", "--ignore-sigterm")

    def give_up() -> None:
        if children_of(server):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        server.wait_ready(each=give_up)
    assert not any(identity_of(pid) for pid in (server.pid, *children_of(server)))


@pytest.mark.parametrize("code", [0, 1])
def test_an_exit_while_serving_is_a_crash_whatever_its_code(start, code: int) -> None:
    server = start("--die-after", "2", "--die-code", str(code))
    assert server.wait_ready() is None
    assert b"[DONE]" in ask(server)
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(server)
    while server.alive():
        time.sleep(0.01)
    failure = server.failure()
    assert failure is not None
    assert (failure.status, failure.reason) == (Status.CRASHED, f"it ended with exit code {code} while serving")


def test_a_dead_engine_behind_a_living_server_is_a_crash(start) -> None:
    server = start("--engine-dead-after", "1")
    assert server.wait_ready() is None
    ask(server)
    failure = server.failure()
    assert failure is not None
    assert (failure.status, failure.reason) == (Status.CRASHED, "it answers /health with 503")
    assert server.alive()


def test_the_cache_is_reset_between_cells(start) -> None:
    server = start()
    assert server.wait_ready() is None
    for prompt, hits in (([1, 2], 0), ([1, 2], 2)):
        ask(server, prompt=prompt)
        assert server.scrape().prefix_hits == hits
    assert server.reset_cache() is None
    ask(server, prompt=[1, 2])
    assert server.scrape().prefix_hits == 2


@pytest.mark.slow
def test_the_reset_waits_for_requests_in_flight(start) -> None:
    server = start("--ttft-s", "0.6")
    assert server.wait_ready() is None
    asking = threading.Thread(target=ask, args=(server,))
    asking.start()
    while not server.scrape().running:
        time.sleep(0.01)
    began = time.monotonic()
    assert server.reset_cache() is None
    assert time.monotonic() - began > 0.3
    asking.join()


@pytest.mark.slow
def test_a_reset_that_fails_is_told(start) -> None:
    server = start("--reset-fails")
    assert server.wait_ready() is None
    said = server.endpoint.reset_cache(within_s=0.3)
    assert said == 'POST /reset_prefix_cache answered 200 {"success": false}, after 0.3 s'


def test_a_server_without_the_reset_is_told_and_one_that_wants_none_is_not_asked(start) -> None:
    off = hostile(environment={"VLLM_SERVER_DEV_MODE": "0"})
    server = start(config=off)
    assert server.wait_ready() is None
    assert "VLLM_SERVER_DEV_MODE=1" in (server.reset_cache() or "")
    without = start(config=hostile(environment={"VLLM_SERVER_DEV_MODE": "0"}, reset="none"))
    assert without.wait_ready() is None
    assert without.reset_cache() is None


@pytest.mark.slow
def test_a_server_of_others_is_measured_and_left_as_it_is(start) -> None:
    own = start()
    assert own.wait_ready() is None
    server = ExternalServer(Endpoint(own.endpoint.url + "/", "tiny"), tp=4)
    assert server.wait_ready() is None
    assert server.reset_cache() is None
    assert server.scrape().running == 0
    assert server.failure() is None
    server.stop()
    counted = server.gpu_s
    time.sleep(0.05)
    assert server.gpu_s == counted > 0
    assert own.alive()
    other = ExternalServer(Endpoint(own.endpoint.url, "big"), tp=1).wait_ready()
    assert other is not None
    assert other.reason == f"{own.endpoint.url} names tiny, not big"
    own.stop()
    failure = server.failure()
    assert failure is not None
    assert failure.reason.endswith("answers /health with nothing")
    gone = ExternalServer(server.endpoint, tp=1, ready_s=0.1).wait_ready()
    assert gone is not None
    assert (gone.status, gone.retry) == (Status.TIMEOUT, True)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "http://x:99999", "http://x/?a=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a server"):
        Endpoint(url, "tiny")


@pytest.mark.parametrize(
    ("url", "right"),
    [("http://x:1/v1", "http://x:1"), ("http://x:1/v1/", "http://x:1"), ("http://x/gate/v1/models", "http://x/gate")],
)
def test_the_address_of_the_api_is_refused_with_the_right_one(url: str, right: str) -> None:
    with pytest.raises(UsageError, match="not under /v1") as caught:
        Endpoint(url, "tiny")
    assert caught.value.hint == f"write it without /v1: {right}"
    assert Endpoint("http://x/v1x", "tiny").url == "http://x/v1x"
