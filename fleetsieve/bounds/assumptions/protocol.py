"""What every assumption about unmeasured cells provides, and what it may look at.

Only the optimistic side is ever bounded: a capacity from above, a tail from below. The conservative plan commits measured
configurations alone, so a wrong assumption can cost optimality, never an SLO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from fleetsieve.bounds.statistics import KnownCell, Rules
from fleetsieve.brief import brief
from fleetsieve.instance import ArmKey, Cell, CellKey, Facts, LoadKind, Pool, WorkloadClass

CAPACITY = "capacity"
MEMORY = "memory"
EXACT = 1e-9
"""Relative room for the rounding of files, so that a value equal to its bound never contradicts it."""


class Limit(NamedTuple):
    """One statement about one unmeasured quantity of one cell.

    `quantity` is "capacity" (then `value` is the most it can be, requests/s), a tail metric (then the least, seconds) or
    "memory" (the cell cannot run at all, whatever the value). `because` states for "memory" why the cell is closed.
    """

    key: CellKey
    quantity: str
    value: float
    because: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Contradiction:
    """Measured rows that cannot be true together with an assumption: it is dropped for `arm` and `quantity`."""

    assumption: str
    arm: ArmKey
    quantity: str
    rows: tuple[CellKey, ...]
    text: str


@dataclass(frozen=True)
class ClassView:
    """One class as an assumption sees it: its cells by arm, what is known of them, and the facts."""

    workload: WorkloadClass
    arms: Mapping[ArmKey, tuple[Cell, ...]]
    known: Mapping[CellKey, KnownCell]
    facts: Facts
    pools: Mapping[str, Pool]
    rules: Rules = field(default_factory=Rules)

    def __repr__(self) -> str:
        return brief(self)

    @cached_property
    def ladders(self) -> Mapping[ArmKey, tuple[Cell, ...]]:
        """The cells of each arm that stand on its ladder (`offered` is given), by rising load."""
        return {arm: tuple(c for c in cells if c.offered is not None) for arm, cells in self.arms.items()}

    @cached_property
    def rungs(self) -> Mapping[ArmKey, tuple[tuple[Cell, KnownCell | None], ...]]:
        """The ladders, and what is known of each cell."""
        return {arm: tuple((cell, self.known.get(cell.key)) for cell in ladder) for arm, ladder in self.ladders.items()}

    @cached_property
    def measured_rungs(self) -> Mapping[ArmKey, tuple[tuple[Cell, KnownCell], ...]]:
        """Of the ladders, the cells of which something is known: simulated measurements are audited by the thousand."""
        return {
            arm: tuple((cell, known) for cell, known in rungs if known is not None) for arm, rungs in self.rungs.items()
        }

    def along_tp(self) -> tuple[tuple[ArmKey, ...], ...]:
        """The arms in groups that differ in their tensor-parallel degree alone (same pool and variant), each by rising degree."""
        groups: dict[tuple[str, str], list[ArmKey]] = {}
        for arm in self.arms:
            groups.setdefault(arm.server.family, []).append(arm)
        return tuple(tuple(sorted(arms)) for arms in groups.values())

    def closed_loop(self, arm: ArmKey) -> tuple[Cell, ...]:
        """The ladder of an arm when its load is a concurrency; empty when it is a rate."""
        ladder = self.ladders[arm]
        return ladder if ladder and ladder[0].load_kind is LoadKind.CONCURRENCY else ()

    def sustains(self, key: CellKey) -> KnownCell | None:
        """What is known of a measured cell that bounds others' capacity (see `sustaining`); None where it does not."""
        return self.sustaining(self.known.get(key))

    def sustaining(self, known: KnownCell | None) -> KnownCell | None:
        """What is known of a cell, if it is measured and meets the class's success floor; None otherwise.

        Failed requests hold a server for a time that nobody knows: where they are many, what it served bounds no other cell's
        capacity, whether or not the class has a floor.
        """
        if known is None or known.capacity_rps is None:
            return None
        if known.success is not None and known.success.hi < self.rules.rule_set.least_success:
            return None
        floor = self.workload.slo.min_success
        if floor is not None and (known.success is None or known.success.lo < floor):
            return None
        return known


class Assumption(Protocol):
    """A named statement about cells that were not measured."""

    @property
    def name(self) -> str:
        """The name in instance.toml and in certificates."""
        ...

    @property
    def across_arms(self) -> bool:
        """Whether measurements of one arm show something about another; if not, a new measurement concerns its own arm alone."""
        ...

    def describe(self) -> str:
        """One sentence for the certificate: what is assumed, with its slack."""
        ...

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """Every pair (or row) of measured cells that contradicts the assumption beyond its slack."""
        ...

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """Its limits on unmeasured quantities; `holds(arm, quantity)` is False where it was dropped."""
        ...
