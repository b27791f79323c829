"""The bounds of one cell: its measured intervals, and for the rest the tightest that the named assumptions imply."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fleetsieve.bounds.assumptions import CAPACITY, MEMORY, Assumption, ClassView, Contradiction
from fleetsieve.errors import UsageError
from fleetsieve.instance import TAIL_METRICS, ArmKey, Cell, CellKey
from fleetsieve.interval import FRACTION, NON_NEGATIVE, Interval


@dataclass(frozen=True, slots=True)
class CellBounds:
    """What is known of one cell: intervals, and whether it can be committed or still hoped for.

    Capacity is in requests/s of one replica before `max_utilisation`; tails are p99s in seconds. `committable`: measured, and
    its measured bounds meet the policy. `possible`: nothing known rules it out. `origins` names the assumption behind each
    bound that is not a measurement.
    """

    cell: Cell
    capacity_rps: Interval
    tails_s: Mapping[str, Interval]
    success: Interval
    committable: bool
    possible: bool
    measured: bool
    origins: Mapping[str, str]

    @property
    def resolved(self) -> bool:
        """Whether another measurement cannot change if the cell is usable: committable, or not possible."""
        return self.committable or not self.possible


@dataclass(frozen=True, slots=True)
class Implied:
    """What assumptions imply for the cells of a view, and by which: upper capacities, lower tails, too little memory."""

    capacity: Mapping[CellKey, tuple[float, str]]
    tails: Mapping[str, Mapping[CellKey, tuple[float, str]]]
    exhausted: Mapping[CellKey, tuple[str, str]]
    contradictions: tuple[Contradiction, ...]

    def bounds(self, view: ClassView, cell: Cell) -> CellBounds:
        """The bounds of one cell."""
        exhausted = self.exhausted.get(cell.key, ("", ""))[0]
        return _bounds(view, cell, self.capacity.get(cell.key), self.tails, exhausted)

    def ends(self, view: ClassView, arm: ArmKey) -> list[End]:
        """The ends of an arm's cells, as `bounds` has them: of a cell that was not measured they are few numbers."""
        limits = [
            (self.tails[metric], limit)
            for metric in TAIL_METRICS
            if (limit := view.workload.slo.limit_s(metric)) is not None and self.tails[metric]
        ]
        found = []
        for cell in view.arms[arm]:
            key = cell.key
            if key in view.known:
                found.append(End.of(self.bounds(view, cell)))
                continue
            ruled_out = cell.excluded or key in self.exhausted
            for tails, limit in limits:
                ruled_out = ruled_out or (key in tails and tails[key][0] > limit)
            found.append(End(cell, None, None if ruled_out else self.capacity.get(key, UNBOUNDED)[0]))
        return found


UNBOUNDED = (math.inf, "")
"""A capacity that no assumption bounds: anything is possible."""


class End(NamedTuple):
    """A cell's capacity (requests/s of a replica) if it can be committed, and if it is possible; None where it is not."""

    cell: Cell
    lower_rps: float | None
    upper_rps: float | None

    @classmethod
    def of(cls, b: CellBounds) -> End:
        """The ends of a cell's bounds."""
        return cls(b.cell, b.capacity_rps.lo if b.committable else None, b.capacity_rps.hi if b.possible else None)


def implied(view: ClassView, assumptions: Iterable[Assumption]) -> Implied:
    """What the assumptions imply for the cells of a view; one that measured data contradict is dropped for its arm and quantity."""
    capacity: dict[CellKey, tuple[float, str]] = {}
    tails: dict[str, dict[CellKey, tuple[float, str]]] = {metric: {} for metric in TAIL_METRICS}
    contradictions: list[Contradiction] = []
    exhausted: dict[CellKey, tuple[str, str]] = {}
    for assumption in assumptions:
        found = tuple(assumption.audit(view))
        contradictions += found
        dropped = {(c.arm, c.quantity) for c in found}

        def holds(arm: ArmKey, quantity: str, dropped: set[tuple[ArmKey, str]] = dropped) -> bool:
            return (arm, quantity) not in dropped

        for key, quantity, value, because in assumption.limits(view, holds):
            if quantity == CAPACITY:
                if value < capacity.get(key, UNBOUNDED)[0]:
                    capacity[key] = (value, assumption.name)
            elif quantity == MEMORY:
                exhausted.setdefault(key, (assumption.name, because or f"memory, by {assumption.name}"))
            elif quantity not in tails:
                known = ", ".join((CAPACITY, MEMORY, *tails))
                raise UsageError(f"assumption {assumption.name} bounds {quantity!r}", f"it can bound {known}")
            elif value > tails[quantity].get(key, NO_TAIL)[0]:
                tails[quantity][key] = (value, assumption.name)
    return Implied(capacity, tails, exhausted, tuple(sorted(contradictions)))


def _bounds(
    view: ClassView,
    cell: Cell,
    ceiling: tuple[float, str] | None,
    least: Mapping[str, Mapping[CellKey, tuple[float, str]]],
    exhausted: str,
) -> CellBounds:
    known, slo = view.known.get(cell.key), view.workload.slo
    origins: dict[str, str] = {}
    capacity = known.capacity_rps if known else None
    has_capacity = capacity is not None
    if capacity is None:
        capacity = NON_NEGATIVE
        if ceiling is not None:
            capacity, origins[CAPACITY] = _at_most(ceiling[0]), ceiling[1]
    tails: dict[str, Interval] = {}
    meets, may_meet = has_capacity, True
    for metric, limit in zip(TAIL_METRICS, (slo.max_ttft_p99_s, slo.max_e2e_p99_s, slo.max_tpot_p99_s), strict=True):
        tail = known.tail_s(metric) if known else None
        if tail is None:
            tail, said = NON_NEGATIVE, least[metric].get(cell.key) if least[metric] else None
            if said is not None:
                tail, origins[metric] = _at_least(said[0]), said[1]
        tails[metric] = tail
        if limit is not None:
            meets = meets and tail.hi <= limit
            may_meet = may_meet and tail.lo <= limit
    success = known.success if known is not None and known.success is not None else FRACTION
    if slo.min_success is not None:
        meets = meets and success.lo >= slo.min_success
        may_meet = may_meet and success.hi >= slo.min_success
    failed = known is not None and known.failed
    gone = bool(exhausted) or (known is not None and known.impossible)
    if exhausted:
        origins[MEMORY] = exhausted
    return CellBounds(
        cell=cell,
        capacity_rps=capacity,
        tails_s=tails,
        success=success,
        committable=meets and not failed and not cell.excluded,
        possible=may_meet and not gone and not cell.excluded,
        measured=known is not None and known.measured,
        origins=origins,
    )


NO_TAIL = (0.0, "")
"""A tail that no assumption bounds: it is at least 0."""


@lru_cache(maxsize=4096)
def _at_least(value: float) -> Interval:
    """[value, inf): one object for the many cells, real and simulated, that one bound is of."""
    return Interval(value, math.inf)


@lru_cache(maxsize=4096)
def _at_most(value: float) -> Interval:
    """[0, value], as `_at_least`."""
    return Interval(0.0, value)
