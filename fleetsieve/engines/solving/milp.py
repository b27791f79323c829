"""The fleet decision as a MILP under HiGHS, stage by stage, every value recomputed without the solver."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fleetsieve_models.lexicographic import lexicographic
from fleetsieve_models.problem import FleetProblem
from fleetsieve_models.selection import served_classes
from fleetsieve_models.stages import stages as stages_of

from fleetsieve.allocation import STAGES, Optimum, evaluate
from fleetsieve.engines.solving.highs import SolverSession
from fleetsieve.engines.solving.presolve import may_presolve, undominated
from fleetsieve.engines.solving.staged import ModelReach, StagedSolve, infeasible, within

NO_HOLDS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Milp:
    """The MILP engine: Pyomo's `lexicographic` model under HiGHS.

    `presolve` leaves out configurations that are in no optimum (`presolve.undominated`); `time_limit_s` is shared by
    all stages of one call (None: no limit).
    """

    presolve: bool = True
    time_limit_s: float | None = None
    name: str = "highs-milp"

    def accepts(self, problem: FleetProblem) -> bool:
        """Every problem is this engine's."""
        return True

    def optimise(
        self,
        problem: FleetProblem,
        stages: Sequence[str] = STAGES,
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = NO_HOLDS,
    ) -> Optimum:
        """Solve `stages` in order, each with the earlier ones held: min fulfilment at its value - eta, others as found.

        Takes the problem; the stages wanted, in the order of `allocation.STAGES`; the fairness slack eta >= 0; and
        limits from outside, {"shortfall": at most, "min_fulfilment": at least}, that hold in every stage without slack.
        Ties (`allocation.tolerance`) are within every limit.

        Gives the plan with its exact values and, per stage, the solver's dual bound rounded outwards. When a stage ends
        without proof, `proven` is False, `reason` names the stage and the status, and the plan is the best one found so
        far or None; `infeasible` is True only where the solver proved that no plan is within `holds`.

        Raises:
            ValueError: for unknown or misordered stages, `spare` without `gpus` before it, or limits not finite.
            SolverMissing: when HiGHS is absent, too old or fails its self-test.
            SolveFailed: when a solution fails the exact re-check.
        """
        _check_request(stages, eta, holds)
        usable = undominated(problem) if self.presolve and may_presolve(stages) else problem
        if not served_classes(usable):
            return _only_the_empty_plan(problem, stages, holds)
        model = lexicographic(usable, eta)
        table = stages_of(model, STAGES)
        reach = ModelReach(model, usable) if _reach_pays(usable) else None
        session = SolverSession(model, self.time_limit_s)
        return StagedSolve(problem, session, table, model.n, eta=eta, holds=holds, reach=reach).solve(stages)


def _reach_pays(problem: FleetProblem) -> bool:
    """Whether classes compete for several pools, and all that count in the minimum can be served."""
    counted = [c for c in problem.classes if c.in_minimum and c.demand_rps > 0.0]
    pools = {q.pool for c in counted for q in problem.configurations_of[c.name]}
    return len(pools) > 1 and all(problem.configurations_of[c.name] for c in counted)


def _check_request(stages: Sequence[str], eta: float, holds: Mapping[str, float]) -> None:
    if [s for s in STAGES if s in stages] != list(stages):
        raise ValueError(f"stages {tuple(stages)} are not in the order of {STAGES}")
    if "spare" in stages and "gpus" not in stages:
        raise ValueError("stage spare needs gpus before it: spare capacity has no end without it")
    if not 0.0 <= eta < math.inf:
        raise ValueError(f"eta is {eta}, not a finite number >= 0")
    for name, limit in holds.items():
        if name not in {"shortfall", "min_fulfilment"} or not math.isfinite(limit):
            raise ValueError(f"{name} cannot be held at {limit}")


def _only_the_empty_plan(problem: FleetProblem, stages: Sequence[str], holds: Mapping[str, float]) -> Optimum:
    """The answer where no class can be served: the empty plan, exactly, or nothing within the limits."""
    plan = evaluate(problem, {})
    for name, limit in holds.items():
        if not within(name, plan.value(name), limit):
            return infeasible(f"{name} is {plan.value(name):g} in the only plan, not within {limit:g}")
    values = {name: plan.value(name) for name in stages}
    return Optimum(plan, values, dict(values), proven=True)
