"""The adaptive tolerance: when going on does not pay, and what is never for sale."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from functools import cache

import pytest
from cli.command_line import cli
from loop.small_fleet import INSTANCE, row

from fleetsieve.certificate import Verdict
from fleetsieve.engines.frontier import Frontier
from fleetsieve.errors import UsageError
from fleetsieve.files import read_instance
from fleetsieve.loop.policies import Choice, policy_named
from fleetsieve.loop.sieve import Sieve
from fleetsieve.loop.stopping import SECONDS_PER_HOUR, UnprofitableWithin, best_rps_per_gpu, gap_rps
from fleetsieve.probes import Replay

__all__ = ["cli"]

GRID = "sim-chat-code-16gpu"
HOURS = (1e-6, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0, 1e6)


@cache
def finished(hours: float | None, policy: str = "decision-gap", grid: str = GRID) -> Sieve:
    read = read_instance(grid)
    probe = Replay(read.measurements)
    rule = UnprofitableWithin(hours) if hours is not None else None
    sieve = Sieve.start(read.instance, policy=policy_named(policy), engine=Frontier(), looks=probe.looks, stop=rule)
    while not sieve.finished:
        asked = sieve.ask()
        sieve = sieve.tell(probe.measure(asked.key, asked.look))
    return sieve


def states(sieve: Sieve) -> list[Sieve]:
    """Every state of a run, from nothing measured on, without its stop rule."""
    now = Sieve.start(sieve.instance, policy=sieve.policy, engine=sieve.engine, looks=sieve.looks)
    told = [now]
    for measured in sieve.measurements:
        told.append(told[-1].tell(measured))
    return told


def for_sale(sieve: Sieve) -> bool:
    c = sieve.certificate
    return bool(c.conservative.replica_counts) and c.lower.shortfall == 0.0 and not c.open_classes


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["decision-gap", "random"])
def test_a_longer_deployment_never_stops_earlier(policy):
    without = finished(None, policy)
    runs = [finished(hours, policy) for hours in HOURS]
    lengths = [len(run.measurements) for run in runs]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] == len(without.measurements)
    for run in runs:
        assert run.measurements == without.measurements[: len(run.measurements)]


def test_a_tiny_deployment_stops_as_soon_as_it_may():
    run = finished(HOURS[0])
    *before, last = states(run)
    assert run.stopped is not None
    assert run.certificate.verdict is Verdict.UNDECIDED
    assert not any(for_sale(state) for state in before)
    assert for_sale(last)


def test_a_huge_deployment_is_the_run_without_the_rule():
    run, without = finished(HOURS[-1]), finished(None)
    assert run.stopped is None
    assert (run.measurements, run.certificate.verdict) == (without.measurements, Verdict.FEASIBLE)


def test_the_figures_follow_from_the_state():
    run = finished(0.001)
    got, c = run.stopped, run.certificate
    assert got is not None
    assert got.gap_rps == gap_rps(c) <= c.conservative.problem.total_demand_rps - c.lower.goodput_rps
    assert got.worth_requests == pytest.approx(got.gap_rps * 0.001 * SECONDS_PER_HOUR)
    assert got.price_requests == pytest.approx(got.to_close_gpu_s * got.rps_per_gpu)
    assert got.worth_requests < got.price_requests
    rates = [
        m.throughput_rps.value / run.instance.cell_by_key[m.key].gpus
        for m in run.measurements
        if run.envelope[m.key].committable
    ]
    assert got.rps_per_gpu == best_rps_per_gpu(run.envelope) == max(rates)


def test_what_closing_costs_is_between_the_cheapest_candidate_and_all_of_them():
    run = finished(HOURS[0])
    situation, rule = run._situation, UnprofitableWithin(1e-9)
    costs = [situation.cost_gpu_s[key] for key in situation.candidates]
    for expected, told in ((None, min(costs)), (0.0, min(costs)), (math.inf, math.fsum(costs)), (1234.5, 1234.5)):
        stop = rule.stopped(situation, Choice(situation.candidates[0], "", {}, expected))
        assert stop is not None
        assert stop.to_close_gpu_s == pytest.approx(told)


def test_no_floor_and_no_open_class_is_for_sale():
    # A floor of 5 is above what the first cells of chat serve: the run goes on until it is met, whatever the deployment.
    floor = tuple(replace(c, floor_rps=5.0) if c.name == "chat" else c for c in INSTANCE.classes)
    sieve = Sieve.start(
        replace(INSTANCE, classes=floor),
        policy=policy_named("random"),
        engine=Frontier(),
        seed=3,
        stop=UnprofitableWithin(1e-9),
    )
    unmet = 0
    while not sieve.finished:
        unmet += bool(sieve.certificate.conservative.replica_counts and sieve.certificate.lower.shortfall > 0.0)
        sieve = sieve.tell(row(sieve.ask().key))
    assert unmet > 0
    assert sieve.certificate.lower.shortfall == 0.0
    assert not sieve.certificate.open_classes


def test_asking_a_stopped_run_says_why():
    with pytest.raises(UsageError, match=r"nothing to ask.*stopped: over 0\.001 h"):
        finished(0.001).ask()


@pytest.mark.parametrize("hours", [0.0, -1.0, math.nan, math.inf])
def test_a_deployment_that_cannot_be_is_refused(hours, cli):
    with pytest.raises(UsageError, match="not a finite number > 0"):
        UnprofitableWithin(hours)
    said = cli("run", GRID, "--replay", "--stop-when-unprofitable", hours, "--out", "run")
    assert said.code == 2
    assert "--stop-when-unprofitable is" in said.err


@pytest.mark.slow
def test_a_stopped_run_says_so_and_resumes_to_the_same_bytes(cli, tmp_path):
    options = ("--stop-when-unprofitable", 0.05)
    said = cli("run", GRID, "--replay", *options, "--out", "run", "--json")
    document = said.document
    assert (said.code, document["verdict"]) == (0, "undecided")
    assert cli("run", "run", "--resume", "--exit-code").code == 10
    run = tmp_path / "run"
    stored = json.loads((run / "certificate.json").read_text())
    assert stored["stopped"] == document["stopped"]
    assert stored["stopped"]["horizon_h"] == 0.05
    assert "stopped: over 0.05 h" in stored["explanation"]
    assert cli("certify", "run").code == 0
    assert "stopped: over 0.05 h" in cli("run", "run", "--resume").out
    assert cli("run", "run", "--resume", "--stop-when-unprofitable", 7).code == 2
    for lines, rows in ((1, 1), (1, 2), (4, 4), (5, 6), (document["steps"] + 1, document["steps"] + 1)):
        torn = tmp_path / f"torn-{lines}-{rows}"
        shutil.copytree(run, torn)
        (torn / "certificate.json").unlink()
        for name, kept in (("steps.jsonl", lines), ("measurements.csv", rows)):
            text = (run / name).read_text().splitlines(keepends=True)
            (torn / name).write_text("".join(text[:kept]))
        assert cli("run", torn, "--resume").code == 0
        for name in ("steps.jsonl", "measurements.csv", "certificate.json"):
            assert (torn / name).read_bytes() == (run / name).read_bytes()


def test_a_run_without_the_rule_is_as_before(cli, tmp_path):
    assert cli("run", GRID, "--replay", "--out", "run", "--json").document["stopped"] is None
    first = json.loads((tmp_path / "run" / "steps.jsonl").read_text().splitlines()[0])
    assert "stop_when_unprofitable_h" not in first
    assert json.loads((tmp_path / "run" / "certificate.json").read_text())["stopped"] is None
