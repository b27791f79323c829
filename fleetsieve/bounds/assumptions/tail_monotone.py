"""`tail_monotone`: along the ladder of an arm, the tail at a higher load is at least that at a lower one / (1 + slack)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fleetsieve.bounds.assumptions.protocol import EXACT, ClassView, Contradiction, Limit
from fleetsieve.instance import TAIL_METRICS, ArmKey


@dataclass(frozen=True)
class TailMonotone:
    """Slack per metric: public repeats of one cell differ by up to 74 % in TTFT p99, by up to 13 % in e2e p99.

    A p99 over a few hundred requests scatters by about as much within a run: at 0.05 a fall of 14 % in e2e p99 at a low rate of a
    simulated grid led to a wrong verdict; 0.15 costs 1 to 3 % more GPU-seconds.
    """

    slack: dict[str, float] = field(default_factory=lambda: {"ttft": 0.75, "e2e": 0.15, "tpot": 0.15})
    name: str = "tail_monotone"
    across_arms: bool = False

    def describe(self) -> str:
        """One sentence for the certificate."""
        slacks = ", ".join(f"{metric} {slack:g}" for metric, slack in self.slack.items())
        return f"along a load ladder a p99 tail does not fall with load (slack: {slacks})"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """A measured tail that lies below an earlier one's by more than the slack."""
        for arm, rungs in view.measured_rungs.items():
            for metric in TAIL_METRICS:
                highest = None
                for cell, known in rungs:
                    tail = known.tail_s(metric)
                    if tail is None:
                        continue
                    if highest is not None and tail.hi * (1.0 + self.slack[metric]) < highest[1] * (1.0 - EXACT):
                        text = (
                            f"{metric} p99 falls from {highest[1]:g} s at {highest[0].load} to {tail.hi:g} s"
                            f" at {cell.key.load}"
                        )
                        yield Contradiction(self.name, arm, metric, (highest[0], cell.key), text)
                    if highest is None or tail.lo > highest[1]:
                        highest = (cell.key, tail.lo)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """An unmeasured tail is at least the highest measured one at lower loads / (1 + slack)."""
        for arm, rungs in view.rungs.items():
            for metric in TAIL_METRICS:
                measured = any(known.tail_s(metric) is not None for _, known in view.measured_rungs[arm])
                if not measured or not holds(arm, metric):
                    continue
                least = 0.0
                for cell, known in rungs:
                    tail = known.tail_s(metric) if known else None
                    if tail is not None:
                        least = max(least, tail.lo)
                    elif least > 0.0:
                        yield Limit(cell.key, metric, least / (1.0 + self.slack[metric]))
