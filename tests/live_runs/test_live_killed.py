"""kill -9 in the middle of a look, then --resume; benchmarks/live_kills.py does it at random instants and prints a table."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from live_runs.instances import events, rows, started, with_words

from benchmarks.live_kills import stranger, well
from fleetsieve.live.serving.register import measured_starts_s

WINDOW_S = 1.5


def of_tp_2(run: Path) -> list[dict[str, Any]]:
    """The servers with TP 2 that were started."""
    found = [event for event in events(run) if event["event"] == "started"]
    return [event for event in found if "--tensor-parallel-size 2 " in " ".join(event["command"])]


def begun(servers: list[dict[str, Any]]) -> bool:
    """Whether one of these runs its command: it is on record before, and ends when its run dies before it says go."""
    return any(psutil.Process(one["pid"]).cmdline()[0] != "/bin/sh" for one in servers)


def held(run: Path) -> float:
    """GPU-seconds from the start commands of all servers until nothing was left of them."""
    width = {event["pid"]: event["tp"] for event in events(run) if event["event"] == "started"}
    return sum(width[event["pid"]] * event["held_s"] for event in events(run) if event["event"] == "stopped")


@pytest.mark.parametrize("phase", ["start", "load"])
def test_a_run_that_is_killed_goes_on(cli, live, tmp_path, phase: str) -> None:
    """No row is lost, the look that was cut short is made once more and takes nothing from the one before, servers are found.

    What they held until then is paid.
    """
    made = live(
        faults=["--bind-after-s", "0.5"],
        classes=("chat,20,4,60,1,,,,,0.5",),
        cells=("chat,1,r20,rate,20,1", "chat,2,r60,rate,60,2"),
        window_s=WINDOW_S,
    )
    text = (made.path / "instance.toml").read_text()
    (made.path / "instance.toml").write_text(text.replace("startup_s = 0.5\n", ""))
    run = tmp_path / "run"
    sent = run / "load" / "chat-tp2-r60-seed0" / "profile_export.jsonl"
    with stranger() as other:
        process = started(made.arguments(run, "--policy", "grid"), tmp_path)
        while not ((run / "measurements.csv").is_file() and rows(run)):
            assert process.poll() is None
            time.sleep(0.02)
        while not (sent.is_file() and sent.stat().st_size > 2_000 if phase == "load" else begun(of_tp_2(run))):
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        killed_s = time.monotonic()
        before = (run / "measurements.csv").read_bytes()
        until_s = time.monotonic() + 5.0
        while with_words(str(run / "load")):
            assert time.monotonic() < until_s, "the load generator outlives its run"
            time.sleep(0.05)
        (left,) = of_tp_2(run)
        time.sleep(1.0)
        idle_s = time.monotonic() - killed_s
        said = cli("run", run, "--resume", "--json")
        assert said.code == 0, said.err
        assert f"stopped the server that was left on port {left['port']}" in said.err
        assert (run / "measurements.csv").read_bytes().startswith(before)
        assert [(row["tp"], row["status"]) for row in rows(run)] == [("1", "ok"), ("2", "ok")]
        assert 78 <= int(rows(run)[1]["requests"]) <= 95, "those of the window, and none of the look that was cut short"
        assert len(list((run / "records").iterdir())) == 2
        assert rows(run)[1]["seed"] == ("0" if phase == "start" else "1"), "its prompts are not sent twice"
        assert "client counts" not in rows(run)[1]["source"]
        # The second row costs its own server, and the one that held two GPUs until the run went on.
        assert len(of_tp_2(run)) == 2
        held_s = {event["pid"]: event["held_s"] for event in events(run) if event["event"] == "stopped"}
        assert held_s[left["pid"]] > idle_s
        spent_gpu_s, held_gpu_s = sum(float(row["cost_gpu_s"]) for row in rows(run)), held(run)
        last_stop_gpu_s = held_gpu_s - spent_gpu_s
        assert 0.0 <= last_stop_gpu_s < 2 * 2.0, "what no row was charged with is the stop after the last row"
        assert float(rows(run)[1]["cost_gpu_s"]) > 2 * (WINDOW_S + idle_s)
        starts_s = measured_starts_s(run)
        grid_gpu_s = (0.2 + WINDOW_S) * (1 + 2) + starts_s[1] + 2 * starts_s[2]
        assert min(starts_s.values()) > 0.4, "a server listens half a second after its start"
        assert said.document["full_grid_gpu_s"] == pytest.approx(grid_gpu_s, abs=1e-3)
        assert "that servers held before the run went on, in no row until now" in said.err
        assert not with_words(made.words)
        assert well(other)


def test_a_copy_that_goes_on_leaves_the_server_of_the_run_that_it_was_copied_from(cli, live, tmp_path) -> None:
    made, run, copy = live(window_s=2.5, cells=("chat,1,r40,rate,40,1",)), tmp_path / "run", tmp_path / "copy"
    process = started(made.arguments(run), tmp_path)
    while not any(path.stat().st_size for path in run.glob("load/*/profile_export.jsonl")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    shutil.copytree(run, copy)
    said = cli("run", copy, "--resume")
    _, err = process.communicate(timeout=60)
    assert (said.code, process.returncode) == (0, 0), said.err + err.decode()
    (server,) = [event for event in events(run) if event["event"] == "started"]
    assert f"the server on port {server['port']} (process {server['pid']}) belongs to another run" in said.err
    assert [row["status"] for row in rows(run)] == [row["status"] for row in rows(copy)] == ["ok"]
    for folder in (run, copy):
        pids = [event["pid"] for event in events(folder) if event["event"] == "stopped"]
        held_s = sum(event["held_s"] for event in events(folder) if event["event"] == "stopped")
        assert len(pids) == 1
        assert 2.5 < float(rows(folder)[0]["cost_gpu_s"]) <= held_s
    assert not with_words(made.words)


def test_what_a_row_by_hand_cost_hides_nothing_that_servers_held(cli, live, tmp_path) -> None:
    """A killed run gets a row that somebody wrote, first in the wrong place, and one of `fleetsieve measure`."""
    made = live(
        classes=("chat,20,4,60,1,,,,,0.5",), cells=("chat,1,r20,rate,20,1", "chat,2,r60,rate,60,2"), window_s=1.0
    )
    run = tmp_path / "run"
    process = started(made.arguments(run, "--policy", "grid"), tmp_path)
    sent = run / "load" / "chat-tp2-r60-seed0" / "profile_export.jsonl"
    while not (sent.is_file() and sent.stat().st_size > 2_000):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    header, first = (run / "measurements.csv").read_text().splitlines()
    stated = {"class": "chat", "tp": "1", "load": "r20", "seed": "7", "status": "ok", "throughput_rps": "20"}
    stated |= {"success_rate": "1", "requests": "40", "cost_gpu_s": "500"}
    by_hand = ",".join(stated.get(name, "") for name in header.split(","))
    (run / "measurements.csv").write_text(f"{header}\n{by_hand}\n{first}\n")
    for config in ([], ["--config", made.config], ["--config", run / "serve.toml"]):
        said = cli("run", run, "--resume", *config)
        assert (said.code, "was added between rows of the run" in said.err) == (2, True), said.err
        assert "move it to the end of the file" in said.err
    (run / "measurements.csv").write_text(f"{header}\n{first}\n{by_hand}\n")
    assert cli("measure", run, "--config", made.config, "--cell", "chat,1,r20").code == 0
    said = cli("run", run, "--resume")
    assert said.code == 0, said.err
    found = rows(run)
    assert [(row["tp"], row["seed"], row["cost_gpu_s"] == "500") for row in found] == [
        ("1", "0", False), ("1", "7", True), ("1", "2", False), ("2", "1", False)]  # fmt: skip
    assert "that servers held before the run went on, in no row until now" in said.err
    spent_gpu_s = sum(float(row["cost_gpu_s"]) for row in found) - 500.0
    assert 0.0 <= held(run) - spent_gpu_s < 2 * 2.0, "all but the stops after the last rows is paid, and once"
