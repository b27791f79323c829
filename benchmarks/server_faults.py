"""What each fault of a server becomes, and after how many seconds it is noticed; against tests/live/hostile_server.py.

    python benchmarks/server_faults.py

"noticed" counts from the start command for a fault of the start, from the fault itself while serving; "over" is when the last
process is gone, with 1 s between SIGTERM and SIGKILL.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleetsieve.live.processes.session import identity_of
from fleetsieve.live.serving.config import ServeConfig
from fleetsieve.live.serving.failures import Failure
from fleetsieve.live.serving.metrics import ClientMeans, deltas, mean_differences
from fleetsieve.live.serving.register import Register
from fleetsieve.live.serving.server import Server

HOSTILE = Path(__file__).resolve().parents[1] / "tests" / "live" / "hostile_server.py"
READY_S, STOP_S = 5.0, 1.0


@dataclass(frozen=True)
class Row:
    fault: str
    recorded: str
    retry: str
    noticed_s: float | None
    over_s: float | None
    left: int


def start(folder: Path, *arguments: str, port: int | None = None) -> Server:
    command = (sys.executable, "-S", str(HOSTILE))
    config = ServeConfig("tiny", "tiny", command=command, arguments=arguments, ready_s=READY_S, stop_s=STOP_S)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = int(probe.getsockname()[1])
    log = folder / f"{len(list(folder.iterdir()))}.log"
    return Server.start(config, 1, (), port or free, log, Register(folder))


def ready(folder: Path, *arguments: str) -> Server:
    server = start(folder, *arguments)
    failure = server.wait_ready()
    assert failure is None, failure
    return server


def ask(server: Server, prompt: int = 0) -> tuple[float, float]:
    """One streamed request: seconds to its first line and to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    body = {"model": "tiny", "prompt": [prompt, 1, 2], "max_tokens": 20, "stream": True}
    began = time.monotonic()
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.readline()
    first_s = time.monotonic() - began
    answer.read()
    connection.close()
    return first_s, time.monotonic() - began


def processes(server: Server) -> list[int]:
    children = [int(line.split()[1]) for line in server.log.read_text().splitlines() if line.startswith("child ")]
    return [pid for pid in (server.pid, *children) if identity_of(pid)]


def of_start(fault: str, folder: Path, *arguments: str, port: int | None = None) -> Row:
    server = start(folder, *arguments, port=port)
    failure = server.wait_ready()
    assert failure is not None
    stopped = server.stop()
    return row(fault, failure, server.held_s - stopped.stop_s, server.held_s, server)


def of_life(fault: str, folder: Path, strike: Callable[[Server], object], *arguments: str) -> Row:
    server = ready(folder, *arguments)
    began_s = time.monotonic()
    with suppress(OSError, http.client.HTTPException):
        strike(server)
    while (failure := server.failure()) is None:
        time.sleep(0.05)
    noticed_s = time.monotonic() - began_s
    server.stop()
    return row(fault, failure, noticed_s, time.monotonic() - began_s, server)


def of_end(fault: str, folder: Path, *arguments: str) -> Row:
    server = ready(folder, *arguments)
    while fault.count("child") and not processes(server)[1:]:
        time.sleep(0.01)
    stopped = server.stop()
    recorded = f"exit code {stopped.exit_code}, {'SIGKILL' if stopped.killed else 'SIGTERM'}"
    return Row(fault, recorded, "", None, stopped.stop_s, len(processes(server)))


def of_metrics(fault: str, folder: Path, *arguments: str) -> Row:
    server = ready(folder, *arguments)
    before, seen = server.scrape(), [ask(server, number) for number in range(5)]
    client = ClientMeans(5, sum(first for first, _ in seen) / 5, sum(whole for _, whole in seen) / 5)
    told = mean_differences(client, deltas(before, server.scrape()))
    reset = server.reset_cache() if "--reset-fails" not in arguments else server.endpoint.reset_cache(1.0)
    server.stop()
    return Row(fault, "; ".join([*told, *([reset] if reset else [])]) or "nothing to tell", "", None, None, 0)


def row(fault: str, failure: Failure, noticed_s: float, over_s: float, server: Server) -> Row:
    return Row(fault, str(failure), "yes" if failure.retry else "no", noticed_s, over_s, len(processes(server)))


def rows(folder: Path) -> list[Row]:
    found = [
        of_start(
            "exits with 1, out of memory in the log", folder, "--exit-code", "1", "--log-text", "CUDA out of memory"
        ),
        of_start("exits with 0", folder, "--exit-code", "0"),
        of_start("killed by SIGKILL while it starts", folder, "--killed"),
        of_start("an unknown flag", folder, "--no-such-flag"),
        of_start(f"never ready (deadline {READY_S:g} s)", folder, "--never-ready"),
        of_start(f"takes connections, never answers (deadline {READY_S:g} s)", folder, "--silent"),
        of_start("serves another model", folder, "--wrong-model", "other"),
        of_start("listens on all addresses", folder, "--listen-on", "0.0.0.0"),
    ]
    with ready(folder, "--reuse-port") as stranger:
        slow = ("--bind-after-s", "60")
        found.append(of_start("another server answers on its port", folder, *slow, port=stranger.port))
        found.append(of_start("another server shares its port", folder, "--reuse-port", port=stranger.port))
        assert stranger.alive()
    found += [
        of_life("exits with 0 while serving", folder, ask, "--die-after", "1"),
        of_life("killed by SIGKILL while serving", folder, lambda server: os.kill(server.pid, signal.SIGKILL)),
        of_life("its engine dies, it lives on", folder, ask, "--engine-dead-after", "1"),
        of_life(
            "killed alone, its child ignores SIGTERM", folder, lambda s: os.kill(s.pid, signal.SIGKILL), "--spawn-child"
        ),
        of_end("none: it stops as it should", folder),
        of_end("ignores SIGTERM", folder, "--ignore-sigterm"),
        of_end("a child that ignores SIGTERM", folder, "--spawn-child"),
        of_end("such a child in another session", folder, "--stray-child"),
        of_metrics("none: metrics are true", folder, "--ttft-s", "0.1"),
        of_metrics(
            "metrics tell half of the latencies", folder, "--ttft-s", "0.1", "--tpot-s", "0.01", "--false-metrics"
        ),
        of_metrics("metrics have other names", folder, "--renamed-metrics"),
        of_metrics("no metrics at all", folder, "--no-metrics"),
        of_metrics("the cache's reset fails", folder, "--reset-fails"),
    ]
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        found = rows(Path(name))
    print("| fault | recorded | retry | noticed, s | over, s | processes left |")
    print("|---|---|---|---|---|---|")
    for r in found:
        seconds = ["" if s is None else f"{s:.1f}" for s in (r.noticed_s, r.over_s)]
        print(f"| {r.fault} | {r.recorded} | {r.retry} | {seconds[0]} | {seconds[1]} | {r.left} |")


if __name__ == "__main__":
    main()
