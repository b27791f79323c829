"""What a fleet would need: the fewest GPUs for full service, and by how much floors are missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyomo.environ as pyo
from fleetsieve_models.elastic import QUESTIONS, elastic, lack_of
from fleetsieve_models.fewest_gpus import STAGES as NEED_STAGES
from fleetsieve_models.fewest_gpus import fewest_gpus
from fleetsieve_models.problem import FleetProblem, Name
from fleetsieve_models.selection import enlarged, served_classes
from fleetsieve_models.stages import Stage
from fleetsieve_models.stages import stages as stages_of

from fleetsieve.allocation import Optimum, Shortage, evaluate, lacking_rps, rounded_floors
from fleetsieve.engines.solving.highs import SolveEnding, SolverSession
from fleetsieve.engines.solving.staged import SLACKS, StagedSolve, value_of
from fleetsieve.errors import SolveFailed


@dataclass(frozen=True, slots=True)
class Need:
    """The least that serves every class in full: the plan, its GPUs per pool, its price per hour.

    The plan is evaluated against `fleetsieve_models.selection.enlarged(problem)`, whose pools do not bind.
    """

    optimum: Optimum
    gpus: Mapping[str, int]
    price_per_h: float


def optimise_fewest_gpus(problem: FleetProblem, *, time_limit_s: float | None = None) -> Need:
    """The fewest GPUs, then the least price per hour, then the usual order, that serve every class in full.

    Takes a problem; its pools may grow without end, their nodes keep their size. A class that demands something, counts
    in the minimum and has no configuration makes the answer infeasible; one that is out of the minimum is left out.

    Raises:
        SolverMissing: when HiGHS is absent, too old or fails its self-test.
        SolveFailed: when a solution fails the exact re-check.
    """
    large = enlarged(problem)
    served = {c.name for c in served_classes(large)}
    missing = [c.name for c in problem.classes if c.demand_rps > 0.0 and c.in_minimum and c.name not in served]
    if missing:
        reason = f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} no configuration"
        return Need(Optimum(None, {}, {}, proven=True, infeasible=True, reason=reason), {}, 0.0)
    if not served:
        nothing = evaluate(large, {})
        zeros = {name: value_of(nothing, name) for name in NEED_STAGES}
        return Need(Optimum(nothing, zeros, dict(zeros), proven=True), {p.name: 0 for p in problem.pools}, 0.0)
    model = fewest_gpus(problem)
    session = SolverSession(model, time_limit_s)
    optimum = StagedSolve(large, session, stages_of(model, NEED_STAGES), model.n).solve(NEED_STAGES)
    plan = optimum.allocation
    if plan is None:
        return Need(optimum, {}, 0.0)
    gpus = {p.name: 0 for p in problem.pools}
    for c in plan.classes:
        if c.configuration:
            gpus[c.configuration.pool] += c.gpus
    return Need(optimum, gpus, value_of(plan, "price"))


def optimise_shortage(problem: FleetProblem, *, time_limit_s: float | None = None) -> Shortage:
    """By how much the floors of a problem are missed at least, in GPUs and in requests/s.

    Takes the problem of the best realisation. Gives exact amounts: the GPUs to add so that every floor can be met, and,
    with the GPUs there are, what each critical class lacks in the plan that lacks least (see `Shortage`).

    Raises:
        SolverMissing: when HiGHS is absent, too old or fails its self-test.
        SolveFailed: when a question is not solved to optimality.
    """
    large = enlarged(problem)
    served = {c.name for c in served_classes(large)}
    critical = [c for c in problem.classes if c.floor is not None and c.floor > 0.0 and c.demand_rps > 0.0]
    unservable = tuple(c.name for c in critical if c.name not in served)
    if len(unservable) == len(critical):
        return Shortage({}, {}, unservable)

    gpus = _more_gpus(elastic(rounded_floors(problem)), time_limit_s)
    place = _lacking_least(problem, elastic(problem), time_limit_s)
    served_rps = {c.class_name: c.served_rps for c in evaluate(large, place).classes if c.class_name in served}
    return Shortage(gpus, lacking_rps(critical, served_rps), unservable)


def _more_gpus(model: pyo.ConcreteModel, time_limit_s: float | None) -> dict[str, int]:
    """The GPUs to add to each pool so that nothing lacks."""
    table = stages_of(model, QUESTIONS)
    session = SolverSession(model, time_limit_s)
    session.hold(table["lack"].hold)
    _solve(session, table["extra"])
    return {p: count for p, count in session.integers(model.more_gpus.values()).items() if count}


def _lacking_least(problem: FleetProblem, model: pyo.ConcreteModel, time_limit_s: float | None) -> dict[Name, int]:
    """The replicas of the plan that lacks least on the GPUs there are: in all, then in each class in its order."""
    lacks = [lack_of(k) for k in range(len(model.SERVED))]
    table = stages_of(model, [*QUESTIONS, *lacks])
    session = SolverSession(model, time_limit_s)
    session.hold(table["extra"].hold)
    least = _solve(session, table["lack"])
    for before, name in pairwise(["lack", *lacks[:-1]]):
        table[before].limit.set_value(least + SLACKS[0] * max(1.0, abs(least)))
        session.hold(table[before].hold)
        least = _solve(session, table[name])
    return {problem.configurations[k].name: count for k, count in session.integers(model.n.values()).items()}


def _solve(session: SolverSession, stage: Stage) -> float:
    answer = session.solve(stage.objective)
    if answer.ending is not SolveEnding.OPTIMAL or answer.value is None:
        raise SolveFailed(f"what the floors need was not found: {answer.reason}")
    return answer.value
