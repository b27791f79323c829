"""A fleet decision and its exact evaluation, without a solver.

`evaluate` recomputes everything that is promised of a plan from its replica counts alone: x_i = min(λ_i, Σ_q c_q n_q),
fulfilment, shortfall, GPUs, nodes, and every constraint. Both engines (the MILP and the frontier) answer through it, so a
number in a certificate never comes from a solver's floating-point solution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

from fleetsieve_models.placement import fewest_nodes
from fleetsieve_models.problem import STAGES as STAGES
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool, Name

from fleetsieve.brief import counted, summary
from fleetsieve.errors import SolveFailed
from fleetsieve.interval import lower_text

TIE = 1e-9
"""Two values of a stage closer than this (relative to max(1, |value|)) are a tie: below it, floats carry no order."""

ROUNDED = 1e-6
"""A floor missed by no more than this part of it counts as met: figures in files are rounded, and 3 x 3.333333 is meant as 10.

This decides verdicts (`floor_met`): what counts as met is never called infeasible, and what does not is never called feasible. It
changes no figure: a shortfall is that of the floor as it is.
"""

MAXIMISED = frozenset({"min_fulfilment", "goodput", "spare"})


@dataclass(frozen=True, slots=True)
class ClassAllocation:
    """What one class gets: `replicas` of one configuration, or none (configuration None, replicas 0)."""

    class_name: str
    demand_rps: float
    configuration: Configuration | None
    replicas: int

    @property
    def capacity_rps(self) -> float:
        """Σ_q c_q n_q in requests/s."""
        return self.configuration.capacity_rps * self.replicas if self.configuration else 0.0

    @property
    def served_rps(self) -> float:
        """x_i = min(λ_i, Σ_q c_q n_q) in requests/s."""
        return min(self.demand_rps, self.capacity_rps)

    @property
    def fulfilment(self) -> float:
        """r_i = x_i / λ_i in [0, 1]; 1 when the class demands nothing."""
        return self.served_rps / self.demand_rps if self.demand_rps > 0.0 else 1.0

    @property
    def utilisation(self) -> float:
        """x_i / Σ_q c_q n_q in [0, 1]; 0 without replicas."""
        return self.served_rps / self.capacity_rps if self.capacity_rps > 0.0 else 0.0

    @property
    def sentence(self) -> str:
        """The class in one line: "chat TP4 r8 x2 serves 16.000 of 16 requests/s"."""
        place = (
            f"{self.configuration.name} x{self.replicas} serves" if self.configuration else f"{self.class_name}: none,"
        )
        return f"{place} {lower_text(self.served_rps)} of {self.demand_rps:g} requests/s"

    @property
    def gpus(self) -> int:
        """GPUs that the class occupies."""
        return self.configuration.gpus * self.replicas if self.configuration else 0


@dataclass(frozen=True)
class Allocation:
    """A plan for the fleet under one realisation; every figure derives from the replica counts."""

    problem: FleetProblem = field(repr=False)
    classes: tuple[ClassAllocation, ...]

    def __repr__(self) -> str:
        goodput, least = lower_text(self.goodput_rps), lower_text(self.min_fulfilment)
        return summary(
            f"Allocation: {goodput} requests/s on {counted(self.gpus_used, 'GPU')}, min fulfilment {least}",
            [class_plan.sentence for class_plan in self.classes],
        )

    @cached_property
    def replica_counts(self) -> Mapping[Name, int]:
        """n_q of the configurations in use."""
        return MappingProxyType({c.configuration.name: c.replicas for c in self.classes if c.configuration})

    @cached_property
    def shortfall(self) -> float:
        """Σ over critical i of p_i max(0, δ_i - r_i): 0 when every floor is met."""
        return math.fsum(
            demand.priority * max(0.0, demand.floor - class_plan.fulfilment)
            for demand, class_plan in zip(self.problem.classes, self.classes, strict=True)
            if demand.floor is not None
        )

    @cached_property
    def min_fulfilment(self) -> float:
        """min_i r_i over the classes that count in the minimum; 1 when none does."""
        counted = (
            class_plan.fulfilment
            for demand, class_plan in zip(self.problem.classes, self.classes, strict=True)
            if demand.in_minimum
        )
        return min(counted, default=1.0)

    @cached_property
    def goodput_rps(self) -> float:
        """Σ_i x_i in requests/s."""
        return math.fsum(c.served_rps for c in self.classes)

    @cached_property
    def gpus_used(self) -> int:
        """GPUs in use over all pools."""
        return sum(c.gpus for c in self.classes)

    @cached_property
    def nodes_touched(self) -> int:
        """The fewest nodes that can host the plan, over the pools that have nodes."""
        return sum(
            fewest_nodes(pool, sizes) or 0
            for pool, sizes in replica_sizes(self.problem, self.replica_counts).items()
            if pool.gpus_per_node is not None
        )

    @cached_property
    def spare_rps(self) -> float:
        """Σ_i Σ_q c_q n_q: the capacity that is ready, in requests/s."""
        return math.fsum(c.capacity_rps for c in self.classes)

    @cached_property
    def replicas(self) -> int:
        """Replicas over all classes."""
        return sum(c.replicas for c in self.classes)

    @cached_property
    def order(self) -> int:
        """Σ_q (place of q in the fixed order of names, from 1) x n_q: breaks the last ties."""
        counts = self.replica_counts
        return sum(place * counts.get(q.name, 0) for place, q in enumerate(self.problem.configurations, start=1))

    def value(self, stage: str) -> float:
        """The value of one of STAGES."""
        values = {
            "shortfall": "shortfall", "min_fulfilment": "min_fulfilment", "goodput": "goodput_rps", "gpus": "gpus_used",
            "nodes": "nodes_touched", "spare": "spare_rps", "replicas": "replicas", "order": "order",
        }  # fmt: skip
        return float(getattr(self, values[stage]))


@dataclass(frozen=True, slots=True)
class Optimum:
    """What an engine found and what it proved.

    `values` holds, for each stage solved, its value at the end of that stage, recomputed exactly; `bounds` what no plan can
    beat in that stage (given the stages held before it), or None where nothing was proven. `proven` states that every stage
    was solved to optimality; `allocation` is None when there is no plan, and `infeasible` states that this is proven too.
    """

    allocation: Allocation | None
    values: Mapping[str, float]
    bounds: Mapping[str, float | None]
    proven: bool
    infeasible: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """By how much critical floors are missed: GPUs short per pool, or requests/s lacking per class without them.

    `unservable` are the critical classes without any configuration, whatever the number of GPUs. Of the plans that lack least in
    all, weighted by priority, it is one that lacks least in the first class, then in the second, and so on.
    """

    gpus: Mapping[str, int]
    lacking_rps: Mapping[str, float]
    unservable: tuple[str, ...]


def lacking_rps(critical: Iterable[ClassDemand], served_rps: Mapping[str, float]) -> dict[str, float]:
    """What each class lacks of its floor (requests/s), of those of `served_rps` that miss it by more than rounding."""
    stated = {c.name: (c.floor or 0.0, c.demand_rps) for c in critical if c.name in served_rps}
    return {
        name: floor * demand - served_rps[name]
        for name, (floor, demand) in stated.items()
        if not floor_met(floor, served_rps[name] / demand)
    }


class Engine(Protocol):
    """What solves the fleet decision: the MILP under HiGHS (`solving`), the frontier, or whichever of them fits (`engines`)."""

    @property
    def name(self) -> str:
        """What a certificate calls it."""
        ...

    def accepts(self, problem: FleetProblem) -> bool:
        """Whether the problem is one that it solves."""
        ...

    def optimise(
        self,
        problem: FleetProblem,
        stages: Sequence[str] = STAGES,
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = MappingProxyType({}),
    ) -> Optimum:
        """Solve `stages` in order, each with the earlier ones held (min fulfilment with slack `eta` >= 0).

        `holds` gives limits from outside: {"shortfall": at most, "min_fulfilment": at least}; they hold in every stage
        and take no slack.
        """
        ...


def floor_met(floor: float, fulfilment: float) -> bool:
    """Whether a fulfilment keeps a floor (both fractions), as verdicts have it (see `ROUNDED`)."""
    return fulfilment >= floor * (1.0 - ROUNDED) - TIE


def floors_met(plan: Allocation) -> bool:
    """Whether a plan keeps every critical floor, whatever the priorities: a small one can make the shortfall as small."""
    return all(
        demand.floor is None or floor_met(demand.floor, class_plan.fulfilment)
        for demand, class_plan in zip(plan.problem.classes, plan.classes, strict=True)
    )


def rounded_floors(problem: FleetProblem) -> FleetProblem:
    """The problem with the least floors that count as met."""
    classes = tuple(c if c.floor is None else replace(c, floor=c.floor * (1.0 - ROUNDED)) for c in problem.classes)
    return replace(problem, classes=classes)


def tolerance(value: float) -> float:
    """How far a value of a stage may be from `value` and still be a tie with it."""
    return TIE * max(1.0, abs(value))


def evaluate(problem: FleetProblem, replicas: Mapping[Name, int]) -> Allocation:
    """The exact evaluation of a plan given as replicas per configuration (absent means 0).

    Raises:
        SolveFailed: when the plan breaks a constraint: two configurations of one class, more GPUs than a pool has, a
            replica that no node can host, a negative count or a configuration that the problem lacks.
    """
    chosen = {name: count for name, count in replicas.items() if count != 0}
    known = {q.name: q for q in problem.configurations}
    faults = [f"{name} is no configuration of this problem" for name in chosen if name not in known]
    faults += [f"{name} has {count} replicas" for name, count in chosen.items() if count < 0]
    if faults:
        raise SolveFailed("the plan cannot be evaluated: " + "; ".join(faults))
    by_class: dict[str, list[Configuration]] = {c.name: [] for c in problem.classes}
    for name in chosen:
        by_class[known[name].class_name].append(known[name])
    faults = [
        f"class {name} uses {len(qs)} configurations ({', '.join(str(q.name) for q in qs)}), not at most one"
        for name, qs in by_class.items()
        if len(qs) > 1
    ]
    for pool, sizes in replica_sizes(problem, chosen).items():
        used = sum(size * count for size, count in sizes.items())
        if used > pool.gpus:
            faults.append(f"pool {pool.name} has {pool.gpus} GPUs, the plan uses {used}")
        elif pool.gpus_per_node is not None and fewest_nodes(pool, sizes) is None:
            shape = ", ".join(f"{count} of {size} GPUs" for size, count in sorted(sizes.items(), reverse=True))
            faults.append(f"pool {pool.name}: nodes of {pool.gpus_per_node} GPUs cannot host the replicas ({shape})")
    if faults:
        raise SolveFailed("the plan breaks a constraint: " + "; ".join(faults))
    class_plans = []
    for c in problem.classes:
        q = by_class[c.name][0] if by_class[c.name] else None
        class_plans.append(ClassAllocation(c.name, c.demand_rps, q, chosen[q.name] if q else 0))
    return Allocation(problem, tuple(class_plans))


def replica_sizes(problem: FleetProblem, replicas: Mapping[Name, int]) -> dict[GpuPool, Counter[int]]:
    """For each pool, how many replicas of each size (in GPUs) the plan puts there."""
    sizes: dict[GpuPool, Counter[int]] = {pool: Counter() for pool in problem.pools}
    by_name = problem.pool_by_name
    for q in problem.configurations:
        if replicas.get(q.name, 0):
            sizes[by_name[q.pool]][q.gpus] += replicas[q.name]
    return sizes
