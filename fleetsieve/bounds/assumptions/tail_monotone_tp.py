"""`tail_monotone_tp`: more tensor parallelism at equal load per replica does not raise the tail (false on slow interconnects)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from fleetsieve.bounds.assumptions.protocol import EXACT, ClassView, Contradiction, Limit
from fleetsieve.instance import TAIL_METRICS, ArmKey, Cell


@dataclass(frozen=True)
class TailMonotoneTp:
    """Off unless asked for."""

    slack: float = 0.05
    name: str = "tail_monotone_tp"
    across_arms: bool = True

    def describe(self) -> str:
        """One sentence for the certificate."""
        return f"at equal load per replica more tensor parallelism does not raise a p99 tail (slack {self.slack:g})"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """Two measured cells at one load where the wider replica has the longer tail; dropped for both arms."""
        for narrow, wide in _pairs(view):
            for metric in TAIL_METRICS:
                low, high = (view.known[c.key].tail_s(metric) if c.key in view.known else None for c in (narrow, wide))
                if low is not None and high is not None and low.hi * (1.0 + self.slack) < high.lo * (1.0 - EXACT):
                    text = (
                        f"{metric} p99 rises from {low.hi:g} s at TP{narrow.key.tp} to {high.lo:g} s at TP{wide.key.tp}"
                    )
                    for arm in (narrow.arm, wide.arm):
                        yield Contradiction(self.name, arm, metric, (narrow.key, wide.key), text)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """An unmeasured tail is at least that of a wider replica at the same load / (1 + slack)."""
        for narrow, wide in _pairs(view):
            for metric in TAIL_METRICS:
                known = view.known.get(wide.key)
                tail = known.tail_s(metric) if known else None
                if tail is not None and holds(narrow.arm, metric) and holds(wide.arm, metric):
                    yield Limit(narrow.key, metric, tail.lo / (1.0 + self.slack))


def _pairs(view: ClassView) -> Iterator[tuple[Cell, Cell]]:
    """Cells of servers that differ in TP alone, at one load kind and offered load, the one with less tensor parallelism first."""
    for arms in view.along_tp():
        levels: dict[tuple[str, float], list[Cell]] = {}
        for arm in arms:
            for cell in view.ladders[arm]:
                levels.setdefault((cell.load_kind, cell.offered or 0.0), []).append(cell)
        for cells in levels.values():
            yield from combinations(cells, 2)
