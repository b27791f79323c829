"""One MILP, solved stage by stage; no value that the solver reports for a plan is believed before it is recomputed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from fleetsieve_models.placement import counting_is_enough
from fleetsieve_models.problem import FleetProblem, Name
from fleetsieve_models.reach import add_reach, break_points, set_reach
from fleetsieve_models.selection import served_classes
from fleetsieve_models.stages import Stage

from fleetsieve.allocation import MAXIMISED, Allocation, Optimum, evaluate, tolerance
from fleetsieve.engines.solving.highs import SolveEnding, SolverSession, StageAnswer
from fleetsieve.errors import SolveFailed

AGREEMENT = 1e-6
"""How far the solver's value of a stage may be from the exact one, relative to max(1, |value|)."""

SLACKS = (1e-7, 5e-9)
"""How far the solver may go past a held value, relative to max(1, |value|): the first leaves it room for its own
tolerance of 1e-9 (less, and it finds nothing in 1 % of small fleets); the second, tried where the first let a plan buy
something with a held value, is a tie.
"""

INTEGRAL = frozenset({"gpus", "nodes", "replicas", "order"})
"""Stages whose values are whole numbers: a bound is rounded to the next one, a hold has half of one as slack."""


def value_of(plan: Allocation, stage: str) -> float:
    """The exact value of a stage of `allocation.STAGES`, or of `price` (per hour, of the GPUs in use)."""
    if stage != "price":
        return plan.value(stage)
    price = {p.name: p.price_per_gpu_h for p in plan.problem.pools}
    return math.fsum(price[c.configuration.pool] * c.gpus for c in plan.classes if c.configuration)


class ModelReach:
    """The min fulfilment of a model, held in whole replicas: see `fleetsieve_models.reach`.

    Takes the model of `lexicographic` and its problem, whose classes in the minimum can all be served.
    """

    def __init__(self, model: Any, problem: FleetProblem) -> None:
        add_reach(model, problem)
        self.model, self.problem = model, problem

    @cached_property
    def points(self) -> list[float]:
        """Every value that the min fulfilment can have, ascending from 0."""
        return break_points(self.model, self.problem)

    def hold(self, session: SolverSession, least: float) -> None:
        """Hold every class in the minimum at `least` or more, in the solves to come."""
        set_reach(self.model, self.problem, max(0.0, least))
        session.hold(self.model.some_configuration)
        session.hold(self.model.enough)


