"""`capacity_star`: in a closed loop capacity per request in flight, c(N)/N, does not rise with N.

Little's law: N = c(N) W(N), so c(N)/N = 1/W(N) falls when the mean latency W does not fall as concurrency rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetsieve.bounds.assumptions.protocol import CAPACITY, EXACT, ClassView, Contradiction, Limit
from fleetsieve.instance import ArmKey


@dataclass(frozen=True)
class CapacityStar:
    """On by default; it argues only from measured cells that meet the class's success floor."""

    slack: float = 0.05
    name: str = "capacity_star"
    across_arms: bool = False

    def describe(self) -> str:
        """One sentence for the certificate."""
        return f"closed loop: capacity per request in flight does not rise with concurrency (slack {self.slack:g})"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """A measured c(N)/N above one at a lower concurrency by more than the slack."""
        for arm in view.arms:
            lowest = None
            for cell, known in view.measured_rungs[arm] if view.closed_loop(arm) else ():
                n = cell.offered or 1.0
                if known.capacity_rps is None:
                    continue
                if lowest is not None and known.capacity_rps.lo / n > lowest[1] * (1.0 + self.slack) * (1.0 + EXACT):
                    text = (
                        f"capacity per request in flight rises from {lowest[1]:g} at {lowest[0].load}"
                        f" to {known.capacity_rps.lo / n:g} 1/s at {cell.key.load}"
                    )
                    yield Contradiction(self.name, arm, CAPACITY, (lowest[0], cell.key), text)
                if view.sustaining(known) and (lowest is None or known.capacity_rps.hi / n < lowest[1]):
                    lowest = (cell.key, known.capacity_rps.hi / n)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """An unmeasured capacity is at most N x the least c/N measured at lower concurrency x (1 + slack)."""
        for arm in view.arms:
            if not view.closed_loop(arm) or not holds(arm, CAPACITY):
                continue
            least = None
            for cell, looked in view.rungs[arm]:
                known, n = view.sustaining(looked), cell.offered or 1.0
                if known is not None and known.capacity_rps is not None:
                    ratio = known.capacity_rps.hi / n
                    least = ratio if least is None else min(least, ratio)
                elif least is not None:
                    yield Limit(cell.key, CAPACITY, least * n * (1.0 + self.slack))
