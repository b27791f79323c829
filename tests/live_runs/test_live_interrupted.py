"""Ctrl-C, twice, SIGTERM and a closed terminal: servers are stopped, what was measured stays, and the exit code tells."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from live_runs.instances import events, rows, started, with_words


def begun(arguments: list[str], folder: Path, run: Path, *before: str, cells: int = 1) -> subprocess.Popen[bytes]:
    """A run that is in the middle of its load."""
    process = started(arguments, folder, before)
    while sum(path.stat().st_size > 0 for path in run.glob("load/*/profile_export.jsonl")) < cells:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def ended(process: subprocess.Popen[bytes], within_s: float) -> tuple[int, str]:
    """The exit code and the messages of a process that ends in time."""
    began_s = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - began_s < within_s
    assert b"Traceback" not in err, err.decode()
    return process.returncode, err.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_in_good_order(cli, live, tmp_path, number: signal.Signals) -> None:
    made, run = live(window_s=2.5, cells=("chat,1,r40,rate,40,1",)), tmp_path / "run"
    process = begun(made.arguments(run), tmp_path, run)
    os.kill(process.pid, number)
    code, err = ended(process, 20.0)
    assert (code, "continue with: fleetsieve run" in err) == (130, True), err
    assert not with_words(made.words)
    assert events(run)[-1]["event"] == "stopped"
    assert rows(run) == []
    if number == signal.SIGINT:
        assert cli("run", run, "--resume").code == 0
        assert [row["status"] for row in rows(run)] == ["ok"]


def test_a_terminal_that_closes_does_not_end_what_nohup_started(live, tmp_path) -> None:
    made, run = live(window_s=2.0, cells=("chat,1,r40,rate,40,1",)), tmp_path / "run"
    process = begun(made.arguments(run), tmp_path, run, "nohup")
    os.kill(process.pid, signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert [row["status"] for row in rows(run)] == ["ok"]


def test_a_signal_while_a_server_starts(live, tmp_path) -> None:
    made, run = live(faults=["--never-ready"]), tmp_path / "run"
    process = started(made.arguments(run), tmp_path)
    while not (run / "servers.jsonl").is_file():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    assert ended(process, 20.0)[0] == 130
    assert not with_words(made.words)


@pytest.mark.parametrize("servers", [1, 2])
def test_the_second_signal_ends_it_at_once(live, tmp_path, servers: int) -> None:
    """The servers would take their time."""
    made = live(faults=["--ignore-sigterm"], window_s=20.0, gpus=4)
    made.config.write_text(made.config.read_text().replace("stop_s = 1", "stop_s = 50"))
    run = tmp_path / "run"
    process = begun(made.arguments(run, "--max-servers", servers), tmp_path, run, cells=servers)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    assert ended(process, 15.0)[0] == 130
    assert not with_words(made.words)


def test_one_signal_ends_looks_side_by_side(cli, live, tmp_path) -> None:
    made, run = live(window_s=15.0, gpus=4), tmp_path / "run"
    process = begun(made.arguments(run, "--max-servers", 2), tmp_path, run, cells=2)
    os.kill(process.pid, signal.SIGINT)
    code, err = ended(process, 13.0)
    assert (code, "continue with: fleetsieve run" in err) == (130, True), err
    assert not with_words(made.words)
    assert rows(run) == []


@pytest.mark.parametrize("grid", [True, False])
def test_cells_by_hand_that_are_interrupted_say_what_is_there_and_what_is_not(live, tmp_path, grid: bool) -> None:
    made = live(window_s=2.0)
    wanted = ["--grid"] if grid else ["--cell", "chat,1,r40", "--cell", "chat,2,r40", "--repeat", "2"]
    process = started(["measure", str(made.path), "--config", str(made.config), *wanted], tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"1 of "), process.communicate()
    os.kill(process.pid, signal.SIGINT)
    code, err = ended(process, 20.0)
    assert code == 130
    kept = f"measurements are in {made.path}/measurements.csv"
    if grid:
        assert f"1 of 2 {kept}; continue with the same command" in err
    else:
        assert f"1 of 4 {kept}; not yet measured: --cell chat,1,r40 --repeat 1, --cell chat,2,r40 --repeat 2" in err
    assert len(rows(made.path)) == 1
    assert not with_words(made.words)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_nobody_reads_any_more(live, tmp_path, stream: str) -> None:
    """A stream was a pipe to a program that ended: the run ends as if SIGPIPE had ended it, and so do its servers."""
    made, run = live(window_s=2.0, cells=("chat,1,r40,rate,40,1",)), tmp_path / "run"
    process = begun(made.arguments(run), tmp_path, run)
    getattr(process, stream).close()
    setattr(process, stream, None)
    process.communicate(timeout=60)
    assert process.returncode == 141
    assert not with_words(made.words)
    assert events(run)[-1]["event"] == "stopped"
