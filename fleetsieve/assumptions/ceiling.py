"""`ceiling`: no unmeasured cell beats the best measured capacity per GPU of its class by more than a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetsieve.assumptions.protocol import CAPACITY, ClassView, Contradiction, Limit
from fleetsieve.instance import ArmKey


@dataclass(frozen=True)
class Ceiling:
    """Off by default: the paper shows that a factor of 1.5 is unsafe."""

    factor: float = 1.5
    name: str = "ceiling"

    def describe(self) -> str:
        """One sentence for the certificate."""
        return f"an unmeasured capacity per GPU is at most {self.factor:g} x the best measured one of its class"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """Looks back: a measured cell that the ceiling would have ruled out when it was revealed."""
        best = 0.0
        for key, known in view.known.items():
            cell = next(c for c in view.arms[ArmKey(key.class_name, key.tp, key.pool)] if c.key == key)
            if known.capacity_rps is None:
                continue
            per_gpu = known.capacity_rps.lo / cell.gpus
            if best > 0.0 and per_gpu > self.factor * best:
                text = f"{per_gpu:g} requests/s per GPU measured, at most {self.factor * best:g} by the best one before"
                for arm in view.arms:
                    yield Contradiction(self.name, arm, CAPACITY, (key,), text)
            best = max(best, known.capacity_rps.hi / cell.gpus)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """Capacity per GPU is at most factor x the best measured."""
        gpus = {cell.key: cell.gpus for cells in view.arms.values() for cell in cells}
        best = max((k.capacity_rps.hi / gpus[k.key] for k in view.known.values() if k.capacity_rps), default=0.0)
        for arm, cells in view.arms.items():
            if best > 0.0 and holds(arm, CAPACITY):
                for cell in cells:
                    yield Limit(cell.key, CAPACITY, self.factor * best * cell.gpus)
