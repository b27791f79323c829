"""`offered_ceiling`: in an open loop a replica cannot complete more than it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetsieve.bounds.assumptions.protocol import CAPACITY, ClassView, Contradiction, Limit
from fleetsieve.bounds.statistics import POISSON_SLACK
from fleetsieve.instance import ArmKey, LoadKind


@dataclass(frozen=True)
class OfferedCeiling:
    """On by default. A finite Poisson run that measures a few per cent more contradicts nothing."""

    slack: float = POISSON_SLACK
    name: str = "offered_ceiling"
    across_arms: bool = False

    def describe(self) -> str:
        """One sentence for the certificate."""
        return "open loop: an unmeasured capacity is at most the offered rate"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """A measured throughput above the offered rate by more than the slack: the offered numbers of the arm are wrong."""
        for arm, rungs in view.measured_rungs.items():
            for cell, known in rungs:
                if cell.load_kind is LoadKind.RATE and known.capacity_rps is not None:
                    offered = cell.offered or 0.0
                    if known.capacity_rps.lo > offered * (1.0 + self.slack):
                        text = f"{known.capacity_rps.lo:g} requests/s measured at {offered:g} offered"
                        yield Contradiction(self.name, arm, CAPACITY, (cell.key,), text)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """An unmeasured capacity is at most the offered rate."""
        for arm, ladder in view.ladders.items():
            for cell in ladder:
                if cell.load_kind is LoadKind.RATE and holds(arm, CAPACITY):
                    yield Limit(cell.key, CAPACITY, cell.offered or 0.0)
