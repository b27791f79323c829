"""Long work says that it goes on, on standard error alone."""

from __future__ import annotations

import time

import pytest

from fleetsieve.presentation import progress
from fleetsieve.studies.forecast import forecast_gpu_s


def test_short_work_says_nothing_without_a_terminal(capsys):
    with progress.working("solving"):
        pass
    time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_so_once_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_S", 0.01)
    with progress.working("solving"):
        time.sleep(0.3)
    assert capsys.readouterr() == ("", "solving ...\n")


def test_counted_work_tells_each_tenth_without_a_terminal(capsys):
    with progress.progress("simulating cells") as advance:
        for done in range(201):
            advance(done, 200)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"simulating cells: {done} of 200" for done in range(0, 201, 20)]


def test_work_that_takes_long_tells_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    advance = progress.Advancing("cells weighed")
    for done in range(4):
        advance(done, 3)
    assert capsys.readouterr() == (
        "",
        "".join(f"cells weighed: {n} of 3\n" for n in (1, 2)),
    )


@pytest.mark.slow
def test_a_replay_tells_how_far_each_choice_is(cli, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    said = cli("run", "sim-chat-code-16gpu", "--replay", "--out", "told", "--json")
    assert said.code == 0
    assert said.document["steps"] > 3
    assert said.err.count("cells weighed: 1 of ") == said.document["steps"]


def test_a_study_tells_how_far_it_is(cli, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    said = cli("sensitivity", "sim-chat-code-16gpu", "--demand-scale", "0.8:1.5", "--json")
    assert said.code == 0
    assert said.document["intervals"]
    assert "ranges searched: 1 of " in said.err


@pytest.mark.slow
def test_a_dry_run_gives_the_commands_before_it_imagines_runs(cli, tmp_path, monkeypatch, capsys):
    """What it may cost takes longest, so it comes last and is told to go on."""
    (tmp_path / "serve.toml").write_text('[serve]\nmodel = "m"\n', encoding="utf-8")
    before = []

    def forecast(*arguments):
        time.sleep(0.1)  # longer than the shortened patience below
        before.extend(capsys.readouterr())
        return forecast_gpu_s(*arguments)

    monkeypatch.setattr("fleetsieve.cli.dry_run.forecast_gpu_s", forecast)
    monkeypatch.setattr(progress, "QUIET_S", 0.01)
    said = cli("run", "sim-chat-code-16gpu", "--probe", "vllm", "--config", "serve.toml", "--dry-run")
    assert said.code == 0
    out, err = before
    assert "TP 4: " in out
    assert "load generator: aiperf" in out
    assert "simulating 5 runs to estimate the cost ..." in err
    assert "expected: " in said.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "told"), [("--sensitivity", " (faster with --no-sensitivity)"), ("--no-sensitivity", "")]
)
def test_a_long_report_says_what_would_be_faster(cli, folder, monkeypatch, option, told):
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    said = cli("report", folder.path, option)
    assert said.code == 0
    assert f"writing the report{told} ...\n" in said.err
