"""`memory_monotone`: a load above one that ran out of memory twice runs out of memory as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fleetsieve.bounds.assumptions.protocol import MEMORY, ClassView, Contradiction, Limit
from fleetsieve.instance import ArmKey


@dataclass(frozen=True)
class MemoryMonotone:
    """On by default. One OOM may be a flake, so it argues from two."""

    name: str = "memory_monotone"
    across_arms: bool = False

    def describe(self) -> str:
        """One sentence for the certificate."""
        return "a load above one that ran out of memory twice runs out of memory as well"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """A load that ran above one that ran out of memory twice."""
        for arm, rungs in view.measured_rungs.items():
            exhausted = None
            for cell, known in rungs:
                if known.measured and exhausted is not None:
                    text = f"{cell.key.load} ran, above {exhausted.load} which ran out of memory twice"
                    yield Contradiction(self.name, arm, MEMORY, (exhausted, cell.key), text)
                    break
                if known.out_of_memory and exhausted is None:
                    exhausted = cell.key

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """Cells above a load whose OOM was seen twice cannot run."""
        for arm, rungs in view.rungs.items():
            if not any(known.out_of_memory for _, known in view.measured_rungs[arm]) or not holds(arm, MEMORY):
                continue
            exhausted = False
            for cell, known in rungs:
                if exhausted:
                    yield Limit(cell.key, MEMORY, 0.0, "a higher load than one that ran out of memory twice")
                exhausted = exhausted or (known is not None and known.out_of_memory)
