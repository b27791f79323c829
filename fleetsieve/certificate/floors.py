"""Whether every floor can be met, and by which plan, where the least shortfall is too small to decide.

A shortfall is weighted by priorities, found within a solver's tolerances, and as small where a floor is missed by rounding as where
it is missed by more. Whether floors can be met is a question about whole replicas: a class takes a number of them that reaches its
floor, of some configuration, or it misses. So it is asked of a fleet whose classes demand that number: there a class that misses
does so by a whole replica, which no tolerance hides.
"""

from __future__ import annotations

from dataclasses import replace

from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem

from fleetsieve.allocation import ROUNDED, Allocation, Engine, evaluate, floor_met, floors_met, rounded_floors

LEAST_PROVEN_SHORTFALL = 1e-7
"""A shortfall below this proves nothing: it is within what a solver's tolerances can make up."""


def floors_uncertain(problem: FleetProblem, shortfall: float) -> bool:
    """Whether a least shortfall is so small that every floor may be met all the same, up to rounding."""
    rounding = sum(c.priority * c.floor * ROUNDED for c in problem.classes if c.floor is not None)
    return shortfall <= rounding + LEAST_PROVEN_SHORTFALL


def plan_within_rounding(problem: FleetProblem, plan: Allocation, engine: Engine, eta: float) -> Allocation:
    """A plan that meets every floor, up to rounding, where `plan` of the least shortfall does not; else `plan`."""
    if floors_met(plan) or not floors_uncertain(problem, plan.shortfall):
        return plan
    alike = rounded_floors(replace(problem, classes=tuple(replace(c, priority=1.0) for c in problem.classes)))
    found = engine.optimise(alike, eta=eta).allocation
    other = evaluate(problem, found.replica_counts) if found is not None else plan
    return other if floors_met(other) else plan


def out_of_reach(problem: FleetProblem, shortfall: float, best: Allocation | None, engine: Engine) -> bool:
    """Whether it is proven that no plan meets every floor, up to rounding.

    Takes a lower bound of the shortfall, and the plan that was found of the least one, if any.
    """
    if not floors_uncertain(problem, shortfall):
        return True
    if best is not None and floors_met(best):
        return False
    whole = _in_replicas(problem)
    least = engine.optimise(whole, ("shortfall",)).bounds.get("shortfall")
    fewest = max((round(1.0 / q.capacity_rps) for q in whole.configurations), default=1)
    return least is not None and least > 0.5 / fewest


def _in_replicas(problem: FleetProblem) -> FleetProblem:
    """The critical classes, each demanding 1 and served by 1/N a replica, N being the replicas that meet its floor."""
    critical = [c for c in problem.classes if c.floor is not None and c.floor > 0.0 and c.demand_rps > 0.0]
    cells = []
    for c in critical:
        for q in problem.configurations_of[c.name]:
            limit = problem.max_replicas(q)
            count = max(
                1, min(limit + 1, int((c.floor or 0.0) * c.demand_rps * (1.0 - 2.0 * ROUNDED) / q.capacity_rps))
            )
            while count <= limit and not floor_met(c.floor or 0.0, min(1.0, count * q.capacity_rps / c.demand_rps)):
                count += 1
            if count <= limit:
                cells.append(Configuration(q.name, c.name, q.gpus, 1.0 / count, q.pool))
    return FleetProblem(tuple(ClassDemand(c.name, 1.0, 1.0, 1.0) for c in critical), tuple(cells), problem.pools)
