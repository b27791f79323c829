"""The min fulfilment on several pools is found by bisection: exactly, in time, and soundly when it is cut short."""

import random
from dataclasses import replace

import pytest
from fleets import by_enumeration, counts, every_plan, random_fleet
from fleetsieve_models.lexicographic import lexicographic
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from fleetsieve_models.reach import add_reach, break_points, fulfilment, replicas_to_reach

from fleetsieve.engines.solving import Milp, milp
from fleetsieve.engines.solving.highs import SolveEnding, SolverSession, StageAnswer
from fleetsieve.errors import SolveFailed


def three_pools(seed, classes=20, floor=0.1):
    """Classes with TP 1 to 6 on nodes of 8, 8 and 6 GPUs: no pool is best for all."""
    draw = random.Random(seed)
    pools = (GpuPool("h100", 400, 8), GpuPool("b200", 200, 8), GpuPool("a100", 120, 6))
    demands = tuple(
        ClassDemand(f"c{i}", float(draw.randint(50, 400)), floor=draw.choice([None, floor])) for i in range(classes)
    )
    cells = tuple(
        Configuration((c.name, p.name, tp), c.name, tp, round(draw.uniform(1.6, 3.2) * tp, 3), p.name)
        for c in demands
        for p in pools
        for tp in range(1, 7)
    )
    return FleetProblem(demands, cells, pools)


def two_pools(seeds):
    """The random fleets of these seeds whose classes compete for two pools."""
    return [p for p in map(random_fleet, seeds) if milp._reach_pays(p)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_large_fleet_takes_seconds(seed):
    found = Milp(time_limit_s=40.0).optimise(three_pools(seed), ("shortfall", "min_fulfilment"))
    assert found.proven
    assert found.bounds["min_fulfilment"] == found.values["min_fulfilment"] == found.allocation.min_fulfilment


@pytest.mark.slow
@pytest.mark.parametrize("floor", [0.1, 0.9])
def test_one_milp_finds_the_same(monkeypatch, floor):
    problem = three_pools(5, classes=5, floor=floor)
    problem = replace(problem, pools=tuple(replace(p, gpus=p.gpus // 8) for p in problem.pools))
    climbed = Milp().optimise(problem, eta=0.01)
    monkeypatch.setattr(milp, "_reach_pays", lambda problem: False)
    at_once = Milp().optimise(problem, eta=0.01)
    assert climbed.allocation.replica_counts == at_once.allocation.replica_counts
    assert climbed.values == pytest.approx(at_once.values)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 4000, 100))
def test_small_fleets_agree_with_trying_every_plan(first):
    for k, problem in enumerate(two_pools(range(first, first + 100))):
        eta, plans = random.Random(k).choice([0.0, 0.1]), every_plan(problem)
        found, (values, left) = Milp().optimise(problem, eta=eta), by_enumeration(problem, plans, eta=eta)
        assert found.proven
        assert found.values == pytest.approx(values, rel=1e-8, abs=1e-8)
        assert dict(found.allocation.replica_counts) in [counts(plan) for plan in left]
        holds = {"shortfall": values["shortfall"] * 1.2}
        found = Milp().optimise(problem, ("min_fulfilment", "goodput"), eta=eta, holds=holds)
        values, _ = by_enumeration(problem, plans, ("min_fulfilment", "goodput"), eta, holds)
        assert found.values == pytest.approx(values, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("solves", range(4))
def test_a_climb_cut_short_proves_no_more_than_is_true(monkeypatch, solves):
    whole, left = SolverSession.solve, []

    def cut(self, objective):
        left.append(objective)
        return (
            StageAnswer(SolveEnding.UNDECIDED, None, None, "maxTimeLimit")
            if len(left) > solves
            else whole(self, objective)
        )

    monkeypatch.setattr(SolverSession, "solve", cut)
    problems = two_pools(range(300))
    assert len(problems) > 15
    for problem in problems:
        left.clear()
        found = Milp().optimise(problem, ("min_fulfilment",))
        best = by_enumeration(problem, every_plan(problem), ("min_fulfilment",))[0]["min_fulfilment"]
        assert found.bounds["min_fulfilment"] >= best
        if not found.proven:
            assert found.reason == "stage min_fulfilment: maxTimeLimit"
            assert found.allocation is None or found.values["min_fulfilment"] == found.allocation.min_fulfilment <= best


def test_a_plan_that_does_not_reach_what_it_was_held_at_is_an_error(monkeypatch):
    problem = two_pools(range(120))[0]
    monkeypatch.setattr("fleetsieve.engines.solving.staged.set_reach", lambda model, problem, least: None)
    with pytest.raises(SolveFailed, match=r"a plan held at .* has 0\.0"):
        Milp().optimise(problem, ("min_fulfilment",))


@pytest.mark.parametrize("seed", range(5))
def test_break_points_are_reached_to_the_last_bit(seed):
    problem = three_pools(seed, classes=3)
    model = lexicographic(problem)
    add_reach(model, problem)
    demand = {c.name: c for c in problem.classes}
    points = break_points(model, problem)
    assert points[0] == 0.0
    for q in problem.configurations[::7]:
        c = demand[q.class_name]
        for n in range(1, problem.max_replicas(q) + 1):
            r = fulfilment(c, q, n)
            assert r in points or n > model.M[problem.configurations.index(q)]
            assert r == 1.0 or replicas_to_reach(c, q, r) == n
