"""What a study answers, held against plain solves; the MILP where placement matters; two axes at random points."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from sensitivity.drawn import axes_of, drawn, faults, small_seeds, solved, told

from fleetsieve.answers.sensitivity import (
    BROKEN,
    Decider,
    DemandAxis,
    EpsilonAxis,
    GivenPlan,
    GpusAxis,
    SloAxis,
    study,
    study_two,
)
from fleetsieve.answers.sensitivity import demand as demand_axis
from fleetsieve.answers.sensitivity.answers import answers
from fleetsieve.answers.sensitivity.gpus import gpus_enough
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Verdict, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.files import read_instance
from fleetsieve.instance import CellKey, Fleet, Pool


@pytest.mark.slow
def test_the_demand_over_which_the_verdict_stays():
    ends = 0
    for seed in small_seeds(4):
        instance, rows = drawn(seed)
        axis = DemandAxis(None, 0.4, 2.5)
        holds = answers(study(instance, rows, axis))["verdict_holds"]
        now = solved(instance, rows, axis, 1.0)[0]
        for end, inside in (("from", 1.0), ("to", -1.0)):
            if holds[end] is not None:
                ends += 1
                assert solved(instance, rows, axis, holds[end] * (1.0 + inside * 1e-6))[0] == now
                assert solved(instance, rows, axis, holds[end] * (1.0 - inside * 1e-6))[0] != now
    assert ends >= 1


def test_a_tie_at_one_demand_is_a_point_and_no_break_point():
    instance, rows = drawn(108)
    axis = DemandAxis("class1", 0.7, 0.8)
    found = study(instance, rows, axis)
    (point,) = (s.span.lo for s in found.stretches if s.span.lo == s.span.hi)
    assert point not in found.breaks
    here = solved(instance, rows, axis, point)
    assert here == told(found, point)
    for side in (point * (1.0 - 1e-7), point * (1.0 + 1e-7)):
        assert solved(instance, rows, axis, side) == told(found, side) != here


def test_the_least_epsilon_that_certifies_is_the_gap():
    read = read_instance("paper-h100-31b")
    base = SloAxis("Chat", "e2e_p99_s", 47.0, 47.0).start(read.instance)
    base = replace(base, fleet=Fleet((Pool("default", 12, 8),)))
    gap = certify(Envelope.of(base, read.measurements), Frontier()).gap.largest
    assert gap > base.certificate.epsilon
    found = study(base, read.measurements, EpsilonAxis(0.01, 0.9))
    assert answers(found)["certifies_from"] == gap
    for epsilon, verdict in ((gap, Verdict.FEASIBLE), (math.nextafter(gap, 0.0), Verdict.UNDECIDED)):
        assert certify(Envelope.of(base, read.measurements), Frontier(), epsilon=epsilon).verdict is verdict


@pytest.mark.parametrize("metric", ["e2e_p99_s", "min_success"])
def test_the_tightest_limit(metric):
    told = 0
    for seed in range(12):
        instance, rows = drawn(seed)
        name = instance.classes[0].name
        axis = SloAxis(name, metric, 0.5, 0.99)
        found = study(instance, rows, axis)
        tightest = answers(found)["tightest_feasible"]
        if tightest is None:
            continue
        told += 1
        beyond = math.nextafter(tightest, 0.0 if axis.rises else 2.0)
        for limit, usable in ((tightest, True), (beyond, False)):
            own = Envelope.of(axis.start(instance), rows).classes[name]
            cells = [b for b in axis.at(found.base, limit).classes[name].bounds.values() if b.committable]
            assert bool([b for b in cells if b.capacity_rps.lo > 0.0]) == usable
            assert own.view.rules == found.base.rules
    assert told >= 6


def noded(seed: int):
    """A small drawn instance whose nodes of 3 GPUs make placement matter."""
    instance, rows = drawn(seed)
    classes = instance.classes[:2]
    names = {c.name for c in classes}
    cells = tuple(c for c in instance.cells if c.key.class_name in names and c.gpus <= 2)
    kept = {c.key for c in cells}
    small = replace(instance, classes=classes, cells=cells, fleet=Fleet((Pool("default", 7, 3),)))
    return small, tuple(row for row in rows if row.key in kept)


@pytest.mark.slow
def test_where_placement_matters_the_milp_decides(monkeypatch):
    monkeypatch.setattr(demand_axis, "SAMPLES", 5)
    exact = rough = 0
    for seed in (1,):
        instance, rows = noded(seed)
        if Frontier.accepts(Envelope.of(instance, rows).optimistic):
            continue
        draw = random.Random(seed)
        slo = study(instance, rows, axes_of(instance, draw)["slo"])
        assert all(s.exact for s in slo.stretches)
        wrong, _ = faults(instance, rows, slo, draw, 3, Milp())
        assert not wrong
        exact += len(slo.breaks)
        demand = study(instance, rows, DemandAxis(None, 0.95, 1.05))
        wrong, _ = faults(instance, rows, demand, draw, 2, Milp())
        assert not wrong
        rough += sum(not s.exact for s in demand.stretches)
    assert exact
    assert rough


@pytest.mark.slow
def test_two_axes_agree_with_plain_solves():
    for seed in small_seeds(2):
        instance, rows = drawn(seed)
        draw = random.Random(seed)
        own = axes_of(instance, draw)
        for x, y in ((own["slo"], own["gpus"]), (own["gpus"], own["slo"]), (own["slo"], own["success"])):
            mapped = study_two(instance, rows, x, y)
            for _ in range(8):
                at = [
                    draw.randint(int(a.lo), int(a.hi)) if isinstance(a, GpusAxis) else draw.uniform(a.lo, a.hi)
                    for a in (x, y)
                ]
                (region,) = (r for r in mapped.regions if r.x.holds(at[0]) and r.y.holds(at[1]))
                plan = region.stretch.decision.plan
                said = (region.stretch.decision.verdict, dict(plan.replica_counts))
                assert said == solved(x_at(instance, x, at[0]), rows, y, at[1])[:2]


def x_at(instance, axis, value):
    """The instance at one value of a limit or a number of GPUs."""
    return axis.at(Envelope.of(axis.start(instance)), value).instance


@pytest.mark.slow
def test_a_given_plan_is_never_better_than_the_best():
    compared = 0
    for seed in small_seeds(2):
        instance, rows = drawn(seed)
        axis = DemandAxis(None, 0.5, 1.5)
        best = study(instance, rows, axis)
        plan = best.decide(1.0).plan
        given = study(
            instance,
            rows,
            axis,
            GivenPlan({name: n for name, n in plan.replica_counts.items() if isinstance(name, CellKey)}),
        )
        # Where the best plan is the given one, both say the same.
        assert given.decide(1.0).placed == best.decide(1.0).placed
        assert given.decide(1.0).gap == best.decide(1.0).gap
        for value in (0.6, 0.9, 1.2, 1.4):
            one, other = given.decide(value), best.decide(value)
            assert one.plan.shortfall >= other.plan.shortfall - 1e-9
            if one.plan.shortfall <= other.plan.shortfall + 1e-9:
                assert one.plan.min_fulfilment <= other.lower.best_min_fulfilment + 1e-9
                compared += 1
    assert compared >= 3


def test_what_breaks_a_random_plan_is_told_exactly_where_it_is_broken():
    broken = 0
    for seed in range(12):
        instance, rows = drawn(seed)
        draw, envelope = random.Random(seed), Envelope.of(instance, rows)
        for _ in range(6):
            counts = {}
            for c in instance.classes:
                own = [cell for cell in instance.cells if cell.key.class_name == c.name]
                good = [cell for cell in own if envelope[cell.key].committable] or own
                counts[draw.choice(own if draw.random() < 0.1 else good).key] = draw.randint(1, 2)
            plan = GivenPlan(counts)
            told = plan.breaks(envelope)
            assert bool(told) == (Decider(plan)(envelope).verdict == BROKEN)
            broken += bool(told)
    assert 12 <= broken <= 66


def test_beyond_the_gpus_that_are_enough_nothing_changes_and_nothing_is_solved():
    ends = 0
    for seed in small_seeds(4):
        instance, rows = drawn(seed)
        enough = gpus_enough(GpusAxis(1, 100_000).at(Envelope.of(instance, rows), 100_000))
        wide = study(instance, rows, GpusAxis(1, 100_000))
        assert wide.stretches[-1].span.hi == 100_000
        for gpus in (*range(1, enough, 5), enough - 1, enough, enough + 1, 2 * enough, 10 * enough, 100_000):
            assert solved(instance, rows, wide.axis, gpus) == told(wide, gpus)
        ends += wide.stretches[-1].span.lo == enough
    assert ends >= 1  # the number is the least that can be told so


def test_a_given_plan_that_needs_more_gpus_than_any_best_one_is_held_against_them():
    read = read_instance("sim-chat-code-16gpu")
    plan = GivenPlan({CellKey("chat", 4, "r8"): 50, CellKey("code", 4, "r8"): 50})
    found = study(read.instance, read.measurements, GpusAxis(390, 100_000), plan)
    assert [(s.span.lo, s.span.hi, s.decision.verdict == BROKEN) for s in found.stretches] == [
        (390, 399, True),
        (400, 100_000, False),
    ]
