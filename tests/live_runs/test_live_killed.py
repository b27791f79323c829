"""kill -9 in the middle of a look, then --resume; benchmarks/live_kills.py does it at random instants and prints a table."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from live_runs.instances import events, rows, started, with_words

from benchmarks.live_kills import stranger, well


def of_tp_2(run: Path) -> list[dict[str, Any]]:
    """The servers with TP 2 that were started."""
    found = [event for event in events(run) if event["event"] == "started"]
    return [event for event in found if "--tensor-parallel-size 2 " in " ".join(event["command"])]


@pytest.mark.parametrize("phase", ["start", "load"])
def test_a_run_that_is_killed_goes_on(cli, live, tmp_path, phase: str) -> None:
    """No row is lost, the look that was cut short is made once more and takes nothing from the one before, servers are found."""
    made = live(
        faults=["--bind-after-s", "0.5"],
        classes=("chat,20,4,60,1,,,,,0.5",),
        cells=("chat,1,r20,rate,20,1", "chat,2,r60,rate,60,2"),
        window_s=3.0,
    )
    run = tmp_path / "run"
    sent = run / "load" / "chat-tp2-r60-seed0" / "profile_export.jsonl"
    with stranger() as other:
        process = started(made.arguments(run, "--policy", "grid"), tmp_path)
        while not ((run / "measurements.csv").is_file() and rows(run)):
            assert process.poll() is None
            time.sleep(0.02)
        while not (sent.is_file() and sent.stat().st_size > 2_000 if phase == "load" else of_tp_2(run)):
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        before = (run / "measurements.csv").read_bytes()
        until_s = time.monotonic() + 5.0
        while with_words(str(run / "load")):
            assert time.monotonic() < until_s, "the load generator outlives its run"
            time.sleep(0.05)
        (left,) = of_tp_2(run)
        said = cli("run", run, "--resume")
        assert said.code == 0, said.err
        assert f"a server that was left on port {left['port']} is stopped" in said.err
        assert (run / "measurements.csv").read_bytes().startswith(before)
        assert [(row["tp"], row["status"]) for row in rows(run)] == [("1", "ok"), ("2", "ok")]
        assert 160 <= int(rows(run)[1]["requests"]) <= 185, (
            "those of the window, and none of the look that was cut short"
        )
        assert len(list((run / "records").iterdir())) == 2
        assert rows(run)[1]["seed"] == ("0" if phase == "start" else "1"), "its prompts are not sent twice"
        assert "client counts" not in rows(run)[1]["source"]
        assert not with_words(made.words)
        assert well(other)
