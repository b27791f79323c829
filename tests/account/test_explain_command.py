"""`fleetsieve explain`: the words, the choice of cells, runs and failures."""

from __future__ import annotations

import pytest
from cli.small_folder import CELLS, ROWS


def test_a_cell_is_told_of_bound_by_bound(cli, folder):
    said = cli("explain", folder.path, "--class", "code", "--tp", 4)
    assert said.code == 0
    assert "code TP4 c8 (measured; 4 GPUs a replica)" in said.out
    assert "measurement 0: ok (line 4 of measurements.csv)" in said.out
    assert "TTFT p99: 6 s, measured; misses the limit of 5 s" in said.out
    assert "can it change the decision? no: ruled out: TTFT p99" in said.out


def test_the_document_of_a_class(cli, folder):
    document = cli("explain", folder.path, "--class", "chat", "--json").document
    (cell,) = document["cells"]
    assert (cell["class"], cell["tp"], cell["load"], cell["known"]) == ("chat", 2, "c8", "measured")
    assert cell["rows"] == [{"seed": 0, "line": 2, "status": "ok", "source": ""}]
    assert document["verdict"] == "certified-feasible"
    assert document["next"] is None


def test_nothing_measured_asks_for_a_cell_and_its_price(cli, folder):
    (folder.path / "measurements.csv").unlink()
    document = cli("explain", folder.path, "--json").document
    assert document["verdict"] == "undecided"
    assert document["next"]["policy"] == "decision-gap"
    assert document["next"]["cost_gpu_s"] in (600.0, 1200.0)
    assert document["waiting"]["cost_gpu_s"] == 600.0 + 600.0 + 1200.0
    said = cli("explain", folder.path)
    assert "next (decision-gap):" in said.out
    assert "yes: a better plan may use it" in said.out


def test_another_policy_can_be_asked(cli, folder):
    (folder.path / "measurements.csv").unlink()
    assert cli("explain", folder.path, "--policy", "grid", "--json").document["next"]["policy"] == "grid"
    assert cli("explain", folder.path, "--policy", "none").code == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--class", "cht"], "--class cht: no cell has it; did you mean 'chat'?"),
        (["--class", "chat", "--tp", "4"], "--tp 4: no cell has it"),
        (["--load", "c9"], "there are c8"),
    ],
)
def test_a_cell_that_is_not_there_is_told_with_those_that_are(cli, folder, options, told):
    said = cli("explain", folder.path, *options)
    assert said.code == 2
    assert told in said.err


def test_a_run_keeps_its_policy_and_failures_have_their_causes(cli, folder):
    (folder.path / "cells.csv").write_text(f"{CELLS}chat,2,c8,concurrency,8,2\ncode,2,c8,concurrency,8,2\n")
    (folder.path / "measurements.csv").write_text(
        f"{ROWS}chat,2,c8,0,failed_start,,\ncode,2,c8,0,timeout,,\ncode,2,c8,1,timeout,,\n"
    )
    assert cli("run", folder.path, "--replay", "--policy", "grid", "--out", "made").code == 4
    document = cli("explain", "made", "--json").document
    whys = {cell["class"]: (cell["known"], cell["closed"], cell["why"]) for cell in document["cells"]}
    assert whys["chat"] == ("failed", "its server failed to start", "its server failed to start")
    assert whys["code"][2] == "it ended in timeout 2 times, and is not tried again; it could if it ran"
    assert document["next"] is None


@pytest.mark.slow
def test_a_stopped_run_still_says_what_would_settle_it(cli):
    assert cli("run", "sim-chat-code-16gpu", "--replay", "--stop-when-unprofitable", 0.05, "--out", "made").code == 0
    said = cli("explain", "made")
    assert "no next measurement: stopped:" in said.out
    assert "next (decision-gap):" in said.out
