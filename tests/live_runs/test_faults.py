"""Whole runs on servers that fail: what each fault is recorded as, that the loop goes on, and the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

import pytest
from live_runs.instances import HOSTILE, PYTHON, events, rows, started

from fleetsieve.live.processes.session import identity_of

CHAT = ("chat,1,r40,rate,40,1",)


def ran(cli, live, tmp_path, code=4):
    """The rows of a run in this process that ends with `code`."""
    said = cli(*live.arguments(tmp_path / "run", "--json"))
    assert (said.code, bool(said.document["verdict"])) == (code, True), said.err
    return rows(tmp_path / "run")


def told(row):
    return row["tp"], row["status"]


def test_a_tp_that_cannot_start_is_closed_and_the_loop_goes_on(cli, live, tmp_path) -> None:
    heads = "Value error, Total number of attention heads (4) must be divisible by tensor parallel size (1)."
    undivided = live(per_tp={1: ["--exit-code", "1", "--log-text", heads]})
    found = ran(cli, undivided, tmp_path)
    first = found[0]
    assert {told(row) for row in found} == {("1", "failed_start"), ("2", "ok")}
    assert "TP 1 does not divide the 4 attention heads" in first["source"]
    assert float(first["cost_gpu_s"]) > 0.0


def test_a_start_that_fails_for_want_of_memory(cli, live, tmp_path) -> None:
    faults = ["--exit-code", "1", "--log-text", "torch.OutOfMemoryError: CUDA out of memory"]
    found = ran(cli, live(faults=faults, cells=CHAT), tmp_path)
    assert [row["status"] for row in found] == ["oom", "oom"]
    assert all("out of memory" in row["source"] for row in found)


def test_a_server_that_is_never_ready(cli, live, tmp_path) -> None:
    never = live(faults=["--never-ready"], cells=CHAT)
    text = never.config.read_text().replace("ready_s = 10", "ready_s = 1")
    never.config.write_text(text)
    began_s = time.monotonic()
    found = ran(cli, never, tmp_path)
    assert [row["status"] for row in found] == ["timeout", "timeout"]
    assert "not ready after 1 s" in found[0]["source"]
    assert time.monotonic() - began_s < 30.0


@pytest.mark.parametrize(
    ("faults", "status", "success", "source"),
    [
        (["--error-every", "4"], "ok", (0.6, 0.85), "an error in the stream"),
        (["--reject-every", "4"], "ok", (0.6, 0.85), "503"),
        (["--cut-every", "4"], "ok", (0.6, 0.85), "closed"),
        (["--short-every", "4"], "ok", (0.6, 0.85), "fewer tokens than asked for"),
        (["--stall-every", "4"], "ok", (0.6, 0.85), "TimeoutError"),
        (["--reject-every", "1"], "rejected", (0.0, 0.0), "503"),
        (["--short-every", "1"], "rejected", (0.0, 0.0), "fewer tokens than asked for"),
        (["--error-every", "1"], "crashed", (0.0, 0.0), "an error in the stream"),
        (["--stall-every", "1"], "timeout", (0.0, 0.0), "TimeoutError"),
        (["--false-metrics", "--ttft-s", "0.3"], "ok", (1.0, 1.0), "warning: mean time to first token"),
        (["--no-metrics"], "ok", (1.0, 1.0), ""),
    ],
    ids=lambda value: value[0].strip("-") + (f"-{value[1]}" if value[1:] else "") if isinstance(value, list) else "",
)
def test_faults_of_requests(cli, live, tmp_path, faults, status, success, source) -> None:
    good = status == "ok"
    faulty = live(faults=faults, cells=CHAT, measure="" if good else "max_looks = 1")
    first = ran(cli, faulty, tmp_path, code=0 if good else 4)[0]
    assert first["status"] == status
    assert success[0] <= float(first["success_rate"]) <= success[1]
    assert source in first["source"]
    late = "ms late or more" in first["source"]  # a busy machine: some may have been sent after the window
    assert (30 if late else 40) <= int(first["requests"]) <= 45, (
        "those that were due, and of the warm-up some that were late"
    )


def test_answers_of_one_token(cli, live, tmp_path) -> None:
    one = live(classes=("chat,20,1,30,1,,,,,0.5",), load="[load.class.chat]\ninput_tokens = 20\noutput_tokens = 1")
    row = ran(cli, one, tmp_path, code=0)[0]
    assert (row["status"], row["success_rate"], row["tpot_p99_s"]) == ("ok", "1", "")
    assert 0.0 < float(row["ttft_p99_s"]) <= float(row["e2e_p99_s"])


@pytest.mark.parametrize(("fault", "status"), [("reject", "rejected"), ("stall", "timeout")])
def test_a_load_without_hope_is_cut_short_and_keeps_its_status(cli, live, tmp_path, fault, status) -> None:
    hopeless = live(faults=[f"--{fault}-every", "1"], cells=CHAT, window_s=60.0, measure="max_looks = 1")
    (row,) = ran(cli, hopeless, tmp_path)
    assert row["status"] == status
    assert float(row["cost_gpu_s"]) < 40.0


def test_out_of_memory_under_load(cli, live, tmp_path) -> None:
    dies = ["--log-text", "torch.OutOfMemoryError: CUDA out of memory", "--die-after", "30", "--die-code", "1"]
    found = ran(cli, live(per_tp={1: dies}), tmp_path)
    by_tp = {tp: [row for row in found if row["tp"] == tp] for tp in ("1", "2")}
    assert {row["status"] for row in by_tp["1"]} == {"oom"}
    assert "out of memory" in by_tp["1"][0]["source"]
    assert by_tp["2"][0]["status"] == "ok"


def test_a_server_that_dies_under_load_is_noticed_at_once(cli, live, tmp_path) -> None:
    """The window has a minute to go: the look ends with the server, and the retry has a server of its own."""
    dies = live(faults=["--die-after", "20"], cells=CHAT, window_s=60.0)
    began_s = time.monotonic()
    found = ran(cli, dies, tmp_path)
    assert [row["status"] for row in found] == ["crashed", "crashed"]
    assert "it ended with exit code 0 while serving" in found[0]["source"]
    assert time.monotonic() - began_s < 40.0
    assert sum(event["event"] == "started" for event in events(tmp_path / "run")) == 2


def test_an_engine_that_dies_while_its_server_lives_is_noticed_in_the_window(cli, live, tmp_path) -> None:
    dead = live(faults=["--engine-dead-after", "20"], cells=CHAT, window_s=60.0, measure="max_looks = 1")
    began_s = time.monotonic()
    (row,) = ran(cli, dead, tmp_path)
    assert row["status"] == "crashed"
    assert "it answers /health with 503" in row["source"]
    assert time.monotonic() - began_s < 50.0


def test_a_port_that_somebody_takes_meanwhile(live, tmp_path) -> None:
    """They listen on it before our server does: that start fails, the next one takes another port, and they stay."""
    slow = live(faults=["--bind-after-s", "2"], cells=CHAT)
    run = started(slow.arguments(tmp_path / "run"), tmp_path)
    while not (tmp_path / "run" / "servers.jsonl").is_file():
        assert run.poll() is None
        time.sleep(0.02)
    port = events(tmp_path / "run")[0]["port"]
    with subprocess.Popen([*PYTHON, str(HOSTILE), "stranger", "--port", str(port)], stdout=subprocess.DEVNULL) as other:
        _, err = run.communicate(timeout=60)
        assert other.poll() is None
        other.kill()
    assert run.returncode == 4, err
    first, second = rows(tmp_path / "run")
    assert (first["status"], second["status"]) == ("crashed", "ok")
    assert f"port {port}" in first["source"] or "a port is in use" in first["source"]
    assert [event["port"] != port for event in events(tmp_path / "run") if event["event"] == "started"] == [False, True]


def test_every_port_is_taken(cli, live, tmp_path) -> None:
    taken = live(cells=CHAT)
    ports = taken.config.read_text().split("ports = [")[1].split("]")[0].split(", ")
    taken.config.write_text(taken.config.read_text().replace(f", {ports[1]}]", f", {ports[0]}]"))
    with subprocess.Popen([*PYTHON, str(HOSTILE), "stranger", "--port", ports[0]], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        said = cli(*taken.arguments(tmp_path / "run"))
        assert other.poll() is None
        other.kill()
    assert (said.code, "none of the 1 ports of serve.toml is free" in said.err) == (2, True), said.err


def test_a_server_that_ignores_sigterm_and_its_children_are_gone_all_the_same(cli, live, tmp_path) -> None:
    stubborn = live(faults=["--ignore-sigterm", "--spawn-child", "--stray-child"], cells=CHAT)
    assert ran(cli, stubborn, tmp_path, code=0)[0]["status"] == "ok"
    log = (tmp_path / "run" / "logs" / "server-tp1-1.log").read_text()
    children = [int(line.split()[1]) for line in log.splitlines() if line.startswith("child ")]
    assert len(children) == 2
    assert not any(identity_of(pid) for pid in children)


def test_a_server_killed_by_somebody_while_it_serves(cli, live, tmp_path) -> None:
    killed = live(cells=CHAT, window_s=2.5)

    def strike() -> None:
        records = tmp_path / "run" / "load" / "chat-tp1-r40-seed0" / "profile_export.jsonl"
        while not (records.is_file() and records.stat().st_size):
            time.sleep(0.02)
        os.kill(events(tmp_path / "run")[0]["pid"], signal.SIGKILL)

    striker = threading.Thread(target=strike)
    striker.start()
    found = ran(cli, killed, tmp_path)
    striker.join()
    assert [row["status"] for row in found] == ["crashed", "ok"]
    assert "killed by signal 9" in found[0]["source"]
