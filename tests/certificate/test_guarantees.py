"""What a certificate promises is true of every realisation inside the bounds: random truths inside random intervals."""

from __future__ import annotations

from collections import Counter

import pytest
from draws import draws
from hypothesis import given, settings
from strategies import Situation, bounds_admit, situations, trades

from fleetsieve.allocation import Allocation, evaluate
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Verdict, certify
from fleetsieve.engines.frontier import Frontier

ROUNDING = 1e-7


def certified(situation: Situation) -> Certificate:
    """The certificate of what was measured; the drawn truth must be one that the bounds admit."""
    envelope = Envelope.of(situation.instance, situation.rows)
    assert bounds_admit(envelope, situation.truth)
    return certify(envelope, Frontier())


def regrets(situation: Situation, plan: Allocation, counted: frozenset[str]) -> tuple[float, float, float]:
    """How much worse the plan is, under the truth, than the strict lexicographic optimum, stage by stage.

    Evaluating the plan fails when the truth does not let one of its configurations meet its SLO.
    """
    problem = situation.true_problem(counted=counted)
    best = Frontier().optimise(problem, eta=0.0).allocation
    assert best is not None
    got = evaluate(problem, plan.replica_counts)
    total = sum(c.demand_rps for c in situation.instance.classes)
    return (
        got.shortfall - best.shortfall,
        best.min_fulfilment - got.min_fulfilment,
        (best.goodput_rps - got.goodput_rps) / total,
    )


def check_gap(situation: Situation, certificate: Certificate) -> None:
    """The gap bounds the regret of A- stage by stage, whatever the verdict."""
    counted = frozenset(c.name for c in situation.instance.classes if c.name not in certificate.unservable)
    choices = [counted] if certificate.open_classes else [counted, situation.truly_servable]
    gap = certificate.gap
    for classes in choices:
        worse = regrets(situation, certificate.conservative, classes)
        for regret, bound in zip(worse, (gap.shortfall, gap.min_fulfilment, gap.goodput), strict=True):
            assert regret <= bound + ROUNDING, (worse, gap)


def check_feasible(situation: Situation, certificate: Certificate) -> None:
    """Certified-feasible: every floor is met, and no stage is more than ε worse than the true optimum."""
    assert situation.truly_servable == {
        c.name for c in situation.instance.classes if c.name not in certificate.unservable
    }
    worse = regrets(situation, certificate.conservative, situation.truly_servable)
    assert max(worse) <= certificate.epsilon + ROUNDING
    problem = situation.true_problem(counted=situation.truly_servable)
    plan = evaluate(problem, certificate.conservative.replica_counts)
    for c, got in zip(situation.instance.classes, plan.classes, strict=True):
        if c.floor_rps is not None:
            assert got.served_rps >= min(c.floor_rps, c.demand_rps) * (1.0 - ROUNDING)


def check_infeasible(situation: Situation) -> None:
    """Certified-infeasible: no plan meets the floors under the truth."""
    best = Frontier().optimise(situation.true_problem(counted=situation.truly_servable), ("shortfall",))
    assert best.values["shortfall"] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("regime", "examples", "least"),
    [
        ("precise", 500, {Verdict.FEASIBLE: 120, Verdict.INFEASIBLE: 30, Verdict.UNDECIDED: 50}),
        ("vague", 400, {Verdict.FEASIBLE: 40, Verdict.INFEASIBLE: 20, Verdict.UNDECIDED: 120}),
        ("contended", 600, {Verdict.INFEASIBLE: 50, Verdict.UNDECIDED: 120, "floors missed, some reachable": 60}),
        ("traded", 300, {Verdict.UNDECIDED: 80, "floors missed, some reachable": 150}),
    ],
)
def test_a_certificate_holds_under_every_truth(regime: str, examples: int, least: dict[str, int]) -> None:
    drawn_from = {
        "precise": situations(known=0.95, width=0.05),
        "vague": situations(known=0.8, width=0.4),
        "contended": situations(known=0.5, width=0.3, tight=True, critical=0.5),
        "traded": trades(),
    }
    seen: Counter[str] = Counter()
    tried = draws(examples)

    @settings(max_examples=tried)
    @given(drawn_from[regime])
    def check(situation: Situation) -> None:
        certificate = certified(situation)
        seen[certificate.verdict] += 1
        seen["floors missed, some reachable"] += certificate.gap.shortfall > 1e-6
        check_gap(situation, certificate)
        if certificate.verdict is Verdict.FEASIBLE:
            check_feasible(situation, certificate)
        if certificate.verdict is Verdict.INFEASIBLE:
            check_infeasible(situation)

    check()
    fewer = 1 if tried == examples else 2  # a share scatters more over fewer draws
    for what, count in least.items():
        assert fewer * seen[what] * examples >= count * tried, dict(seen)
