"""A monotone relaxation R of "the cells S certify": whenever some subset of S certifies, R(S) holds.

The certificate itself is not monotone in what was measured: an assumption that the data contradict is dropped, and one more good
cell moves a near-tie in fulfilment. A proven lower bound of what a certificate costs needs a test that is, and that no certifying
set fails. Write θ-(S) for the lower realisation after measuring S, and θ+(S) for the upper one in which no assumption is ever
dropped and a measured cell too keeps to what the assumptions make of the others. Then θ-(S) rises and θ+(S) falls with S, and
θ+(S) is nowhere above the upper realisation of a certificate on S or less. With λ the total demand and ε the certificate's
tolerance, R(S) is

    S+(S) > 0                                      (then the instance is infeasible);  or
    a class has a committable cell after S and is unservable under θ+(S)  (the assumptions are wrong there);  or all of
    no class is open,  S-(S) = 0,                  and, with the shortfall held at 0,
    MM+(S) - m*(S) <= ε                            m*: the greatest min fulfilment under θ-(S)
    GP+(S; m*(S)) - GP-(S; MM+(S) - ε) <= ε λ      the greatest goodput with min fulfilment at least the second argument, under
                                                   θ+(S) and under θ-(S)

Claim. If S' ⊆ S certifies, R(S) holds.

Proof. Infeasible: S+ does not fall as θ+ falls. Feasible: no class is open after S', so the servable classes are those with a
committable cell in S', which they keep in S. If the second line is false they are servable under θ+(S), and no other class is,
since θ+(S) is no higher. Hence no class is open after S, and the minimum runs over the same classes. S-(S) <= S-(S') = 0.
MM+(S) <= MM+(S') and MM-(S') <= m*(S') <= m*(S), so MM+(S) - m*(S) <= MM+(S') - MM-(S') <= ε. GP+ after S' is held at
m*(S') <= m*(S) under a θ+ that is no lower, so it is at least GP+(S; m*(S)). The plan A- after S' has min fulfilment at least
MM+(S') - ε >= MM+(S) - ε and is a plan under θ-(S), so its goodput is at most GP-(S; MM+(S) - ε).                              []

It covers single measurements of cells, and of fleets of one pool where counting GPUs is enough to place replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from fleetsieve.allocation import ROUNDED, TIE
from fleetsieve.bounds.assumptions import CAPACITY, MEMORY, Assumption, ClassView, Contradiction, Limit
from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import Envelope, class_configurations, class_demand, envelop
from fleetsieve.engines.frontier import Curve, curve, greatest_goodput, greatest_min_fulfilment, least_shortfall
from fleetsieve.instance import ArmKey, CellKey, Instance, Measurement, Slo
from fleetsieve.interval import Interval


@dataclass(frozen=True)
class _Trusted:
    """An assumption that is never dropped."""

    assumption: Assumption

    @property
    def name(self) -> str:
        return self.assumption.name

    @property
    def across_arms(self) -> bool:
        return self.assumption.across_arms

    def describe(self) -> str:
        return self.assumption.describe()

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        return ()

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        return self.assumption.limits(view, holds)


@dataclass(frozen=True)
class _Part:
    low: Curve
    high: Curve
    open: bool
    torn: bool


class Relaxation:
    """R for one instance and its whole table."""

    def __init__(self, instance: Instance, table: Mapping[CellKey, Measurement]) -> None:
        """`table` has one measurement of each cell that can be measured."""
        whole = Envelope.of(instance, table.values())
        self._instance, self._gpus = instance, instance.fleet.gpus
        self._views = {name: class_envelope.view for name, class_envelope in whole.classes.items()}
        self._trusted = tuple(_Trusted(a) for a in whole.assumptions)
        self._epsilon = instance.certificate.epsilon
        self._demand = sum(c.demand_rps for c in instance.classes)
        self._parts: dict[tuple[str, frozenset[CellKey]], _Part] = {}
        self._known: dict[frozenset[CellKey], bool] = {}

    def holds(self, cells: frozenset[CellKey]) -> bool:
        """R(cells)."""
        if cells not in self._known:
            self._known[cells] = self._holds(cells)
        return self._known[cells]

    def _holds(self, cells: frozenset[CellKey]) -> bool:
        parts = [self._part(name, cells) for name in self._views]
        low, high, gpus = [p.low for p in parts], [p.high for p in parts], self._gpus
        if least_shortfall(high, gpus) > TIE:
            return True
        if any(p.torn for p in parts):
            return True
        rounding = sum(c.demand.priority * c.demand.floor * ROUNDED for c in low if c.demand.floor is not None)
        if any(p.open for p in parts) or least_shortfall(low, gpus) > rounding + TIE:
            return False
        lower_fulfilment, upper_fulfilment = (
            greatest_min_fulfilment(low, gpus, 0.0),
            greatest_min_fulfilment(high, gpus, 0.0),
        )
        if upper_fulfilment - lower_fulfilment > self._epsilon + TIE:
            return False
        upper = greatest_goodput(high, gpus, lower_fulfilment, 0.0)
        lower = greatest_goodput(low, gpus, upper_fulfilment - self._epsilon, 0.0)
        return upper - lower <= self._epsilon * self._demand + TIE * max(1.0, self._demand)

    def _part(self, name: str, cells: frozenset[CellKey]) -> _Part:
        mine = frozenset(key for key in cells if key.class_name == name)
        if (name, mine) not in self._parts:
            view = self._views[name]
            lower = envelop(replace(view, known={k: v for k, v in view.known.items() if k in mine}), self._trusted)
            upper = replace(lower, bounds={key: self._assumed(lower.view, b) for key, b in lower.bounds.items()})
            demand = class_demand(upper)
            low, high = (
                curve(
                    demand,
                    class_configurations(self._instance, class_envelope, lower=class_envelope is lower),
                    self._gpus,
                )
                for class_envelope in (lower, upper)
            )
            committed = demand.demand_rps > 0.0 and lower.committed_choice
            unclear = demand.demand_rps > 0.0 and upper.servable and not committed
            self._parts[name, mine] = _Part(low, high, unclear, committed and not upper.servable)
        return self._parts[name, mine]

    def _assumed(self, view: ClassView, b: CellBounds) -> CellBounds:
        """A measured cell under θ+: what the assumptions make of the others bounds it as well."""
        if b.cell.key not in view.known:
            return b
        others = replace(view, known={key: known for key, known in view.known.items() if key != b.cell.key})
        arm = replace(others, arms={b.cell.arm: view.arms[b.cell.arm]})
        for assumption in self._trusted:
            for key, quantity, value, _ in assumption.limits(others if assumption.across_arms else arm, _always):
                if key == b.cell.key:
                    b = _limited(b, quantity, value, view.workload.slo)
        return b


def _always(arm: ArmKey, quantity: str) -> bool:
    return True


def _limited(b: CellBounds, quantity: str, value: float, slo: Slo) -> CellBounds:
    """The bounds of a cell that one more limit holds for."""
    if quantity == CAPACITY:
        capacity = b.capacity_rps
        return replace(b, capacity_rps=Interval(min(capacity.lo, value), min(capacity.hi, value)))
    limit = None if quantity == MEMORY else slo.limit_s(quantity)
    beyond = quantity == MEMORY or (limit is not None and value > limit)
    return replace(b, possible=False) if beyond else b
