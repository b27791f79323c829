"""The frontier, the MILP and an exact brute force find the same plan values in every stage."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from brute_force import best_values
from draws import draws
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from hypothesis import given, settings
from strategies import LARGE, NODED, THREES, TIED, TYPICAL, WIDE, Request, Shape, requests, tied_rates

from fleetsieve.allocation import STAGES, Engine, Optimum, evaluate
from fleetsieve.engines.frontier import Frontier, labels
from fleetsieve.engines.solving import Milp
from fleetsieve.errors import UsageError

SMALL = Shape(classes=(1, 3), gpus=(1, 8), cells=2)
SMALL_TIES = Shape(
    classes=(1, 3), gpus=(1, 8), cells=3, capacities=tied_rates(1.0, 1.5, 2.0, 3.0), demands=tied_rates(2.0, 3.0, 6.0)
)
SMALL_THREES = Shape(classes=(1, 2), gpus=(1, 12), sizes=(1, 2, 3, 4, 6), cells=2)
PLACED = Shape(classes=(1, 2), gpus=(2, 9), sizes=(2, 3, 4), cells=2, nodes=(4, 5), pools=2)


def answer(engine: Engine, request: Request) -> Optimum:
    return engine.optimise(request.problem, request.stages, eta=request.eta, holds=request.holds)


def agree(first: dict[str, float], second: dict[str, float]) -> bool:
    return first.keys() == second.keys() and all(
        math.isclose(first[stage], second[stage], rel_tol=1e-7, abs_tol=1e-7) for stage in first
    )


def check_answer(optimum: Optimum, request: Request, expected: dict[str, float] | None) -> None:
    """The answer is proven, is what was expected, and its plan, evaluated afresh, is worth what it says."""
    assert optimum.proven
    assert optimum.infeasible == (expected is None)
    if expected is None:
        assert optimum.allocation is None
        return
    assert optimum.allocation is not None
    assert agree(dict(optimum.values), expected), (dict(optimum.values), expected)
    plan = evaluate(request.problem, optimum.allocation.replica_counts)
    slack = {stage: request.eta if stage == "min_fulfilment" else 0.0 for stage in request.stages}
    for stage, value in expected.items():
        assert abs(plan.value(stage) - value) <= slack[stage] + 1e-7 * max(1.0, abs(value)) or (
            stage == "min_fulfilment" and plan.value(stage) >= value - 1e-7
        )
    for stage, bound in optimum.bounds.items():
        assert bound is not None
        assert math.isclose(bound, expected[stage], rel_tol=1e-6, abs_tol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [Frontier(), Milp()], ids=lambda engine: engine.name)
@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("shape", [SMALL, SMALL_TIES, SMALL_THREES], ids=["small", "ties", "threes"])
def test_engine_equals_brute_force(engine: Engine, shape: Shape, held: bool) -> None:
    @settings(max_examples=150 if engine.name == "frontier" else 50)
    @given(requests(shape, held=held))
    def check(request: Request) -> None:
        check_answer(answer(engine, request), request, best_values(request))

    check()


@pytest.mark.slow
@settings(max_examples=120)
@given(requests(PLACED))
def test_milp_places_replicas_on_nodes_as_brute_force_does(request_: Request) -> None:
    check_answer(answer(Milp(), request_), request_, best_values(request_))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "held", "examples"),
    [
        (TIED, False, 450),
        (TIED, True, 250),
        (TYPICAL, False, 500),
        (TYPICAL, True, 250),
        (THREES, False, 200),
        (THREES, True, 100),
        (NODED, False, 200),
        (WIDE, False, 90),
        (WIDE, True, 60),
    ],
    ids=["ties", "ties-held", "typical", "typical-held", "threes", "threes-held", "nodes", "wide", "wide-held"],
)
def test_frontier_equals_milp(shape: Shape, held: bool, examples: int) -> None:
    """2,100 fleets with all draws, 1,450 without, every stage."""

    @settings(max_examples=draws(examples))
    @given(requests(shape, held=held))
    def check(request: Request) -> None:
        fast = answer(Frontier(), request)
        slow = answer(Milp(), request)
        expected = None if slow.infeasible else dict(slow.values)
        check_answer(slow, request, expected)
        check_answer(fast, request, expected)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [SMALL, SMALL_TIES], ids=["small", "ties"])
def test_bounding_by_a_good_plan_loses_no_optimum(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the frontier does with many partial plans, done with the first one already."""
    monkeypatch.setattr(labels, "MANY_LABELS", 0)

    @settings(max_examples=200)
    @given(requests(shape, held=True))
    def check(request: Request) -> None:
        check_answer(answer(Frontier(), request), request, best_values(request))

    check()


