"""The contract of engines, over every one of them; and which one a fleet gets."""

from __future__ import annotations

import math
import time

import pytest
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from solving.fleets import fleet, paper_fleet, random_fleet

from fleetsieve.allocation import STAGES, Engine, evaluate
from fleetsieve.engines.choosing import Automatic, engine_for
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.errors import UsageError

ENGINES: tuple[Engine, ...] = (Frontier(), Milp(), Automatic())
PLACED = fleet({"chat": 6.0}, {"TP3": ("chat", 3, 2.0), "TP4": ("chat", 4, 2.5)}, 16, 8)
PROBLEMS = {
    "paper": paper_fleet(1.3),
    "floors": paper_fleet(1.3, Chat={"floor": 1.0}, Code={"floor": 0.9}),
    "placement": PLACED,
    "nothing to serve": FleetProblem((ClassDemand("chat", 1.0),), (), (GpuPool("default", 4),)),
    **{f"random {seed}": random_fleet(seed) for seed in range(40)},
}


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name.split(",")[0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_an_engine_solves_what_it_accepts_and_says_what_it_does_not(engine: Engine, name: str) -> None:
    problem = PROBLEMS[name]
    if not engine.accepts(problem):
        with pytest.raises(UsageError, match="MILP"):
            engine.optimise(problem)
        return
    found, expected = engine.optimise(problem, eta=0.01), Milp(presolve=False).optimise(problem, eta=0.01)
    assert found.proven
    assert found.allocation is not None
    assert tuple(found.values) == STAGES
    for stage in STAGES:
        assert math.isclose(found.values[stage], expected.values[stage], rel_tol=1e-7, abs_tol=1e-7), stage
        assert found.bounds[stage] is not None
    plan = evaluate(problem, found.allocation.replica_counts)
    assert plan.value("goodput") == found.values["goodput"]


def test_a_fleet_gets_the_frontier_where_all_that_is_asked_is_its_own() -> None:
    assert isinstance(engine_for(paper_fleet()), Frontier)
    assert isinstance(engine_for(paper_fleet(), PLACED), Milp)
    assert Automatic().accepts(PLACED)


def test_only_gpus_that_a_plan_may_use_count() -> None:
    """A hundred thousand GPUs and a demand for sixteen of them; and more GPUs than tables of the frontier hold."""
    start = time.process_time()
    plan = Frontier().optimise(paper_fleet(gpus=100_000)).allocation
    assert plan is not None
    assert plan.min_fulfilment == 1.0
    assert time.process_time() - start < 2.0
    assert Frontier().accepts(paper_fleet(gpus=10**9))
    huge = FleetProblem(
        (ClassDemand("chat", 1e9),), (Configuration("q", "chat", 1, 12.0),), (GpuPool("default", 10**8),)
    )
    assert not Frontier().accepts(huge)
    found = Automatic().optimise(huge)
    assert found.allocation is not None
    assert found.allocation.gpus_used in (83_333_333, 83_333_334)  # one replica of so many is a tie
