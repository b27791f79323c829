"""Policies compared: what a run counts, that processes and interruptions change nothing, what summaries say, what is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from loop.small_fleet import CELLS, INSTANCE, row

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Verdict, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.instance import CellKey, Pool, Reading
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.studies.compare import CLAIRVOYANT, Case, FloorFound, Results, Run, Store, compare, replayed, tasks
from fleetsieve.studies.comparison import csv_text, document, interval95, policy_summary, regret_at
from fleetsieve.studies.decision_rules import RULES, Decided, DecisionRule
from fleetsieve.studies.rules import rule_result

TABLE = tuple(row(cell.key) for cell in CELLS)
CASE = Case("small", INSTANCE, TABLE)
LARGER = Case(
    "larger", replace(INSTANCE, name="larger", fleet=replace(INSTANCE.fleet, pools=(Pool("default", 12),))), TABLE
)
POLICIES = ("decision-gap", "random", "grid")


def made(policy="random", seed=0, spent=10.0, *, curve=((0.0, 1.0), (4.0, 0.25), (10.0, 0.0)), **changes):
    """A run with given figures."""
    own = Run(policy, seed, spent, {"chat": spent, "code": 0.0}, "certified-feasible", "", curve[-1][1], curve, ())
    return replace(own, **changes)


@pytest.fixture(scope="module")
def found():
    return compare([CASE, LARGER], POLICIES, orders=12)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_ends_certified_and_counts_what_it_spent(policy):
    got = replayed(CASE, policy, 3)
    assert (got.verdict, got.fault) == ("certified-feasible", "")
    assert got.regret <= INSTANCE.certificate.epsilon
    assert sum(got.class_gpu_s.values()) == pytest.approx(got.spent_gpu_s)
    assert len(got.cells) == len(set(got.cells)) == len(got.curve) - 1
    spent = [at for at, _ in got.curve]
    assert spent == sorted(spent)
    assert spent[-1] == got.spent_gpu_s
    assert got.curve[0][1] > INSTANCE.certificate.epsilon  # nothing is measured: no plan yet
    assert got.curve[-1][1] == got.regret
    rows = [r for r in TABLE if r.key in got.cells]
    assert certify(Envelope.of(INSTANCE, rows), Frontier()).verdict is Verdict.FEASIBLE


def test_orders_differ_and_the_same_seed_is_the_same_run():
    assert replayed(CASE, "random", 1) == replayed(CASE, "random", 1)
    assert len({replayed(CASE, "random", seed).cells for seed in range(5)}) == 5


def test_a_policy_without_a_seed_runs_once():
    work = tasks([CASE], POLICIES, 25, 4, floor=True)
    seeds = {policy: [seed for task in work if task.policy == policy for seed in task.seeds] for policy in POLICIES}
    assert seeds == {"decision-gap": [4], "grid": [4], "random": list(range(4, 29))}
    assert [task.policy for task in work].count(CLAIRVOYANT) == 1
    assert CLAIRVOYANT not in [task.policy for task in tasks([CASE], POLICIES, 25, 4, floor=False)]


@pytest.mark.slow
def test_no_run_spends_less_than_the_floor_nor_an_orderly_one_more_than_the_grid(found):
    for results in found:
        assert results.floor.exact
        assert results.case.grid_gpu_s == grid_cost_gpu_s(INSTANCE, CELLS)
        for runs in results.runs.values():
            assert all(results.floor.upper_gpu_s <= own.spent_gpu_s for own in runs)
            assert [own.seed for own in runs] == sorted(own.seed for own in runs)
        # A random order starts servers again and again, which can cost more than the grid server by server.
        assert all(
            results.runs[policy][0].spent_gpu_s <= results.case.grid_gpu_s for policy in ("decision-gap", "grid")
        )


@pytest.mark.slow
def test_processes_and_the_order_of_finishing_change_nothing(found, tmp_path):
    told = []
    store = Store(tmp_path / "results.jsonl")
    again = compare([CASE, LARGER], POLICIES, orders=12, jobs=2, store=store, progress=lambda *done: told.append(done))
    assert json.dumps(document(again, seed=0)) == json.dumps(document(found, seed=0))
    assert csv_text(again) == csv_text(found)
    assert told == [(done, 10) for done in range(11)]


@pytest.mark.slow
def test_finished_work_is_taken_and_the_rest_is_made(found, tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    compare([CASE], POLICIES, orders=12, store=Store(path))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:40])  # killed in the middle of a line
    told = []
    again = compare([CASE], POLICIES, orders=12, store=Store(path), progress=lambda *done: told.append(done))
    assert told[0] == (3, len(lines))
    assert csv_text(again) == csv_text(found[:1])
    assert sorted(path.read_text().splitlines(keepends=True)) == sorted(lines)
    monkeypatch.setattr("fleetsieve.studies.compare.replayed", lambda *_: pytest.fail("made again"))
    assert compare([CASE], POLICIES, orders=12, store=Store(path)) == again


@pytest.mark.parametrize(
    "other",
    [
        replace(INSTANCE, fleet=replace(INSTANCE.fleet, pools=(Pool("default", 6),))),
        replace(INSTANCE, certificate=replace(INSTANCE.certificate, epsilon=0.2)),
    ],
)
def test_results_of_another_instance_are_not_taken(tmp_path, other):
    store = Store(tmp_path / "results.jsonl")
    compare([CASE], ["grid"], store=store, floor=False)
    compare([Case("small", other, TABLE)], ["grid"], store=store, floor=False)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def test_a_table_that_settles_nothing_is_undecided_and_has_no_floor(tmp_path):
    # Nothing is known of chat beyond a cell that misses its SLO.
    bad = CellKey("chat", 1, "c16")
    part = Case("part", INSTANCE, tuple(r for r in TABLE if r.key.class_name == "code" or r.key == bad))
    path = tmp_path / "results.jsonl"
    for store in (Store(path), Store(path)):
        (own,) = compare([part], POLICIES, orders=2, store=store)
        told = document([own], seed=0)["instances"][0]
        assert told["clairvoyant"]["upper_gpu_s"] is None
        assert not told["clairvoyant"]["exact"]
        for policy in told["policies"]:
            assert (policy["undecided"], policy["wrong_certificates"]) == (policy["orders"], 0)
            assert policy["ratio_to_clairvoyant"] is None
        json.dumps(told, allow_nan=False)


def test_a_cell_that_fails_in_truth_is_counted_wrong():
    # The table's first look at a cell decides what is true; its second one never comes up without repeats.
    liar = CellKey("chat", 2, "c16")
    table = (*TABLE, replace(row(liar, 1), ttft_p99_s=Reading(9.0)))
    assert replayed(Case("looks", INSTANCE, table), "grid", 0).fault == ""
    case = Case("false", INSTANCE, TABLE)
    false = Case("false", INSTANCE, tuple(replace(r, ttft_p99_s=Reading(9.0)) if r.key.tp == 2 else r for r in TABLE))
    object.__setattr__(case, "truth", false.truth)  # judged by another truth than it measured
    got = replayed(case, "grid", 0)
    assert (got.verdict, got.fault, got.regret) == ("certified-feasible", "slo", 1.0)
    assert policy_summary(Results(case, {"grid": (got,)}, None), "grid").wrong_certificates == 1


def test_the_area_under_the_regret_ends_with_the_grid():
    # 4 s at 1, 6 s at 0.25, then 0 up to the grid's 20 s.
    assert made().auc(20.0) == pytest.approx((4.0 + 6.0 * 0.25) / 20.0)
    assert made().auc(5.0) == pytest.approx((4.0 + 6.0 * 0.25) / 10.0)  # it spent more than the grid
    assert made(spent=0.0, curve=((0.0, 0.5),)).auc(8.0) == 0.5
    assert regret_at(made(), [0.0, 3.9, 4.0, 9.0, 10.0, 99.0]) == [1.0, 1.0, 0.25, 0.25, 0.0, 0.0]


def test_a_summary_compares_with_random_and_the_floor():
    random = tuple(made(seed=seed, spent=spent) for seed, spent in enumerate((10.0, 20.0, 30.0, 40.0)))
    ours = (made("ours", spent=20.0),)
    results = Results(CASE, {"random": random, "ours": ours}, FloorFound(8.0, 10.0, False, "late"))
    got = policy_summary(results, "ours")
    assert (got.mean_gpu_s, got.ci95_gpu_s) == (20.0, (20.0, 20.0))
    assert got.saving_vs_random == pytest.approx(1.0 - 20.0 / 25.0)
    assert got.ci95_saving[0] < got.saving_vs_random < got.ci95_saving[1]
    assert got.beats_random_share == 0.5  # a draw: not beaten
    assert got.ratio_to_clairvoyant == 20.0 / 8.0  # the proven bound, for the floor is not exact
    assert policy_summary(replace(results, floor=FloorFound(10.0, 10.0, True, "")), "ours").ratio_to_clairvoyant == 2.0
    own = policy_summary(results, "random")
    assert (own.mean_gpu_s, own.saving_vs_random) == (25.0, 0.0)
    assert own.ci95_gpu_s[0] < 25.0 < own.ci95_gpu_s[1]
    alone = policy_summary(Results(CASE, {"ours": ours}, None), "ours")
    assert (alone.saving_vs_random, alone.beats_random_share, alone.ratio_to_clairvoyant) == (None, None, None)


def test_bootstrap_intervals_cover_and_repeat():
    def mean(sample, axis=-1):
        return np.mean(sample, axis=axis)

    generator = np.random.default_rng(7)
    samples = generator.exponential(5.0, (60, 40))
    intervals = [interval95(mean, sample) for sample in samples]
    assert sum(low <= 5.0 <= high for low, high in intervals) >= 50
    assert interval95(mean, samples[0]) == intervals[0] != interval95(mean, samples[0], seed=1)
    assert interval95(mean, [3.0]) == interval95(mean, [3.0, 3.0, 3.0]) == (3.0, 3.0)
    low, high = interval95(mean, [1.0, 2.0])
    assert 1.0 <= low <= high <= 2.0


def test_the_table_has_a_line_a_run_and_text_stays_text(found):
    named = replace(found[0], case=Case('a "b", [red]c', INSTANCE, TABLE))
    lines = list(csv.DictReader(io.StringIO(csv_text([named, found[1]]))))
    assert [line["instance"] for line in lines] == ['a "b", [red]c'] * 14 + ["larger"] * 14
    first = lines[0]
    assert (first["policy"], first["verdict"]) == ("decision-gap", "certified-feasible")
    own = found[0].runs["decision-gap"][0]
    assert float(first["spent_gpu_s"]) == own.spent_gpu_s
    assert {name: float(first[f"gpu_s:{name}"]) for name in ("chat", "code")} == own.class_gpu_s


def test_rules_without_a_certificate_are_held_against_the_truth():
    blind = rule_result(CASE, RULES["capacity-only"])
    assert (blind.regret, blind.cost_gpu_s) == (None, CASE.grid_gpu_s)
    assert blind.missing_slo
    assert all(not CASE.truth.envelope[key].committable for key in blind.missing_slo)
    assert "misses its SLO" in blind.sentence
    best = {key: n for key, n in CASE.truth.best.replica_counts.items() if isinstance(key, CellKey)}
    oracle = rule_result(CASE, DecisionRule("oracle", lambda *_: Decided(best, (), 0.0)))
    nothing = rule_result(CASE, DecisionRule("nothing", lambda *_: Decided({}, (), 0.0)))
    assert (oracle.regret, oracle.missing_slo) == (0.0, ())
    assert nothing.regret == pytest.approx(replayed(CASE, "grid", 0).curve[0][1])


@pytest.mark.parametrize(
    ("cases", "policies", "orders", "seed", "message"),
    [
        ([], POLICIES, 1, 0, "0 instances"),
        ([CASE], (), 1, 0, "0 policies"),
        ([CASE], POLICIES, 0, 0, "0 orders"),
        ([CASE], POLICIES, 1, -1, "seed -1"),
        ([CASE], ("best",), 1, 0, "unknown policy 'best'"),
    ],
)
def test_what_cannot_be_compared_is_refused(cases, policies, orders, seed, message):
    with pytest.raises(UsageError, match=message):
        compare(cases, policies, orders=orders, seed=seed)


@pytest.mark.parametrize("text", ['{"task": "a"}\n', "[]\n", "no json\n"])
def test_a_file_that_holds_no_results_is_refused(tmp_path, text):
    path = tmp_path / "results.jsonl"
    path.write_text(text)
    with pytest.raises(FleetSieveError, match=r"results\.jsonl holds no results of a comparison"):
        Store(path)
