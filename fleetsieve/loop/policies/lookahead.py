"""What the fleet decision would be after an simulated outcome: shared by the policies that weigh decisions.

Each class contributes a part: its curves under θ- and θ+, how much its arms could still add (φ), and whether it is open. An
outcome renews one arm, so the part of one class, and the gap follows from all parts. The frontier computes it; several pools are
scored as one, and placement on nodes is ignored: that is a guess about usefulness, never a bound.

Outcomes are many (four for each cell that waits) and most are alike: a part is known by the configurations of its arms that
some plan may use, so what has been computed of one is not computed again.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from fleetsieve_models.problem import NOTHING, STAGES, ClassDemand, Configuration, FleetProblem, GpuPool, Name
from numpy.typing import NDArray

from fleetsieve.allocation import Allocation, tolerance
from fleetsieve.bounds.cell_bounds import End
from fleetsieve.bounds.envelope import ClassEnvelope, Envelope, demand_of, fits
from fleetsieve.bounds.statistics import KnownCell
from fleetsieve.certificate.gap import Gap, frontier_gap
from fleetsieve.certificate.rule import blocking_stage, meets_floors
from fleetsieve.engines.frontier import (
    Curve,
    Frontier,
    curve,
    greatest_goodput,
    greatest_min_fulfilment,
    least_shortfall,
)
from fleetsieve.instance import ArmKey, Cell, CellKey
from fleetsieve.loop.belief import ClassBelief
from fleetsieve.loop.predictions import Predictions

OF_THE_BOUND = 0.4
"""The share of its upper capacity that a cell is expected to reach before anything was measured."""

KAPPA = 0.7
"""Below 1, so that closing one class counts for more than narrowing two."""


@dataclass(frozen=True, eq=False)
class Part:
    """What one class contributes: its curves under both ends, Σ_arms φ_a, and whether it is open."""

    low: Curve
    high: Curve
    potential: float
    open: bool


Floats = NDArray[np.float64]
Usable = tuple[tuple[int, Configuration], ...]
"""Configurations that some plan may use, and the places of their cells among those of the class."""


@dataclass(frozen=True, eq=False)
class ArmPart:
    """What one arm contributes under θ- and θ+; `first` is the place of its first cell that is not ruled out.

    `committed` and `hoped` are F(k), what the arm serves on k GPUs at most; `servable` and `committed_choice` state whether some
    cell serves requests under θ+, and some cell that can be committed does.
    """

    lower: Usable
    upper: Usable
    committed: Floats
    hoped: Floats
    first: int
    servable: bool
    committed_choice: bool


class Lookahead:
    """The parts of all classes now, and after one class has changed."""

    def __init__(self, envelope: Envelope, eta: float, epsilon: float, prior: Predictions | None = None) -> None:
        self.envelope, self.eta, self.epsilon, self.prior = envelope, eta, epsilon, prior
        self._instance = envelope.instance
        self._gpus = envelope.instance.fleet.gpus
        self._beliefs: dict[str, ClassBelief] = {}
        self._max_gpus = max(1, self._gpus - len(envelope.classes) + 1)
        self._places = {
            key: place
            for class_envelope in envelope.classes.values()
            for place, key in enumerate(sorted(class_envelope.bounds), start=1)
        }
        self._known_parts: dict[Hashable, Part] = {}
        self._known_gaps: dict[tuple[Part, ...], tuple[Gap, float]] = {}
        self._arms = {name: self._arm_parts(class_envelope) for name, class_envelope in envelope.classes.items()}
        self.parts: Mapping[str, Part] = {name: self._part(name, arms) for name, arms in self._arms.items()}

    def hint_rps(self, name: str) -> float:
        """What a replica in the middle of a class's grid may serve: a part of what the bounds allow, where they state something.

        Otherwise the capacity with which an equal share of the GPUs would just serve the demand.
        """
        class_envelope = self.envelope.classes[name]
        tops = [b.capacity_rps.hi for b in class_envelope.bounds.values()]
        if all(0.0 < top < math.inf for top in tops):
            return OF_THE_BOUND * math.exp(math.fsum(map(math.log, tops)) / len(tops))
        share = self._gpus / len(self.envelope.classes)
        gpus = [cell.gpus for cells in class_envelope.view.arms.values() for cell in cells]
        hint = class_envelope.view.workload.demand_rps / share * (sum(gpus) / len(gpus))
        return hint if hint > 0.0 else 1.0

    def belief(self, name: str) -> ClassBelief:
        """The belief about one class."""
        if name not in self._beliefs:
            self._beliefs[name] = ClassBelief(self.envelope.classes[name], self.hint_rps(name), self.prior)
        return self._beliefs[name]

    def outcomes(self, key: CellKey, quantiles: Sequence[float]) -> Iterator[tuple[float, Mapping[str, Part]]]:
        """What a measurement of a cell may lead to: probability and parts."""
        for outcome in self.belief(key.class_name).outcomes(self.envelope[key], quantiles):
            yield outcome.probability, self.after(outcome.known)

    def potential(self, key: CellKey) -> float:
        """How much one cell could still add: φ of the cell alone."""
        b, demand = self.envelope[key], self.envelope.classes[key.class_name].view.workload.demand_rps
        if demand <= 0.0 or not b.possible:
            return 0.0
        alone = self._reach([(b.cell.gpus, self._upper_rps(b.capacity_rps.hi, demand))], demand)
        return self._added(alone, self._committed(self._arms[key.class_name]), demand)

    def after(self, known: KnownCell) -> Mapping[str, Part]:
        """The parts if `known` were what is known of its cell."""
        name = known.key.class_name
        if self.envelope.across_arms:
            arms = self._arm_parts(self.envelope.with_known(known).classes[name])
        else:
            ends = self.envelope.ends_with(known)
            arms = {**self._arms[name], ends[0].cell.arm: self._arm_part(self.envelope.classes[name], ends)}
        return {**self.parts, name: self._part(name, arms)}

    def gap(self, parts: Mapping[str, Part]) -> tuple[Gap, float]:
        """The stage gaps of these parts, and S-.

        The frontier takes MM- as m*, and a plan may give up to η of that for goodput: where this decides, the plan itself is asked.
        """
        kinds = tuple(parts.values())
        if kinds not in self._known_gaps:
            self._known_gaps[kinds] = self._gap(parts)
        return self._known_gaps[kinds]

    def _gap(self, parts: Mapping[str, Part]) -> tuple[Gap, float]:
        low = [p.low for p in parts.values()]
        gap, shortfall = frontier_gap(low, [p.high for p in parts.values()], self._gpus, self.eta)
        if gap.largest <= self.epsilon < gap.min_fulfilment + self.eta:
            plan = self._plan(parts)
            given = (
                greatest_min_fulfilment(low, self._gpus, shortfall) - plan.min_fulfilment if plan is not None else 0.0
            )
            gap = replace(gap, min_fulfilment=gap.min_fulfilment + max(0.0, given))
        return gap, shortfall

    def certified(self, parts: Mapping[str, Part], gap: Gap) -> bool:
        """Whether these parts certify feasibility, by the rule of certificates."""

        def blocked(*, floors_met: bool) -> str:
            unclear = any(p.open for p in parts.values())
            return blocking_stage(gap, floors_met=floors_met, open_classes=unclear, epsilon=self.epsilon)

        if blocked(floors_met=True):
            return False
        # The shortfall does not show whether floors are met: a small priority makes it as small. The plan does.
        critical = any(p.low.demand.floor is not None for p in parts.values())
        plan = self._plan(parts) if critical else None
        return not critical or (plan is not None and not blocked(floors_met=meets_floors(plan)))

    def total_gap(self, parts: Mapping[str, Part]) -> float:
        """The sum of the stage gaps."""
        return self.gap(parts)[0].total

    def value(self, parts: Mapping[str, Part]) -> float:
        """What the committed plan achieves under θ-: min fulfilment + goodput / Σλ - shortfall."""
        low = [p.low for p in parts.values()]
        shortfall = least_shortfall(low, self._gpus)
        best = greatest_min_fulfilment(low, self._gpus, shortfall)
        goodput = greatest_goodput(low, self._gpus, best - self.eta, shortfall)
        total = math.fsum(c.demand.demand_rps for c in low)
        return best + (goodput / total if total > 0.0 else 0.0) - shortfall

    def choice(self, parts: Mapping[str, Part]) -> Mapping[Name, int]:
        """The committed plan under θ-: replicas per configuration."""
        plan = self._plan(parts)
        return plan.replica_counts if plan is not None else {}

    def _plan(self, parts: Mapping[str, Part]) -> Allocation | None:
        low = [p.low for p in parts.values()]
        pool = GpuPool("all", self._gpus)
        demands = tuple(c.demand for c in low)
        options = tuple(replace(q, pool=pool.name) for c in low for q in c.options.values())
        return Frontier().optimise(FleetProblem(demands, options, (pool,)), STAGES[:3], eta=self.eta).allocation

    def gamma(self, parts: Mapping[str, Part]) -> float:
        """Γ: 0 when certified, else the stage gaps + Σ_i (Σ_{arms a of i} φ_a)^κ."""
        gap, _ = self.gap(parts)
        if self.certified(parts, gap):
            return 0.0
        return gap.total + math.fsum(p.potential**KAPPA for p in parts.values())

    def _part(self, name: str, arms: Mapping[ArmKey, ArmPart]) -> Part:
        workload = self.envelope.classes[name].view.workload
        servable = any(arm.servable for arm in arms.values())
        opened = workload.demand_rps > 0.0 and servable and not any(arm.committed_choice for arm in arms.values())
        demand = demand_of(workload, servable=servable)
        kind = (demand, opened, tuple((arm.lower, arm.upper, arm.first) for arm in arms.values()))
        if kind not in self._known_parts:
            self._known_parts[kind] = Part(
                self._curve(demand, [q for arm in arms.values() for q in arm.lower]),
                self._curve(demand, [q for arm in arms.values() for q in arm.upper]),
                self._potentials(arms, demand.demand_rps),
                opened,
            )
        return self._known_parts[kind]

    def _curve(self, demand: ClassDemand, usable: Iterable[tuple[int, Configuration]]) -> Curve:
        ordered = sorted(usable, key=lambda one: one[0])
        return curve(demand, [q for _, q in ordered], self._gpus, [place for place, _ in ordered])

    def _potentials(self, arms: Mapping[ArmKey, ArmPart], demand_rps: float) -> float:
        """Σ φ_a over the arms that have a cell which is not ruled out, in the order of these cells."""
        if demand_rps <= 0.0:
            return 0.0
        committed, potential = self._committed(arms), 0.0
        for arm in sorted((arm for arm in arms.values() if arm.upper), key=lambda arm: arm.first):
            potential += self._added(arm.hoped, committed, demand_rps)
        return potential

    def _committed(self, arms: Mapping[ArmKey, ArmPart]) -> Floats:
        """F_i-(k), the reach of what is committed."""
        best: Floats = np.maximum.reduce([np.zeros(self._max_gpus), *(arm.committed for arm in arms.values())])
        return best

    def _arm_parts(self, class_envelope: ClassEnvelope) -> dict[ArmKey, ArmPart]:
        return {
            arm: self._arm_part(class_envelope, [End.of(class_envelope.bounds[cell.key]) for cell in cells])
            for arm, cells in class_envelope.view.arms.items()
        }

    def _arm_part(self, class_envelope: ClassEnvelope, ends: Sequence[End]) -> ArmPart:
        """What the cells of an arm contribute: of those that are alike the first, of those of one size the best."""
        demand, utilisation = class_envelope.view.workload.demand_rps, self._instance.fleet.max_utilisation
        pool, something = class_envelope.view.pools[ends[0].cell.key.pool], NOTHING * demand
        lower: dict[tuple[int, float], Cell] = {}
        upper: dict[tuple[int, float], Cell] = {}
        servable = committed_choice = False
        places = self._places
        for cell, low, high in sorted(ends, key=lambda end: places[end.cell.key]):
            if low is not None:
                lower.setdefault((cell.gpus, low * utilisation), cell)
                committed_choice = committed_choice or (low > something and fits(cell, pool))
            if high is not None:
                upper.setdefault((cell.gpus, self._upper_rps(high, demand)), cell)
                servable = servable or (high > something and fits(cell, pool))
        return ArmPart(
            self._usable(lower, demand),
            self._usable(upper, demand),
            self._reach(lower, demand),
            self._reach(upper, demand),
            min((places[cell.key] for cell in upper.values()), default=0),
            servable,
            committed_choice,
        )

    def _usable(self, cells: Mapping[tuple[int, float], Cell], demand_rps: float) -> Usable:
        """Those that no other one of their size beats by more than a tie, with their capacities."""
        largest: dict[int, float] = {}
        for gpus, capacity in cells:
            largest[gpus] = max(largest.get(gpus, 0.0), capacity)
        slack = 2.0 * tolerance(demand_rps)
        return tuple(
            (self._places[cell.key], Configuration(cell.key, cell.key.class_name, gpus, capacity, cell.key.pool))
            for (gpus, capacity), cell in cells.items()
            if capacity >= largest[gpus] - slack
        )

    def _upper_rps(self, capacity_rps: float, demand_rps: float) -> float:
        """An upper capacity as a plan counts it (see `envelope.class_configurations`)."""
        return min(capacity_rps * self._instance.fleet.max_utilisation, demand_rps)

    def _added(self, reached: Floats, committed: Floats, demand_rps: float) -> float:
        """What a reach adds to that of what is committed, averaged over the GPUs that the class may get."""
        return float(np.maximum(0.0, reached - committed).sum()) / (demand_rps * self._max_gpus)

    def _reach(self, usable: Iterable[tuple[int, float]], demand_rps: float) -> Floats:
        """F(k) for k = 1..K of configurations given as GPUs and requests/s of a replica."""
        best = np.zeros(self._max_gpus)
        per_size: dict[int, float] = {}
        for gpus, capacity in usable:
            per_size[gpus] = max(per_size.get(gpus, 0.0), capacity)
        for gpus, capacity in per_size.items():
            np.maximum(best, np.minimum(demand_rps, capacity * (np.arange(1, self._max_gpus + 1) // gpus)), out=best)
        return best
