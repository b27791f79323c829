"""What version 0.1.0 stored opens, holds and resumes; what its rules got wrong is superseded, with the reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli.command_line import cli
from live_runs.instances import FAST_ENGINE, HOSTILE, PYTHON, ports

from fleetsieve.files import csv_writing

__all__ = ["cli"]

STORED = Path(__file__).parent / "v0_1_0"
HOLD = ("finished", "thrifty", "recorded", "live", "paper", "infeasible", "undecided")
SUPERSEDED = {
    "zero-success": "no request succeeded",
    "low-success": "too many requests failed",
    "loop-not-held": "at most 0.84 requests were in flight, of 32",
    "late-client": "requests were sent at 50% of their scheduled rate",
    "mistyped-run": "no server ever started",
}


def test_every_stored_certificate_is_looked_at() -> None:
    assert {path.parent.name for path in STORED.glob("*/certificate.json")} == {*HOLD, *SUPERSEDED}


@pytest.mark.parametrize("name", HOLD)
def test_a_certificate_of_0_1_0_holds(cli, name) -> None:
    found = cli("certify", STORED / name, "--json")
    assert (found.code, found.document["holds"]) == (0, True)
    assert found.document["notes"] == ["version 0.1.0 wrote it: its figures were compared, its words were not"]
    assert cli("certify", STORED / name).code == 0


@pytest.mark.parametrize("name", SUPERSEDED)
def test_a_certificate_that_rests_on_what_does_not_count_is_superseded(cli, name) -> None:
    """It follows from its files under the rules of its time, and says which rows mean something else now."""
    found = cli("certify", STORED / name, "--json", "--exit-code")
    assert (found.code, found.document["holds"], found.document["faults"]) == (1, False, [])
    first, *why = found.document["superseded"]
    assert first == "by rule set 2 the verdict is undecided"
    assert any(SUPERSEDED[name] in line for line in why)
    assert "is superseded" in cli("certify", STORED / name).out
    assert cli("solve", STORED / name, "--exit-code").code == 10


def test_a_figure_changed_in_an_old_certificate_is_found(cli, tmp_path) -> None:
    shutil.copytree(STORED / "paper", tmp_path / "paper")
    path = tmp_path / "paper" / "certificate.json"
    for old, new in (
        ('"replicas": 2', '"replicas": 3'),
        ('"blocking": ""', '"blocking": "goodput"'),
        ('"gpus_used"', '"gpus"'),
    ):
        text = (STORED / "paper" / "certificate.json").read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        assert cli("certify", "paper").code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("killed", "certified-feasible"),
        ("killed-torn", "certified-feasible"),
        ("killed-random", "certified-feasible"),
        ("killed-four", "certified-feasible"),
        ("killed-recorded", "certified-feasible"),
    ],
)
def test_a_killed_run_of_0_1_0_goes_on(cli, tmp_path, name, verdict) -> None:
    run = tmp_path / name
    shutil.copytree(STORED / name, run)
    before = (run / "measurements.csv").read_bytes()
    found = cli("run", run, "--resume", "--json")
    assert (found.code, found.document["verdict"]) == (0, verdict)
    assert (run / "measurements.csv").read_bytes().startswith(before)
    assert json.loads((run / "certificate.json").read_text())["rule_set"] == 1
    assert cli("certify", run, "--json").document["holds"] is True


@pytest.mark.parametrize("name", ["killed", "killed-torn"])
def test_a_killed_run_ends_where_its_version_ended(cli, tmp_path, name) -> None:
    shutil.copytree(STORED / name, tmp_path / name)
    assert cli("run", name, "--resume").code == 0
    ours, theirs = (
        json.loads((path / "certificate.json").read_text()) for path in (tmp_path / name, STORED / "finished")
    )
    assert (tmp_path / name / "measurements.csv").read_bytes() == (
        STORED / "finished" / "measurements.csv"
    ).read_bytes()
    for key in ("verdict", "conservative", "optimistic", "gap", "lower", "upper", "rows"):
        assert ours[key] == theirs[key]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finished", "thrifty", "recorded"])
def test_a_finished_run_of_0_1_0_is_resumed_to_the_same_end(cli, tmp_path, name) -> None:
    shutil.copytree(STORED / name, tmp_path / name)
    assert cli("run", name, "--resume").code == 0
    ours, theirs = (json.loads((path / "certificate.json").read_text()) for path in (tmp_path / name, STORED / name))
    assert {key: ours[key] for key in ("verdict", "conservative", "gap")} == {
        key: theirs[key] for key in ("verdict", "conservative", "gap")
    }
    assert cli("report", name, "-o", "page.html", "--no-sensitivity").code == 0
    assert cli("explain", name).code == 0


@pytest.mark.slow
def test_a_live_run_of_0_1_0_goes_on(cli, tmp_path) -> None:
    """Its serve.toml is that of another machine: a configuration of this one takes its place."""
    run = tmp_path / "live-killed"
    shutil.copytree(STORED / "live-killed", run)
    config = tmp_path / "serve.toml"
    config.write_text(
        f'[serve]\nmodel = "stored"\ncommand = {json.dumps([*PYTHON, str(HOSTILE)])}\nready_s = 10\nstop_s = 1\nports = {ports()}\n'
        f"[load]\ncommand = {json.dumps([*PYTHON, str(FAST_ENGINE)])}\nrequest_timeout_s = 2\nfresh_warmup_s = 0.0\n"
    )
    found = cli("run", run, "--resume", "--probe", "vllm", "--config", config, "--json")
    assert (found.code, found.document["verdict"]) == (0, "certified-feasible")
    assert cli("certify", run, "--json").document["holds"] is True


def test_a_column_that_came_later_does_not_edit_a_run(cli, tmp_path, monkeypatch) -> None:
    """The table of an older run keeps its columns, and its rows keep their digests."""
    before = csv_writing.MEASUREMENTS_WRITTEN
    monkeypatch.setattr(csv_writing, "MEASUREMENTS_WRITTEN", (*before[:4], "note", *before[4:]))
    shutil.copytree(STORED / "killed", tmp_path / "killed")
    header = (STORED / "killed" / "measurements.csv").read_text(encoding="utf-8").splitlines()[0]
    assert cli("run", "killed", "--resume").code == 0
    assert (tmp_path / "killed" / "measurements.csv").read_text(encoding="utf-8").splitlines()[0] == header
    assert cli("certify", "killed", "--json").document["holds"] is True
