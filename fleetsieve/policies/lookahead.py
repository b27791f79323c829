"""What the fleet decision would be after an imagined outcome: shared by the policies that weigh decisions.

Each class contributes a part: its curves under θ- and θ+, how much its arms could still add (φ), and whether it is open. An
outcome renews the part of one class, and the gap follows from all parts. The frontier computes it; several pools are scored as
one, and placement on nodes is ignored: that is a guess about usefulness, never a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from fleetsieve_models.problem import STAGES, Configuration, FleetProblem, GpuPool, Name
from numpy.typing import NDArray

from fleetsieve.allocation import Allocation
from fleetsieve.belief import ClassBelief
from fleetsieve.certificate.gap import Gap, frontier_gap
from fleetsieve.certificate.rule import blocking_stage, meets_floors
from fleetsieve.envelope import ClassEnvelope, Envelope, class_configurations, class_demand
from fleetsieve.frontier import Curve, Frontier, curve, greatest_goodput, greatest_min_fulfilment, least_shortfall
from fleetsieve.instance import ArmKey, CellKey
from fleetsieve.prior import Predictions

OF_THE_BOUND = 0.4
"""The share of its upper capacity that a cell is expected to reach before anything was measured."""

KAPPA = 0.7
"""Below 1, so that closing one class counts for more than narrowing two."""


@dataclass(frozen=True)
class Part:
    """What one class contributes: its curves under both ends, Σ_arms φ_a, and whether it is open."""

    low: Curve
    high: Curve
    potential: float
    open: bool


class Lookahead:
    """The parts of all classes now, and after one class has changed."""

    def __init__(self, envelope: Envelope, eta: float, epsilon: float, prior: Predictions | None = None) -> None:
        self.envelope, self.eta, self.epsilon, self.prior = envelope, eta, epsilon, prior
        self._instance = envelope.instance
        self._gpus = envelope.instance.fleet.gpus
        self._beliefs: dict[str, ClassBelief] = {}
        self._most = max(1, self._gpus - len(envelope.classes) + 1)
        self.parts: Mapping[str, Part] = {name: self._part(own) for name, own in envelope.classes.items()}

    def hint_rps(self, name: str) -> float:
        """What a replica in the middle of a class's grid may serve: a part of what the bounds allow, where they say something.

        Otherwise the capacity with which an equal share of the GPUs would just serve the demand.
        """
        own = self.envelope.classes[name]
        tops = [b.capacity_rps.hi for b in own.bounds.values()]
        if all(0.0 < top < math.inf for top in tops):
            return OF_THE_BOUND * math.exp(math.fsum(map(math.log, tops)) / len(tops))
        share = self._gpus / len(self.envelope.classes)
        gpus = [cell.gpus for cells in own.view.arms.values() for cell in cells]
        hint = own.view.workload.demand_rps / share * (sum(gpus) / len(gpus))
        return hint if hint > 0.0 else 1.0

    def belief(self, name: str) -> ClassBelief:
        """The belief about one class."""
        if name not in self._beliefs:
            self._beliefs[name] = ClassBelief(self.envelope.classes[name], self.hint_rps(name), self.prior)
        return self._beliefs[name]

    def outcomes(self, key: CellKey, quantiles: Sequence[float]) -> Iterator[tuple[float, Mapping[str, Part]]]:
        """What a look at a cell may lead to: probability and parts."""
        for outcome in self.belief(key.class_name).outcomes(self.envelope[key], quantiles):
            yield outcome.probability, self.after(self.envelope.with_known(outcome.known), key)

    def potential(self, key: CellKey) -> float:
        """How much one cell could still add: φ of the cell alone."""
        own = self.envelope.classes[key.class_name]
        demand = own.view.workload.demand_rps
        if demand <= 0.0:
            return 0.0
        alone = [q for q in class_configurations(self._instance, own, lower=False) if q.name == key]
        committed = self._reach(class_configurations(self._instance, own, lower=True), demand)
        return self._added(alone, committed, demand)

    def after(self, envelope: Envelope, key: CellKey) -> Mapping[str, Part]:
        """The parts when the class of `key` is as in `envelope`."""
        return {**self.parts, key.class_name: self._part(envelope.classes[key.class_name])}

    def gap(self, parts: Mapping[str, Part]) -> tuple[Gap, float]:
        """The stage gaps of these parts, and S-.

        The frontier takes MM- as m*, and a plan may give up to η of that for goodput: where this decides, the plan itself is asked.
        """
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
        # The shortfall does not tell whether floors are met: a small priority makes it as small. The plan does.
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

    def _part(self, own: ClassEnvelope) -> Part:
        workload = own.view.workload
        lower = class_configurations(self._instance, own, lower=True)
        upper = class_configurations(self._instance, own, lower=False)
        demand = class_demand(own)
        potential = 0.0
        if workload.demand_rps > 0.0:
            committed = self._reach(lower, workload.demand_rps)
            arms: dict[ArmKey, list[Configuration]] = {}
            for q in upper:
                key = q.name
                assert isinstance(key, CellKey)
                arms.setdefault(own.bounds[key].cell.arm, []).append(q)
            for configurations in arms.values():
                potential += self._added(configurations, committed, workload.demand_rps)
        return Part(curve(demand, lower, self._gpus), curve(demand, upper, self._gpus), potential, own.open)

    def _added(self, more: Sequence[Configuration], committed: NDArray[np.float64], demand_rps: float) -> float:
        """What `more` add to F_i-(k), the reach of what is committed, averaged over the GPUs that the class may get."""
        added = np.maximum(0.0, self._reach(more, demand_rps) - committed)
        return float(added.sum()) / (demand_rps * self._most)

    def _reach(self, configurations: Sequence[Configuration], demand_rps: float) -> NDArray[np.float64]:
        """F(k) for k = 1..K."""
        k = np.arange(1, self._most + 1)
        best = np.zeros(self._most)
        per_size: dict[int, float] = {}
        for q in configurations:
            per_size[q.gpus] = max(per_size.get(q.gpus, 0.0), q.capacity_rps)
        for gpus, capacity in per_size.items():
            np.maximum(best, np.minimum(demand_rps, capacity * (k // gpus)), out=best)
        return best
