"""The MILP finds what trying every plan finds, in all stages, and its bounds hold."""

import random

import pytest
from fleets import by_enumeration, counts, every_plan, figures, random_fleet

from fleetsieve.allocation import MAXIMISED, STAGES, evaluate
from fleetsieve.engines.solving import Milp


def agree(problem, found, values, left):
    assert found.proven
    if not left:
        assert found.infeasible
        assert found.allocation is None
        return
    assert not found.infeasible
    assert found.values == pytest.approx(values, rel=1e-8, abs=1e-8)
    assert dict(found.allocation.replica_counts) in [counts(plan) for plan in left]
    for stage, value in values.items():
        bound, slack = found.bounds[stage], 1e-9 * max(1.0, abs(value))
        assert bound >= value - slack if stage in MAXIMISED else bound <= value + slack
        assert bound == pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(150))
def test_all_stages(seed):
    problem = random_fleet(seed)
    eta = random.Random(seed).choice([0.0, 0.0, 0.1])
    values, left = by_enumeration(problem, every_plan(problem), eta=eta)
    agree(problem, Milp(presolve=seed % 3 > 0).optimise(problem, eta=eta), values, left)


@pytest.mark.parametrize("seed", range(60))
def test_limits_from_outside_and_fewer_stages(seed):
    draw = random.Random(seed)
    problem = random_fleet(1000 + seed)
    plans = every_plan(problem)
    known, _ = by_enumeration(problem, plans)
    holds = {}
    if draw.random() < 0.6:
        holds["shortfall"] = known["shortfall"] * draw.choice([1.0, 1.3, 0.9])
    if draw.random() < 0.7:
        holds["min_fulfilment"] = known["min_fulfilment"] * draw.choice([1.0, 0.6]) + draw.choice([0.0, 0.0, 0.2])
    stages = draw.choice([STAGES, STAGES[:3], ("min_fulfilment", "goodput"), ("goodput",), ("shortfall",)])
    eta = draw.choice([0.0, 0.05])
    values, left = by_enumeration(problem, plans, stages, eta, holds)
    agree(problem, Milp().optimise(problem, stages, eta=eta, holds=holds), values, left)


@pytest.mark.parametrize("seed", range(40))
def test_the_enumeration_and_the_exact_evaluation_agree(seed):
    problem = random_fleet(seed)
    plans = every_plan(problem)
    for plan in random.Random(seed).sample(plans, min(5, len(plans))):
        exact = evaluate(problem, counts(plan))
        assert {stage: exact.value(stage) for stage in STAGES} == pytest.approx(figures(problem, plan))
