"""The engine that needs no solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from fleetsieve_models.placement import counting_is_enough
from fleetsieve_models.problem import FleetProblem, Name

from fleetsieve.allocation import STAGES, TIE, Optimum, evaluate, tolerance
from fleetsieve.engines.frontier.curves import Curve, gpus_that_matter, problem_curves
from fleetsieve.engines.frontier.labels import knapsack, pareto_labels
from fleetsieve.engines.frontier.steps import limits, starts
from fleetsieve.engines.frontier.values import greatest_min_fulfilment, keeps, least_shortfall
from fleetsieve.errors import UsageError

MAX_GPUS = 250_000
"""Its tables have a column a GPU. Beyond so many that a plan may use they take gigabytes; a MILP is no larger than for a few."""


class Frontier:
    """The engine that needs no solver (see `allocation.Engine`)."""

    name = "frontier"

    @staticmethod
    def accepts(problem: FleetProblem) -> bool:
        """Whether the problem is this engine's: one pool, counting GPUs is enough to place replicas, and they are not too many."""
        if len(problem.pools) != 1:
            return False
        (pool,) = problem.pools
        counted = counting_is_enough(pool, [q.gpus for qs in problem.configurations_of.values() for q in qs])
        return counted and (pool.gpus <= MAX_GPUS or gpus_that_matter(problem) <= MAX_GPUS)

    def optimise(
        self,
        problem: FleetProblem,
        stages: Sequence[str] = STAGES,
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = MappingProxyType({}),
    ) -> Optimum:
        """Solve the stages in order, each with the earlier ones held (see `allocation.Engine.optimise`).

        Raises:
            UsageError: when the problem has several pools, nodes that make placement matter, or too many GPUs.
        """
        if not self.accepts(problem):
            raise UsageError(
                "the frontier takes one GPU pool where counting GPUs is enough, "
                f"and up to {MAX_GPUS:,} GPUs that a plan may use; use the MILP engine"
            )
        curves = problem_curves(problem)
        gpus = min(problem.pools[0].gpus, sum(int(c.gpus[-1]) for c in curves))
        shortfall, least_fulfilment = holds.get("shortfall", np.inf), holds.get("min_fulfilment", 0.0)
        values: dict[str, float] = {}
        start = starts(curves, least_fulfilment, np.inf)
        if "shortfall" in stages:
            least = least_shortfall(curves, gpus, start)
            if least > shortfall + TIE:
                return _none("no plan keeps the shortfall limit")
            values["shortfall"] = shortfall = least
        if not keeps(curves, gpus, least_fulfilment, shortfall):
            return _none("no plan keeps the limits")
        if "min_fulfilment" in stages:
            values["min_fulfilment"] = greatest_min_fulfilment(curves, gpus, shortfall)
            least_fulfilment = max(least_fulfilment, values["min_fulfilment"] - eta)
        start = starts(curves, least_fulfilment, shortfall)
        if "shortfall" in stages or not limits(curves, shortfall):
            usable = curves if "shortfall" in stages else [c.without_loss() for c in curves]
            plans = knapsack(usable, gpus, start)
        else:
            plans = pareto_labels(curves, gpus, start, shortfall)
        plans = [plan for plan in plans if plan.loss <= shortfall + TIE]
        greatest = max(plan.served for plan in plans)
        best = min((p for p in plans if p.served >= greatest - tolerance(greatest)), key=lambda p: (p.gpus, p.rank))
        allocation = evaluate(problem, _replicas(curves, best.steps))
        values |= {stage: allocation.value(stage) for stage in stages if stage not in values}
        proven = {stage: values[stage] for stage in stages}
        return Optimum(allocation=allocation, values=proven, bounds=dict(proven), proven=True)


def _none(reason: str) -> Optimum:
    return Optimum(allocation=None, values={}, bounds={}, proven=True, infeasible=True, reason=reason)


def _replicas(curves: Sequence[Curve], steps: Sequence[int]) -> dict[Name, int]:
    chosen: dict[Name, int] = {}
    for c, step in zip(curves, steps, strict=True):
        q = c.chosen(step)
        if q is not None:
            chosen[q.name] = int(c.replicas[step])
    return chosen
