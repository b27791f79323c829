"""One MILP, solved stage by stage; nothing that the solver says of a plan is believed before it is recomputed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fleetsieve_models.placement import counting_is_enough
from fleetsieve_models.problem import FleetProblem, Name
from fleetsieve_models.selection import served_classes
from fleetsieve_models.stages import Stage

from fleetsieve.allocation import MAXIMISED, Allocation, Optimum, evaluate, tolerance
from fleetsieve.errors import SolveFailed
from fleetsieve.solving.highs import Answer, Ending, Session

AGREEMENT = 1e-6
"""How far the solver's value of a stage may be from the exact one, relative to max(1, |value|)."""

INTEGRAL = frozenset({"gpus", "nodes", "replicas", "order"})
"""Stages whose values are whole numbers: a bound on them is rounded to the next one."""


def value_of(plan: Allocation, stage: str) -> float:
    """The exact value of a stage of `allocation.STAGES`, or of `price` (per hour, of the GPUs in use)."""
    if stage != "price":
        return plan.value(stage)
    price = {p.name: p.price_per_gpu_h for p in plan.problem.pools}
    return math.fsum(price[c.configuration.pool] * c.gpus for c in plan.classes if c.configuration)


class StagedSolve:
    """One staged solve under way: the plan in hand, what each stage gave, what is held.

    Takes the problem that plans are evaluated against, the session of its model, the stages that the model has, its
    replica variables n (indexed by the places of `problem.configurations`), the slack eta of the min fulfilment and
    limits from outside.
    """

    def __init__(
        self,
        problem: FleetProblem,
        session: Session,
        table: Mapping[str, Stage],
        n: Mapping[int, Any],
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.problem, self.session, self.table, self.n, self.eta, self.holds = problem, session, table, n, eta, holds
        self.plan: Allocation | None = None
        self.values: dict[str, float] = {}
        self.bounds: dict[str, float | None] = {}

    def solve(self, stages: Sequence[str]) -> Optimum:
        """Solve the stages in order; see `milp.Milp.optimise` for what comes back and what is raised."""
        for name, limit in self.holds.items():
            if name in self.table:
                _hold(self.session, self.table[name], _limit(name, None, limit, self.eta))
            elif not within(name, _fixed_value(name), limit):
                return infeasible(f"{name} is {_fixed_value(name):g} in every plan, not within {limit:g}")
        for name in stages:
            known = self._known(name)
            if known is not None:
                self.values[name] = self.bounds[name] = known
                continue
            answer = self.session.solve(self.table[name].objective)
            if answer.ending is Ending.INFEASIBLE:
                if self.plan is not None:
                    raise SolveFailed(f"stage {name} has no plan although the stage before it had one")
                return infeasible("no plan is within the limits")
            if answer.value is not None:
                self._accept(name, answer)
            if answer.ending is Ending.UNDECIDED:
                self.bounds[name] = None if answer.bound is None else self._outward(name, answer.bound)
                return self._optimum(proven=False, reason=f"stage {name}: {answer.reason}")
            limit = _limit(name, self.values[name], self.holds.get(name), self.eta)
            _hold(self.session, self.table[name], limit)
        return self._optimum(proven=True, reason="")

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
        if name == "goodput":
            return math.fsum(c.demand_rps for c in served_classes(self.problem))
        return {"shortfall": 0.0, "min_fulfilment": 1.0}.get(name)

    def _accept(self, name: str, answer: Answer) -> None:
        """Take the solver's plan, once everything promised of it is true of the rounded replica counts."""
        counts = self.session.integers(self.n.values())
        replicas: dict[Name, int] = {self.problem.configurations[k].name: count for k, count in counts.items()}
        plan = evaluate(self.problem, replicas)
        exact, told = value_of(plan, name), answer.value
        if told is None or not abs(exact - told) <= AGREEMENT * max(1.0, abs(exact)):
            raise SolveFailed(f"stage {name}: the solver says {told}, its plan gives {exact}")
        for earlier, value in self.values.items():
            kept = value - self.eta if earlier == "min_fulfilment" else value
            if not within(earlier, value_of(plan, earlier), kept):
                raise SolveFailed(f"stage {name}: its plan has {earlier} {value_of(plan, earlier)}, held at {kept}")
        for earlier, kept in self.holds.items():
            if not within(earlier, value_of(plan, earlier), kept):
                raise SolveFailed(f"stage {name}: its plan has {earlier} {value_of(plan, earlier)}, limited to {kept}")
        self.plan, self.values[name] = plan, exact
        if answer.ending is Ending.OPTIMAL:
            if answer.bound is None or _worse(name, answer.bound, exact, AGREEMENT):
                raise SolveFailed(f"stage {name}: the solver proves {answer.bound}, its plan gives {exact}")
            self.bounds[name] = self._outward(name, answer.bound)

    def _outward(self, name: str, bound: float) -> float:
        """A dual bound, rounded so that it stays one: past the exact value in hand, never past what cannot be beaten."""
        exact, best = self.values.get(name), self._unbeatable(name)
        if name in INTEGRAL:
            return float(math.ceil(bound - AGREEMENT * max(1.0, abs(bound))))
        if name in MAXIMISED:
            bound += tolerance(bound)
            bound = bound if exact is None else max(bound, exact)
            return bound if best is None else min(bound, best)
        bound -= tolerance(bound)
        bound = bound if exact is None else min(bound, exact)
        return max(bound, 0.0)

    def _optimum(self, *, proven: bool, reason: str) -> Optimum:
        plan = self.plan
        if plan is None and proven:
            plan = evaluate(self.problem, {})
        return Optimum(plan, dict(self.values), dict(self.bounds), proven, reason=reason)


def _hold(session: Session, stage: Stage, limit: float) -> None:
    stage.limit.set_value(limit)
    session.hold(stage.hold)


def _limit(name: str, exact: float | None, external: float | None, eta: float) -> float:
    """The limit to hold a stage at, ties included: its exact value (held with slack eta where it is the min fulfilment)
    and a limit from outside (without slack), whichever is the stricter; at least one of them is given.
    """
    slack = eta if name == "min_fulfilment" else 0.0
    sign = 1.0 if name in MAXIMISED else -1.0
    limits = [] if exact is None else [exact - sign * tolerance(exact)]
    limits += [] if external is None else [external - sign * tolerance(external) + sign * slack]
    return max(limits) if name in MAXIMISED else min(limits)


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
