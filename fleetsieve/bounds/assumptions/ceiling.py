"""`ceiling`: no unmeasured cell beats the best measured capacity per GPU of its class by more than a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetsieve.bounds.assumptions.protocol import CAPACITY, ClassView, Contradiction, Limit
from fleetsieve.instance import ArmKey, CellKey
from fleetsieve.interval import Interval


@dataclass(frozen=True)
class Ceiling:
    """Off by default: the paper shows that a factor of 1.5 is unsafe."""

    factor: float = 1.5
    name: str = "ceiling"
    across_arms: bool = True

    def describe(self) -> str:
        """One sentence for the certificate."""
        return f"an unmeasured capacity per GPU is at most {self.factor:g} x the best measured one of its class"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """The best measured cell beats the second best by more than the factor: it would have been ruled out before it."""
        ranked = sorted(_per_gpu(view).items(), key=lambda item: (-item[1].lo, item[0]))
        if len(ranked) < 2:
            return
        (key, best), upper_rps = ranked[0], self.factor * max(interval.hi for _, interval in ranked[1:])
        if best.lo > upper_rps:
            text = f"{best.lo:g} requests/s per GPU measured, at most {upper_rps:g} by the other cells"
            for arm in view.arms:
                yield Contradiction(self.name, arm, CAPACITY, (key,), text)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """Capacity per GPU is at most factor x the best measured."""
        best = max((interval.hi for interval in _per_gpu(view).values()), default=0.0)
        for arm, cells in view.arms.items():
            if best > 0.0 and holds(arm, CAPACITY):
                for cell in cells:
                    yield Limit(cell.key, CAPACITY, self.factor * best * cell.gpus)


def _per_gpu(view: ClassView) -> dict[CellKey, Interval]:
    """Measured capacities in requests/s per GPU, of cells that sustain their load."""
    gpus = {cell.key: cell.gpus for cells in view.arms.values() for cell in cells}
    sustained = {key: known for key in view.known if (known := view.sustains(key)) is not None}
    return {key: k.capacity_rps.scaled(1.0 / gpus[key]) for key, k in sustained.items() if k.capacity_rps is not None}