@pytest.mark.slow
@settings(max_examples=12)
@given(requests(LARGE, held=True))
def test_a_large_fleet_with_a_shortfall_limit_takes_no_time(request_: Request) -> None:
    """Eight classes that lose something on 230 GPUs took 43 s by plain Pareto labels."""
    request_ = replace(
        request_,
        stages=("goodput",),
        holds={"shortfall": 0.5 * sum(c.priority * (c.floor or 0.0) for c in request_.problem.classes)},
    )
    began = time.process_time()
    fast = answer(Frontier(), request_)
    assert time.process_time() - began < 5.0
    slow = answer(Milp(time_limit_s=20.0), request_)
    if slow.proven:
        check_answer(fast, request_, None if slow.infeasible else dict(slow.values))


def one_class(*cells: tuple[int, float], gpus: int = 8, demand: float = 10.0, **more: float) -> FleetProblem:
    configurations = tuple(Configuration(k, "chat", size, capacity) for k, (size, capacity) in enumerate(cells))
    return FleetProblem((ClassDemand("chat", demand, **more),), configurations, (GpuPool("default", gpus),))


def test_fewer_gpus_come_before_spare_capacity_and_spare_before_replicas() -> None:
    plan = Frontier().optimise(one_class((4, 5.0), (8, 99.0), (2, 2.5))).allocation
    assert plan is not None
    assert plan.gpus_used == 8
    assert plan.replica_counts == {1: 1}


def test_the_first_name_breaks_the_last_tie() -> None:
    plan = Frontier().optimise(one_class((4, 5.0), (4, 5.0))).allocation
    assert plan is not None
    assert plan.replica_counts == {0: 2}


def test_a_fleet_without_classes_is_an_empty_plan() -> None:
    problem = FleetProblem((), (), (GpuPool("default", 4),))
    for engine in (Frontier(), Milp()):
        optimum = engine.optimise(problem)
        assert optimum.allocation is not None
        assert optimum.allocation.gpus_used == 0
        assert tuple(optimum.values) == STAGES


@pytest.mark.parametrize(
    "problem",
    [
        FleetProblem((ClassDemand("chat", 1.0),), (), (GpuPool("a", 4), GpuPool("b", 4))),
        FleetProblem(
            (ClassDemand("chat", 1.0),),
            (Configuration("q", "chat", 3, 1.0),),
            (GpuPool("default", 8, gpus_per_node=4),),
        ),
    ],
    ids=["two pools", "placement matters"],
)
def test_the_frontier_refuses_what_it_does_not_cover(problem: FleetProblem) -> None:
    assert not Frontier.accepts(problem)
    with pytest.raises(UsageError, match="MILP"):
        Frontier().optimise(problem)


@pytest.mark.parametrize("priority", [1e-6, 1e-9, 1e-12, 1e6, 1e9])
@pytest.mark.parametrize("engine", [Frontier(), Milp()], ids=lambda engine: engine.name)
def test_any_priority_gives_a_plan(engine: Engine, priority: float) -> None:
    problem = one_class((4, 2.0), demand=10.0, floor=0.9, priority=priority)
    optimum = engine.optimise(problem)
    assert optimum.allocation is not None
    assert math.isclose(optimum.allocation.min_fulfilment, 0.4)
