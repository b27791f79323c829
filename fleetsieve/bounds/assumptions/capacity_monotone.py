"""`capacity_monotone`: in a closed loop capacity does not fall as concurrency rises, short of overload."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetsieve.bounds.assumptions.protocol import CAPACITY, EXACT, ClassView, Contradiction, Limit
from fleetsieve.instance import ArmKey


@dataclass(frozen=True)
class CapacityMonotone:
    """On by default. Overload breaks it, so it argues only from measured cells that meet the class's success floor."""

    slack: float = 0.02
    name: str = "capacity_monotone"
    across_arms: bool = False

    def describe(self) -> str:
        """One sentence for the certificate."""
        return f"closed loop: capacity does not fall as concurrency rises (slack {self.slack:g})"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """A measured capacity that is below one at a lower concurrency by more than the slack."""
        for arm in view.arms:
            highest = None
            for cell, known in view.measured_rungs[arm] if view.closed_loop(arm) else ():
                if known.capacity_rps is None:
                    continue
                here = known.capacity_rps
                if (
                    highest is not None
                    and view.sustaining(known)
                    and here.hi * (1.0 + self.slack) < highest[1] * (1.0 - EXACT)
                ):
                    text = f"capacity falls from {highest[1]:g} at {highest[0].load} to {here.hi:g} requests/s at {cell.key.load}"
                    yield Contradiction(self.name, arm, CAPACITY, (highest[0], cell.key), text)
                if highest is None or here.lo > highest[1]:
                    highest = (cell.key, here.lo)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """An unmeasured capacity is at most that of a measured cell at higher concurrency x (1 + slack)."""
        for arm in view.arms:
            if not view.closed_loop(arm) or not holds(arm, CAPACITY):
                continue
            upper_rps = None
            for cell, looked in reversed(view.rungs[arm]):
                known = view.sustaining(looked)
                if known is not None and known.capacity_rps is not None:
                    upper_rps = (
                        min(upper_rps, known.capacity_rps.hi) if upper_rps is not None else known.capacity_rps.hi
                    )
                elif upper_rps is not None:
                    yield Limit(cell.key, CAPACITY, upper_rps * (1.0 + self.slack))
