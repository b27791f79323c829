"""By what each quantity of a cell is bounded: its own rows, or an assumption and the measured cells that it starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from fleetsieve.bounds.assumptions import CAPACITY, MEMORY, Assumption
from fleetsieve.bounds.envelope import ClassEnvelope, envelop
from fleetsieve.instance import TAIL_METRICS, ArmKey, CellKey
from fleetsieve.interval import Interval

SUCCESS = "success"


@dataclass(frozen=True, slots=True)
class Bound:
    """One quantity of one cell: "capacity" (requests/s), a tail metric (p99, seconds), "success" (fraction) or "memory".

    `limit` is the SLO's, None where there is none. `assumption` is "" where the cell's own rows give it, or nothing does; `cells`
    are the measured cells that the assumption starts from (none: it needs no measurement). `interval` is None for "memory".
    """

    quantity: str
    interval: Interval | None
    limit: float | None
    measured: bool
    assumption: str
    cells: tuple[CellKey, ...]

    @property
    def known(self) -> bool:
        """Whether anything bounds it."""
        return self.measured or bool(self.assumption)

    @property
    def removes(self) -> bool:
        """Whether it rules the cell out: no value inside the bounds keeps the limit."""
        if self.quantity == MEMORY:
            return True
        if self.limit is None or self.interval is None:
            return False
        return self.interval.hi < self.limit if self.quantity == SUCCESS else self.interval.lo > self.limit

    @property
    def keeps(self) -> bool:
        """Whether every value inside the bounds keeps the limit (so also where there is none)."""
        if self.limit is None or self.interval is None:
            return self.quantity != MEMORY
        return self.interval.lo >= self.limit if self.quantity == SUCCESS else self.interval.hi <= self.limit


class Witnesses:
    """Finds the measured cells behind the assumed bounds of one class.

    A cell is behind a bound if it gives the same bound alone; where no single one does, all measured cells of the arm (or of the
    class, for an assumption that looks across arms) are.
    """

    def __init__(self, class_envelope: ClassEnvelope, assumptions: tuple[Assumption, ...]) -> None:
        self._class_envelope, self._assumptions = class_envelope, assumptions
        self._across = any(a.across_arms for a in assumptions)
        self._alone = cache(self._enveloped)

    def of(self, key: CellKey, quantity: str) -> tuple[CellKey, ...]:
        """The cells behind the bound of `quantity`; empty where the assumption needs no measurement."""
        arm = self._class_envelope.bounds[key].cell.arm
        stated = self._end(self._class_envelope, key, quantity)
        if self._end(self._alone(arm, None), key, quantity) == stated:
            return ()
        near = [k for k in sorted(self._class_envelope.view.known) if self._across or k.arm == key.arm]
        alone = [k for k in near if k != key and self._end(self._alone(arm, k), key, quantity) == stated]
        return tuple(alone[:1]) or tuple(k for k in near if k != key)

    def _enveloped(self, arm: ArmKey, key: CellKey | None) -> ClassEnvelope:
        """The bounds of an arm if only `key` were known."""
        view = self._class_envelope.view
        known = {key: view.known[key]} if key is not None else {}
        arms = view.arms if self._across else {arm: view.arms[arm]}
        return envelop(replace(view, arms=arms, known=known), self._assumptions)

    @staticmethod
    def _end(class_envelope: ClassEnvelope, key: CellKey, quantity: str) -> float | bool:
        """The end of the interval that an assumption can bound."""
        if quantity == MEMORY:
            return key in class_envelope.beyond_memory
        b = class_envelope.bounds[key]
        return b.capacity_rps.hi if quantity == CAPACITY else b.tails_s[quantity].lo


def bounds_of(class_envelope: ClassEnvelope, key: CellKey, witnesses: Witnesses) -> tuple[Bound, ...]:
    """Every quantity of a cell of a class: capacity first, then the tails, success, and memory where it rules the cell out."""
    b, known, slo = class_envelope.bounds[key], class_envelope.view.known.get(key), class_envelope.view.workload.slo
    quantities: list[tuple[str, Interval, float | None, Interval | None]] = [
        (CAPACITY, b.capacity_rps, None, known.capacity_rps if known else None)
    ]
    quantities += [(m, b.tails_s[m], slo.limit_s(m), known.tail_s(m) if known else None) for m in TAIL_METRICS]
    quantities.append((SUCCESS, b.success, slo.min_success, known.success if known else None))
    bounds = []
    for quantity, interval, limit, rows in quantities:
        assumption = b.origins.get(quantity, "")
        cells = witnesses.of(key, quantity) if assumption else ()
        bounds.append(Bound(quantity, interval, limit, rows is not None, assumption, cells))
    if MEMORY in b.origins:
        bounds.append(Bound(MEMORY, None, None, False, b.origins[MEMORY], witnesses.of(key, MEMORY)))
    return tuple(bounds)
