"""The noise study: what counts as wrong, that counts are those of the draws, that intervals are right where points are not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cli.command_line import cli
from loop.small_fleet import CELL_BY_KEY, CELLS, INSTANCE, row

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.statistics import REFERENCE_SPREAD
from fleetsieve.certificate import Verdict, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey, Reading
from fleetsieve.records import RequestRecords
from fleetsieve.studies.calibrate import settings, spread_of, trials
from fleetsieve.studies.calibrate_counts import Counts, Rate
from fleetsieve.studies.judging import Truth

__all__ = ["cli"]

TABLE = tuple(row(cell.key) for cell in CELLS)
EASY = replace(INSTANCE, classes=tuple(replace(c, demand_rps=0.6 * c.demand_rps) for c in INSTANCE.classes))
"""Less demand: intervals need not be narrow to be decided."""
TRUTH = Truth.of(INSTANCE, TABLE)
BEST = {got.class_name: got.configuration.name for got in TRUTH.best.classes if got.configuration is not None}


def verdict(told, instance=INSTANCE):
    """The certificate of a whole table, and what is wrong with it."""
    certificate = certify(Envelope.of(instance, told), Frontier())
    return certificate.verdict, Truth.of(instance, TABLE).judge(certificate)


def telling(changes):
    """The table with other figures for some cells."""
    return [replace(r, **changes.get(r.key, {})) for r in TABLE]


def test_the_true_table_is_right():
    got, judged = verdict(TABLE)
    assert (got, judged.fault, judged.regret) == (Verdict.FEASIBLE, "", 0.0)


def test_a_violated_slo_is_wrong():
    false = {
        cell.key: {"ttft_p99_s": Reading(0.2), "throughput_rps": Reading(90.0)}
        for cell in CELLS
        if cell.key == CellKey("chat", 1, "c16")
    }
    assert not TRUTH.envelope[CellKey("chat", 1, "c16")].committable
    got, judged = verdict(telling(false))
    assert (got, judged.fault, judged.regret) == (Verdict.FEASIBLE, "slo", None)


def test_too_great_a_regret_is_wrong():
    # The best cells of chat are told to miss their SLO: what is left serves less.
    false = {c.key: {"ttft_p99_s": Reading(9.0)} for c in CELLS if c.key.class_name == "chat" and c.offered > 4.0}
    got, judged = verdict(telling(false))
    assert (got, judged.fault) == (Verdict.FEASIBLE, "regret")
    assert judged.regret > INSTANCE.certificate.epsilon


def test_a_floor_that_is_not_met_is_wrong_even_within_epsilon():
    served = {got.class_name: got.served_rps for got in TRUTH.best.classes}["chat"]
    floor = tuple(replace(c, floor_rps=served * 1.01) if c.name == "chat" else c for c in INSTANCE.classes)
    false = {
        BEST["chat"]: {"throughput_rps": Reading({r.key: r for r in TABLE}[BEST["chat"]].throughput_rps.value * 1.02)}
    }
    got, judged = verdict(telling(false), replace(INSTANCE, classes=floor))
    assert (got, judged.fault) == (Verdict.FEASIBLE, "floor")
    assert judged.regret <= INSTANCE.certificate.epsilon


def test_infeasible_is_wrong_where_every_floor_can_be_met():
    floor = tuple(replace(c, floor_rps=4.0) if c.name == "chat" else c for c in INSTANCE.classes)
    false = {c.key: {"throughput_rps": Reading(0.01)} for c in CELLS if c.key.class_name == "chat"}
    got, judged = verdict(telling(false), replace(INSTANCE, classes=floor))
    assert (got, judged.fault) == (Verdict.INFEASIBLE, "infeasible")
    hopeless = tuple(replace(c, demand_rps=90.0, floor_rps=60.0) if c.name == "chat" else c for c in INSTANCE.classes)
    got, judged = verdict(TABLE, replace(INSTANCE, classes=hopeless))
    assert (got, judged.fault) == (Verdict.INFEASIBLE, "")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["decision-gap", "random"])
def test_without_noise_nothing_is_wrong_and_nothing_costs_more(policy):
    chosen = settings(INSTANCE, TABLE, spread_of("0x", REFERENCE_SPREAD), policy=policy)
    for setting, outcomes in zip(chosen, trials(chosen, 3), strict=True):
        counts = Counts.of(setting.treatment, outcomes, setting.exact_cost_gpu_s(3))
        assert (counts.verdicts[Verdict.FEASIBLE], counts.wrong.count) == (3, 0)
        assert counts.mean_gpu_s == counts.exact_gpu_s
        assert counts.mean_looks == counts.mean_cells


@pytest.mark.slow
def test_intervals_are_right_where_points_are_not():
    first, second = settings(INSTANCE, TABLE, {"ttft": 0.09, "throughput": 0.01})
    intervals = Counts.of(first.treatment, *trials([first], 5), first.exact_cost_gpu_s(5))
    points = Counts.of(second.treatment, *trials([second], 30), second.exact_cost_gpu_s(30))
    assert {"slo", "regret"} == set(points.faults)
    assert (intervals.wrong.count, points.undecided.count) == (0, 0)
    assert intervals.verdicts[Verdict.FEASIBLE] > 0
    assert intervals.mean_looks > intervals.mean_cells
    assert intervals.mean_gpu_s > points.mean_gpu_s
    assert points.mean_looks == points.mean_cells
    for counts, count in ((intervals, 5), (points, 30)):
        assert (
            counts.faults.total() == counts.wrong_feasible.count + counts.wrong_infeasible.count == counts.wrong.count
        )
        assert counts.verdicts.total() == counts.trials == count


@pytest.mark.slow
def test_processes_change_nothing():
    chosen = settings(EASY, TABLE, {"ttft": 0.12}, policy="random", seed=5)
    told = []
    alone = trials(chosen, 6)
    assert trials(chosen, 6, jobs=2, progress=lambda *done: told.append(done)) == alone
    assert told == [(k, 12) for k in range(1, 13)]
    assert trials(settings(EASY, TABLE, {"ttft": 0.12}, policy="random", seed=6), 6) != alone


@pytest.mark.slow
def test_requests_are_resampled_where_there_are_records():
    def recorded(r, window=1500):
        rng = np.random.default_rng(len(r.key.load) + 10 * r.key.tp)
        rate = r.throughput_rps.value
        e2e_s = CELL_BY_KEY[r.key].offered / rate  # by Little's law; what was sent so long before the window ends in it
        count = window + round(e2e_s * rate)
        ttft = r.ttft_p99_s.value * rng.uniform(0.5, 1.0, count)
        sent = np.sort(rng.uniform(-e2e_s, window / rate, count))
        e2e = np.full(count, e2e_s)
        return replace(r, records=RequestRecords(sent, ttft, e2e, ttft, np.ones(count, bool), window / rate))

    chosen = settings(EASY, [recorded(r) for r in TABLE], None)
    for setting, outcomes in zip(chosen, trials(chosen, 4), strict=True):
        counts = Counts.of(setting.treatment, outcomes, setting.exact_cost_gpu_s(4))
        assert counts.wrong.count == 0
        assert counts.verdicts[Verdict.FEASIBLE] == 4
        assert all(r.records is None for r in setting.truth_table)


def test_the_interval_of_a_rate():
    assert Rate(0, 20).ci95.hi == pytest.approx(1.0 - 0.025 ** (1.0 / 20.0))
    assert Rate(20, 20).ci95.lo == pytest.approx(0.025 ** (1.0 / 20.0))
    assert Rate(1, 20).ci95.lo < Rate(1, 20).share < Rate(1, 20).ci95.hi


def test_a_spread_as_written():
    assert spread_of("reference", REFERENCE_SPREAD) == {"ttft": 0.12, "e2e": 0.035, "tpot": 0.03, "throughput": 0.01}
    assert spread_of("2x", REFERENCE_SPREAD)["ttft"] == 0.24
    assert spread_of("ttft=0.3,throughput=0", REFERENCE_SPREAD) == {"ttft": 0.3, "throughput": 0.0}


@pytest.mark.parametrize(
    "text", ["", "x", "-1x", "nanx", "ttft", "ttft=", "ttft=-1", "ttft=inf", "ttfd=1", "ttft=1,ttft=2"]
)
def test_a_spread_that_means_nothing_is_refused(text):
    with pytest.raises(UsageError, match="--noise"):
        spread_of(text, REFERENCE_SPREAD)


@pytest.mark.slow
def test_the_command(cli, tmp_path):
    options = ("calibrate", "sim-chat-code-16gpu", "--trials", 2, "--treat", "both", "--policy", "random", "--seed", 4)
    said = cli(*options, "--json")
    document = said.document
    assert said.code == 0
    assert [t["treatment"] for t in document["treatments"]] == ["intervals", "points"]
    assert document["nominal_rate"] == pytest.approx(0.05)
    for treatment in document["treatments"]:
        assert sum(treatment["verdicts"].values()) == treatment["trials"] == 2
        assert treatment["ratio_to_exact"] == treatment["mean_gpu_s"] / document["exact_gpu_s"]
        assert treatment["wrong"]["count"] == sum(treatment["faults"].values())
    assert cli(*options, "--json").out == said.out
    shown = cli(*options)
    assert "wrong certified-feasible" in shown.out
    assert "trials: 4 of 4" in shown.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--noise", "loud"), "is no spread"),
        (("--noise", "records"), "no per-request records"),
        (("--policy", "best"), "unknown policy"),
        (("--trials", 0), "0"),
        (("--seed", -1), "-1"),
        (("--jobs", 0), "0"),
        (("--treat", "guess"), "guess"),
    ],
)
def test_what_the_command_refuses(cli, options, told):
    said = cli("calibrate", "sim-chat-code-16gpu", *options, "--json")
    assert said.code == 2
    assert told in said.err
    assert "error" in json.loads(said.out)
