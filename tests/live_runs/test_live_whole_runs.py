"""Whole live runs to a certificate: steps, records, the servers' record, what it cost, and what a script reads."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from live_runs.instances import FAST_ENGINE, PYTHON, events, rows, steps

from fleetsieve.files import read_instance
from fleetsieve.instance import CellKey
from fleetsieve.live.probe import Live as LiveProbe
from fleetsieve.live.replicas import Replicas
from fleetsieve.live.sending import sending_of
from fleetsieve.live.serving.config import read_serve_config
from fleetsieve.live.serving.server import Server

TWO_CLASSES = {
    "classes": ("chat,20,4,30,1,,2,,,0.5", "code,30,2,50,1,5,,,,0.5"),
    "cells": (
        "chat,1,r60,rate,60,1",
        "chat,2,r60,rate,60,2",
        "code,1,c2,concurrency,2,1",
        "code,2,c2,concurrency,2,2",
    ),
    "measure": "min_requests = 160\nmax_window_s = 6",
    "gpus": 4,
}


def test_a_run_to_its_certificate(cli, live, tmp_path) -> None:
    two = live(**TWO_CLASSES, confidence=0.01)
    run = tmp_path / "run"
    said = cli(*two.arguments(run, "--json"))
    assert said.code == 0, said.err
    assert said.document["verdict"] == "certified-feasible"
    assert said.document["cost_gpu_s"] == pytest.approx(sum(float(row["cost_gpu_s"]) for row in rows(run)))
    assert said.document["steps"] == len(rows(run)) == len(steps(run))
    for row, step in zip(rows(run), steps(run), strict=True):
        assert (row["class"], row["load"]) == (step["asked"]["class"], step["asked"]["load"])
        assert row["status"] == step["status"] == "ok"
        assert row["source"].startswith("aiperf, ")
        records = run / "records" / f"{row['class']}-tp{row['tp']}-{row['load']}-seed{row['seed']}.csv.gz"
        assert records.is_file()
        late = "ms late or more" in row["source"]  # a busy machine
        assert int(row["requests"]) >= (120 if late else 160)
    assert {event["event"] for event in events(run)} >= {"started", "stopped"}
    started = [event for event in events(run) if event["event"] == "started"]
    assert len(started) == sum(event["event"] == "stopped" for event in events(run))
    assert len({step["asked"]["tp"] for step in steps(run)}) == len(started), (
        "a server serves all cells of its TP in turn"
    )
    assert cli("certify", run).code == 0
    assert cli("run", run, "--resume").code == 0, "a finished run starts nothing again"
    assert [event for event in events(run) if event["event"] == "started"] == started


def test_rows_cost_what_the_servers_lived(live, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no row was charged with is what the last stop took; the start that failed is charged too."""
    servers: list[Server] = []
    launch = Server._launch

    def noted(self: Server, *arguments: object) -> None:
        servers.append(self)
        launch(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Server, "_launch", noted)
    made = live(cells=("chat,1,r40,rate,40,1", "chat,2,r40,rate,40,2", "chat,4,r40,rate,40,4"), gpus=4,
                per_tp={1: ["--bind-after-s", "1"], 4: ["--exit-code", "1", "--log-text", "not enough GPUs"]})  # fmt: skip
    read, config = read_instance(made.path), read_serve_config(made.config)
    cells = read.instance.cells
    run = tmp_path / "run"
    run.mkdir()
    with Replicas(config, run) as replicas:
        probe = LiveProbe(read.instance, replicas, sending_of(read.instance, config, 0), run, cells=cells)
        asked = [(1, 0), (1, 1), (4, 0), (2, 0)]
        measured = [probe.measure(CellKey("chat", tp, "r40"), look) for tp, look in asked]
        left_gpu_s = replicas.close()
    assert [server.tp for server in servers] == [1, 4, 2]
    assert [row.status.value for row in measured] == ["ok", "ok", "failed_start", "ok"]
    charged = [row.cost_gpu_s or 0.0 for row in measured]
    assert min(charged) > 0.0
    assert sum(charged) + left_gpu_s == pytest.approx(sum(server.gpu_s for server in servers), abs=1e-6)
    assert left_gpu_s < 2.0 * servers[-1].width
    assert charged[1] < charged[0], "the second look needs no start"


def test_a_load_generator_that_never_sends_ends_the_run_and_leaves_no_row(cli, live, tmp_path) -> None:
    broken, run = (
        live(generator=["/bin/sh", "-c", "echo zmq: no context >&2; exit 3"], cells=("chat,1,r40,rate,40,1",)),
        tmp_path / "run",
    )
    said = cli(*broken.arguments(run))
    assert (said.code, "the load generator failed twice in a row" in said.err) == (1, True), said.err
    assert "zmq: no context" in said.err
    assert "repeated with other prompts: the load generator failed before it sent a request (exit code 3)" in said.err
    text = broken.config.read_text()
    broken.config.write_text(text.replace("exit 3", f"exec {shutil.which('false')}"))
    assert cli("run", run, "--resume").code == 1, "a resumed run is as strict"
    assert rows(run) == []
    at = text.index("command = ", text.index("[load]"))
    mended = f"command = {json.dumps([*PYTHON, str(FAST_ENGINE)])}"
    broken.config.write_text(text[:at] + mended + text[text.index("\n", at) :])
    said = cli("run", run, "--resume", "--json")
    assert (said.code, said.document["verdict"]) == (0, "certified-feasible"), said.err
    assert [row["status"] for row in rows(run)] == ["ok"]


def test_a_load_generator_that_is_not_there(cli, live, tmp_path) -> None:
    said = cli(*live(generator=["/no/such/aiperf"]).arguments(tmp_path / "run"))
    assert (said.code, "there is no command '/no/such/aiperf'" in said.err) == (3, True)
    assert not (tmp_path / "run" / "records").exists()


def aiperf() -> str:
    """The real one, where there is one."""
    named = os.environ.get("FLEETSIEVE_AIPERF", "aiperf")
    found = shutil.which(str(Path(named) / "bin" / "aiperf") if Path(named).is_dir() else named)
    if found is None:
        pytest.skip("no aiperf: FLEETSIEVE_AIPERF names none, and none is in PATH")
    return found


def test_with_the_real_aiperf(cli, live, tmp_path) -> None:
    said = cli(*live(generator=[aiperf()], load="run_deadline_s = 400").arguments(tmp_path / "run", "--json"))
    assert (said.code, said.document["verdict"]) == (0, "certified-feasible"), said.err
    (row,) = rows(tmp_path / "run")
    assert float(row["success_rate"]) == 1.0
    assert 32 <= int(row["requests"]) <= 42, "on a busy machine some are sent after their window"
