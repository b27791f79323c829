"""A failed measurement is a result: the loop goes on, flakes are tried once more, and nothing is called infeasible for them."""

from __future__ import annotations

import json

import pytest
from cli.small_folder import CELLS, ROWS

from fleetsieve.engines.frontier import Frontier
from fleetsieve.errors import FleetSieveError
from fleetsieve.files import read_instance, read_measurements
from fleetsieve.instance import Measurement, Status
from fleetsieve.loop.policies import Random
from fleetsieve.loop.sieve import Sieve
from fleetsieve.runs.journal import Journal
from fleetsieve.runs.making import create
from fleetsieve.runs.stepping import run as run_loop

FLAKES = ["timeout", "crashed", "rejected"]


@pytest.fixture
def failing(folder):
    """Chat has one cell, with the given endings at its looks; code is served."""

    def write(*statuses, floor=""):
        folder.change("classes.csv", '"chat",,,8,1,', f'"chat",,,8,1,{floor}')
        (folder.path / "cells.csv").write_text(f"{CELLS}chat,2,c8,concurrency,8,2\ncode,2,c8,concurrency,8,2\n")
        looks = [f"chat,2,c8,{k},{status},{'4,1' if status == 'ok' else ','}\n" for k, status in enumerate(statuses)]
        (folder.path / "measurements.csv").write_text(ROWS + "".join(looks) + "code,2,c8,0,ok,4,1\n")
        return folder

    return write


def run(cli, folder, tmp_path, *options):
    said = cli("run", folder.path, "--replay", "--out", "made", "--json", *options)
    rows = read_instance(tmp_path / "made").measurements
    return said, [str(row.status) for row in rows if row.key.class_name == "chat"]


@pytest.mark.parametrize("status", FLAKES)
def test_a_flake_is_tried_once_more(cli, failing, tmp_path, status):
    said, looks = run(cli, failing(status, "ok"), tmp_path)
    assert looks == [status, "ok"]
    assert said.code == (0 if status == "rejected" else 4), "a rejected measurement is no evidence, and its repeat is"
    assert said.document["steps"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("status", FLAKES)
def test_a_cell_that_keeps_failing_is_undecided_and_never_infeasible(cli, failing, tmp_path, status):
    said, looks = run(cli, failing(status, status, status, "ok", floor=8), tmp_path)
    assert looks == [status, status]
    assert (said.code, said.document["verdict"]) == (4, "undecided")
    assert cli("run", "made", "--resume", "--exit-code").code == 10
    assert cli("certify", "made").code == 0


@pytest.mark.parametrize(("statuses", "told"), [(["failed_start", "ok"], 1), (["oom", "oom", "ok"], 2)])
def test_what_fails_for_good_is_infeasible(cli, failing, tmp_path, statuses, told):
    said, looks = run(cli, failing(*statuses, floor=8), tmp_path)
    assert looks == statuses[:told]
    assert (said.code, said.document["verdict"]) == (4, "certified-infeasible")
    assert "chat" in json.loads((tmp_path / "made" / "certificate.json").read_text())["explanation"]


def test_one_oom_may_be_a_flake(cli, failing, tmp_path):
    said, looks = run(cli, failing("oom", "ok"), tmp_path)
    assert looks == ["oom", "ok"]
    assert (said.code, said.document["verdict"]) != (4, "certified-infeasible")


def test_failures_are_in_the_log_and_resume_to_the_same_bytes(cli, failing, tmp_path):
    run(cli, failing("crashed", "timeout"), tmp_path)
    made = tmp_path / "made"
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    steps = [json.loads(line) for line in (made / "steps.jsonl").read_text().splitlines()[1:]]
    assert {step["status"] for step in steps} == {"crashed", "timeout", "ok"}
    assert any("ended in crashed" in step["changed"] for step in steps)
    (made / "steps.jsonl").write_text("".join((made / "steps.jsonl").read_text().splitlines(keepends=True)[:2]))
    header, *rows = (made / "measurements.csv").read_text().splitlines(keepends=True)
    (made / "measurements.csv").write_text(header + rows[0])
    assert cli("run", "made", "--resume").code == 4
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before


def test_a_probe_that_repeats_a_row_is_refused(folder, tmp_path):
    """The question would stay open for ever, and the folder would grow."""
    read = read_instance(folder.path)

    class Stuck:
        looks = None

        def measure(self, key, look):
            return Measurement(key, status=Status.CRASHED)

    out = tmp_path / "run"
    create(folder.path, out, {"step": 0}, hidden=None)
    sieve = Sieve.start(read.instance, policy=Random(), engine=Frontier())
    with Journal(out) as journal, pytest.raises(FleetSieveError, match="again, which was measured before"):
        for _ in run_loop(sieve, Stuck(), journal):
            pass
    assert (
        len(read_measurements(out / "measurements.csv", read.instance))
        == len((out / "steps.jsonl").read_text().splitlines()) - 1
    )
