"""The whole loop on a real vLLM and a real AIPerf: to a certificate, through a kill -9, and past a server that cannot start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from live.test_load_generators import aiperf_command

from fleetsieve.files import read_instance
from fleetsieve.live.serving.register import living

TRACES = Path(__file__).resolve().parents[2] / "instances" / "cpu-vllm-tiny"
INSTANCE = """schema_version = 1
name = "tiny-live"
source = "a live test"
[fleet]
gpus = 4
[certificate]
confidence = 0.8
family = "cell"
[measure]
warmup_s = 2
window_s = 5
max_window_s = 90
min_requests = 360
startup_s = 30
max_looks = 3
"""
CLASSES = "class,demand_rps,max_ttft_p99_s\nchat,{chat},10\ncode,{code},10\n"
COMMAND = (sys.executable, "-m", "fleetsieve")


@pytest.fixture
def instance(tmp_path: Path, serve_toml: Callable[[Path, str], Path]) -> Callable[..., Path]:
    """Makes an instance folder with its serve.toml; the traces are those of the bundled CPU grid."""

    def make(rates: tuple[int, ...], *, tps: tuple[int, ...] = (1, 2), chat: float = 16, code: float = 14) -> Path:
        folder = tmp_path / "instance"
        folder.mkdir()
        (folder / "instance.toml").write_text(INSTANCE)
        (folder / "classes.csv").write_text(CLASSES.format(chat=chat, code=code))
        cells = [f"{name},{tp},r{rate},rate,{rate},{tp}" for name in ("chat", "code") for tp in tps for rate in rates]
        (folder / "cells.csv").write_text("\n".join(["class,tp,load,load_kind,offered,gpus", *cells]) + "\n")
        load = f'[load]\ncommand = ["{aiperf_command()[0]}"]\nrequest_timeout_s = 20\nfresh_warmup_s = 3\ntoken_ids = [100, 1024]\n'
        traces = [f'[load.class.{name}]\ntrace = "{TRACES / name}.csv"\n' for name in ("chat", "code")]
        serve_toml(folder, load + "".join(traces))
        return folder

    return make


def started(*arguments: str | Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=output, stderr=output)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], within_s: float = 400.0) -> None:
    until_s = time.monotonic() + within_s
    while not condition():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < until_s
        time.sleep(0.2)


def rows_of(run: Path) -> list[str]:
    path = run / "measurements.csv"
    return path.read_text().splitlines()[1:] if path.exists() else []


def lives(run: Path) -> bool:
    """Whether any process names the run, or one of its servers lives."""
    named = any(str(run) in " ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"]))
    return named or bool(living(run))


def test_the_loop_reaches_a_certificate_through_a_kill(instance: Callable[..., Path], tmp_path: Path) -> None:
    folder, run = instance((4, 8, 12)), tmp_path / "run"
    first = started(
        "run", folder, "--probe", "vllm", "--config", folder / "serve.toml", "--out", run, log=tmp_path / "first.log"
    )
    try:
        wait_for(lambda: len(rows_of(run)) >= 1 and any((run / "load").glob("*/profile_export.jsonl")), first)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    before = rows_of(run)
    assert living(run), "the server outlives its run, until the run goes on"
    done = subprocess.run(
        [*COMMAND, "run", str(run), "--resume", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "stopped the server that was left" in done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "certified-feasible"
    assert rows_of(run)[: len(before)] == before
    measured = read_instance(run).measurements
    assert len(measured) == told["steps"] > len(before)
    assert all(row.records is not None and row.records.sent >= 300 for row in measured if row.status == "ok")
    assert told["cost_gpu_s"] == pytest.approx(sum(row.cost_gpu_s or 0.0 for row in measured))
    assert not lives(run)
    assert subprocess.run([*COMMAND, "certify", str(run)], capture_output=True, check=False).returncode == 0


def test_a_server_that_refuses_its_arguments_ends_the_run(instance: Callable[..., Path], tmp_path: Path) -> None:
    folder, run = instance((12,)), tmp_path / "run"
    config = folder / "serve.toml"
    right = config.read_text()
    config.write_text(right.replace("[serve.tp.1]\n", '[serve.tp.1]\narguments = ["--no-such-flag"]\n'))
    grid = ("measure", str(folder), "--config", str(config), "--cell", "chat,1,r12")
    done = subprocess.run([*COMMAND, *grid, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "an argument was rejected" in json.loads(done.stdout)["error"]["message"]
    assert not (folder / "measurements.csv").exists()
    assert not lives(folder)
    run_it = ("run", str(folder), "--probe", "vllm", "--config", str(config), "--policy", "grid", "--out", str(run))
    ended = subprocess.run([*COMMAND, *run_it, "--json"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert not (run / "certificate.json").exists()
    assert not lives(run)