class StagedSolve:
    """One staged solve under way: the plan in hand, what each stage gave, what is held.

    Takes the problem that plans are evaluated against, the session of its model, the stages that the model has, its
    replica variables n (indexed by the places of `problem.configurations`), the slack eta of the min fulfilment,
    limits from outside, and the model's `Reach` where it pays (several pools).
    """

    def __init__(
        self,
        problem: FleetProblem,
        session: SolverSession,
        table: Mapping[str, Stage],
        n: Mapping[int, Any],
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = MappingProxyType({}),
        reach: ModelReach | None = None,
    ) -> None:
        self.problem, self.session, self.table, self.n, self.eta, self.holds = problem, session, table, n, eta, holds
        self.reach = reach
        self.plan: Allocation | None = None
        self.values: dict[str, float] = {}
        self.bounds: dict[str, float | None] = {}
        self.slack = SLACKS[0]

    def solve(self, stages: Sequence[str]) -> Optimum:
        """Solve the stages in order; see `milp.Milp.optimise` for what comes back and what is raised."""
        for name, limit in self.holds.items():
            if name not in self.table and not within(name, _fixed_value(name), limit):
                return infeasible(f"{name} is {_fixed_value(name):g} in every plan, not within {limit:g}")
        for name in self.holds:
            self._hold(name)
        for name in stages:
            known = self._known(name)
            if known is not None:
                self.values[name] = self.bounds[name] = known
            elif (ended := self._solved(name)) is not None:
                return ended
            self._hold(name)
        if self.plan is None and self.holds and (ended := self._solve("gpus")) is not None:
            return ended
        values = {name: self.values[name] for name in stages}
        bounds = {name: self.bounds[name] for name in stages}
        return Optimum(self.plan or evaluate(self.problem, {}), values, bounds, proven=True)

    def _solved(self, name: str) -> Optimum | None:
        """Solve one stage and take its plan; gives what to answer when nothing can follow it."""
        if name == "min_fulfilment" and self.reach is not None and name not in self.holds:
            return self._climb(name, self.reach)
        return self._solve(name)

    def _solve(self, name: str) -> Optimum | None:
        """Solve one stage for its own objective."""
        answer = self.session.solve(self.table[name].objective)
        if answer.ending is SolveEnding.INFEASIBLE:
            if self.plan is not None:
                raise SolveFailed(f"stage {name} has no plan although the stage before it had one")
            return infeasible("no plan is within the limits")
        if answer.value is not None:
            plan = self._taken(name, answer)
            if plan is None:
                return self._solve(name)
            self.plan, self.values[name] = plan, value_of(plan, name)
        if answer.ending is SolveEnding.OPTIMAL:
            exact = self.values[name]
            if answer.bound is None or _worse(name, answer.bound, exact, AGREEMENT):
                raise SolveFailed(f"stage {name}: the solver proves {answer.bound}, its plan gives {exact}")
            self.bounds[name] = self._outward(name, answer.bound)
            return None
        self.bounds[name] = None if answer.bound is None else self._outward(name, answer.bound)
        return Optimum(self.plan, dict(self.values), dict(self.bounds), False, reason=f"stage {name}: {answer.reason}")

    def _climb(self, name: str, reach: ModelReach) -> Optimum | None:
        """Solve the stage of the min fulfilment by bisection: which is the last of its values that a plan reaches?

        Each question is a MILP of its own, for the fewest GPUs with every class held there; a plan answers yes and a
        proof that there is none answers no. Several pools take minutes or more in one MILP, seconds this way.
        """
        points, stage = reach.points, "gpus"
        low, high = -1 if self.plan is None else bisect_right(points, self.plan.min_fulfilment) - 1, len(points)
        ended = None
        while high - low > 1 and ended is None:
            middle = (low + high) // 2 if low >= 0 else 0
            reach.hold(self.session, points[middle])
            answer = self.session.solve(self.table[stage].objective)
            if answer.ending is SolveEnding.INFEASIBLE:
                high = middle
            elif answer.value is None:
                ended = answer.reason
            elif (plan := self._taken(stage, answer)) is not None:
                self.plan, low = plan, bisect_right(points, plan.min_fulfilment) - 1
                if low < middle:
                    raise SolveFailed(f"stage {name}: a plan held at {points[middle]} has {plan.min_fulfilment}")
        if high == 0:
            return infeasible("no plan is within the limits")
        if self.plan is not None:
            self.values[name] = self.plan.min_fulfilment
        self.bounds[name] = points[high - 1]
        if ended is None:
            return None
        return Optimum(self.plan, dict(self.values), dict(self.bounds), False, reason=f"stage {name}: {ended}")

    def _taken(self, name: str, answer: StageAnswer) -> Allocation | None:
        """The plan of an answer; None where it bought something with a held value, which now has less slack: once."""
        plan = self._recomputed(name, answer)
        broken = self._broken_by(plan)
        if not broken:
            return plan
        if self.slack == SLACKS[-1]:
            raise SolveFailed(f"stage {name}: {broken}")
        self.slack = SLACKS[-1]
        for held in dict.fromkeys((*self.holds, *self.values)):
            self._hold(held)
        return None

    def _recomputed(self, name: str, answer: StageAnswer) -> Allocation:
        """The plan of the solver's rounded replica counts, evaluated; its value must be what the solver states."""
        counts = self.session.integers(self.n.values())
        replicas: dict[Name, int] = {self.problem.configurations[k].name: count for k, count in counts.items()}
        plan = evaluate(self.problem, replicas)
        exact, stated = value_of(plan, name), answer.value
        if stated is None or not abs(exact - stated) <= AGREEMENT * max(1.0, abs(exact)):
            raise SolveFailed(f"stage {name}: the solver says {stated}, its plan gives {exact}")
        return plan

    def _broken_by(self, plan: Allocation) -> str:
        """The first held value or limit from outside that a plan goes past, in words; "" when it keeps all."""
        held = [(k, v - self.eta if k == "min_fulfilment" else v) for k, v in self.values.items()]
        for name, kept in [*held, *self.holds.items()]:
            if not within(name, value_of(plan, name), kept):
                return f"its plan has {name} {value_of(plan, name)}, held at {kept}"
        return ""

    def _hold(self, name: str) -> None:
        """Hold a stage at its exact value (min fulfilment less eta) and at a limit from outside, ties included."""
        if name not in self.table:
            return
        sign = 1.0 if name in MAXIMISED else -1.0
        limits = [self.values[name]] if name in self.values else []
        if name in self.holds:
            limits.append(self.holds[name] + (self.eta if name == "min_fulfilment" else 0.0))
        limit = max(limits) if name in MAXIMISED else min(limits)
        stage = self.table[name]
        slack = 0.5 if name in INTEGRAL else self.slack * max(1.0, abs(limit))
        stage.limit.set_value(limit - sign * slack)
        self.session.hold(stage.hold)
        if name == "min_fulfilment" and self.reach is not None:
            self.reach.hold(self.session, limit - self.eta - slack)

    def _known(self, name: str) -> float | None:
        """The best value of a stage where no solve is needed to know it."""
        if self.plan is None:
            return None if name in self.table else _fixed_value(name)
        value = value_of(self.plan, name)
        if name not in self.table or (name == "nodes" and "gpus" in self.values and _gpus_give_nodes(self.problem)):
            return value
        best = self._unbeatable(name)
        return value if best is not None and not _worse(name, value, best) else None

    def _unbeatable(self, name: str) -> float | None:
        """What no plan of any fleet beats in a stage; None where there is no such value."""
        if name == "goodput":
            return math.fsum(c.demand_rps for c in served_classes(self.problem))
        if name == "min_fulfilment":
            counted = [c for c in self.problem.classes if c.in_minimum and c.demand_rps > 0.0]
            return 1.0 if all(self.problem.configurations_of[c.name] for c in counted) else 0.0
        return 0.0 if name == "shortfall" else None

    def _outward(self, name: str, bound: float) -> float:
        """A dual bound, rounded so that it stays one: past the solver's tolerances and the exact value in hand, never
        past what cannot be beaten. (HiGHS's own bounds have been seen 8e-9 on the wrong side.)
        """
        exact, best = self.values.get(name), self._unbeatable(name)
        if name in INTEGRAL:
            return float(math.ceil(bound - max(AGREEMENT, tolerance(bound))))
        if name in MAXIMISED:
            bound += SLACKS[0] * max(1.0, abs(bound))
            bound = bound if exact is None else max(bound, exact)
            return bound if best is None else min(bound, best)
        bound -= SLACKS[0] * max(1.0, abs(bound))
        bound = bound if exact is None else min(bound, exact)
        return max(bound, 0.0)


def _fixed_value(name: str) -> float:
    """The value of a stage that is the same for every plan: no class in the minimum has 1, all else is 0."""
    return 1.0 if name == "min_fulfilment" else 0.0


def _worse(name: str, value: float, than: float, by: float = 0.0) -> bool:
    slack = by * max(1.0, abs(than))
    return value < than - slack if name in MAXIMISED else value > than + slack


def within(name: str, value: float, limit: float) -> bool:
    """Whether a value keeps a limit, ties and the solver's own tolerance included."""
    return not _worse(name, value, limit, 10.0 * tolerance(1.0))


def _gpus_give_nodes(problem: FleetProblem) -> bool:
    """Whether the nodes touched follow from the GPUs in use: one pool is used, and counting its GPUs is enough."""
    used = {q.pool for qs in problem.configurations_of.values() for q in qs}
    if len(used) != 1:
        return False
    pool = problem.pool_by_name[used.pop()]
    return counting_is_enough(pool, [q.gpus for qs in problem.configurations_of.values() for q in qs])


def infeasible(reason: str) -> Optimum:
    """The answer that no plan exists, and why."""
    return Optimum(None, {}, {}, proven=True, infeasible=True, reason=reason)
