"""A client that does not hold the load measures itself: such a measurement is made again, and never says what a cell can do."""

from __future__ import annotations

import json

import pytest
from live_runs.instances import FAST_ENGINE, PYTHON, events, rows

CHAT = ("chat,1,r40,rate,40,1",)
NEEDED = ("chat,20,4,30,1,30,,,,0.5",)
"""All of 30 requests/s must be served, on one GPU: 25 of 40 measured requests/s would make that infeasible."""
LOOP = ("chat,1,c8,concurrency,8,1",)


def slow(live, *faults, cells=CHAT, **settings):
    generator = [*PYTHON, str(FAST_ENGINE), *map(str, faults)]
    return live(generator=generator, classes=NEEDED, cells=cells, gpus=1, **settings)


SPOILS = [
    (["--slower", 1.5], CHAT),
    (["--stops-for-s", 0.8], CHAT),
    (["--clock-step-s", 3600], CHAT),
    (["--idle-places", 5], LOOP),
]


@pytest.mark.parametrize(("faults", "cells"), SPOILS, ids=["slow", "stops", "clock", "idle"])
def test_it_is_made_again_with_other_prompts(cli, live, tmp_path, faults, cells) -> None:
    made, run = slow(live, *faults, "--spoils", 1, cells=cells), tmp_path / "run"
    said = cli(*made.arguments(run, "--json"))
    assert said.code == 0, said.err
    (row,) = rows(run)
    assert (row["status"], row["seed"] != "0") == ("ok", True)
    assert "repeated once: the load was not held" in row["source"]
    assert "repeated with other prompts: the load was not held" in said.err
    load = row["load"]
    assert [path.name for path in (run / "records").iterdir()] == [f"chat-tp1-{load}-seed{row['seed']}.csv.gz"]
    assert sum(event["event"] == "started" for event in events(run)) == 1, "on the same server"
    assert float(row["cost_gpu_s"]) > 2 * (1.0 + 0.2), "both tries were paid for"
    assert said.document["cost_gpu_s"] == pytest.approx(float(row["cost_gpu_s"]))
    assert cli("certify", run).code == 0


@pytest.mark.parametrize(("faults", "cells"), SPOILS[:2] + SPOILS[3:], ids=["slow", "stops", "idle"])
def test_one_that_is_always_so_is_refused_and_no_capacity(cli, live, tmp_path, faults, cells) -> None:
    made, run = slow(live, *faults, cells=cells, measure="max_looks = 1"), tmp_path / "run"
    said = cli(*made.arguments(run, "--json"))
    assert (said.code, said.document["verdict"]) == (4, "undecided"), said.err
    (row,) = rows(run)
    assert row["status"] == "rejected"
    assert "not valid: the load was not held" in row["source"]
    assert "repeated 2 times" in row["source"]
    assert said.err.count("repeated with other prompts") == 2
    assert len(list((run / "records").iterdir())) == 1
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["verdict"] == "undecided"


def test_a_run_that_goes_on_never_sends_the_prompts_of_a_spoiled_try_again(cli, live) -> None:
    made = slow(live, "--slower", 1.5, "--spoils", 2)
    assert cli("measure", made.path, "--config", made.config, "--cell", "chat,1,r40").code == 0
    assert [row["seed"] for row in rows(made.path)] == ["2"]
    assert cli("measure", made.path, "--config", made.config, "--cell", "chat,1,r40").code == 0
    assert [row["seed"] for row in rows(made.path)] == ["2", "3"]


def test_a_server_that_refuses_most_of_a_loop_is_not_the_clients_doing(cli, live, tmp_path) -> None:
    busy = live(faults=["--reject-every", "1"], cells=LOOP, measure="max_looks = 1")
    said = cli(*busy.arguments(tmp_path / "run"))
    assert (said.code, "repeated with other prompts" in said.err) == (4, False), said.err
    assert [row["status"] for row in rows(tmp_path / "run")] == ["rejected"]
