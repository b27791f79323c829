"""Ladders that end too early: an arm whose top rung still meets the SLO may carry more than any certificate looks at.

A certificate covers the listed loads. Where the highest one meets its SLO, capacity is hidden above it, and the next rung, by
the step of the ladder so far, would show it. What that rung could bring at most is what the assumptions in force state about a cell
that was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetsieve.bounds.envelope import ClassEnvelope, Envelope, envelop, fits
from fleetsieve.instance import ArmKey, Cell, CellKey, LoadKind
from fleetsieve.interval import lower_text, upper_text

DIGITS = 3
"""Significant digits of a suggested rate."""


@dataclass(frozen=True, slots=True)
class LadderTop:
    """An arm whose top rung `top` was measured and meets the SLO, at `capacity_rps` requests/s of one replica at least.

    `next` is the rung to add, and `at_most_rps` what one replica of it could bring at most; None where no assumption bounds it.
    """

    arm: ArmKey
    top: CellKey
    capacity_rps: float
    next: Cell
    at_most_rps: float | None


def ladder_tops(envelope: Envelope) -> tuple[LadderTop, ...]:
    """The arms whose ladder ends on a rung that still meets its SLO, in the fixed order of names.

    A ladder whose highest rung the operator excluded was cut on purpose, and a class without demand needs no more load.
    """
    found = [
        top
        for class_envelope in envelope.classes.values()
        if class_envelope.view.workload.demand_rps > 0.0
        for top in _tops(envelope, class_envelope)
    ]
    return tuple(sorted(found, key=lambda top: top.top))


def ladder_top_sentence(top: LadderTop) -> str:
    """One sentence: where the arm ends, and what one more rung could bring."""
    capacity, label = lower_text(top.capacity_rps), top.next.key.load
    bring = (
        f"{label} could bring at most {upper_text(top.at_most_rps)}"
        if top.at_most_rps is not None
        else (f"nothing bounds what {label} could bring")
    )
    return (
        f"{top.arm}: the top rung {top.top.load} still meets the SLO at {capacity} requests/s of one replica; {bring}, "
        f"and no certificate covers loads above {top.top.load} until {label} is in cells.csv"
    )


def _tops(envelope: Envelope, class_envelope: ClassEnvelope) -> list[LadderTop]:
    view = class_envelope.view
    ends = [
        (arm, ladder[-1], _next_rung(ladder, view.arms[arm]))
        for arm, ladder in view.ladders.items()
        if ladder
        and class_envelope.bounds[ladder[-1].key].committable
        and fits(ladder[-1], view.pools[arm.server.pool])
    ]
    if not ends:
        return []
    added = {arm: (cell,) for arm, _, cell in ends}
    arms = {
        arm: (*view.ladders[arm], *added.get(arm, ()), *(cell for cell in cells if cell.offered is None))
        for arm, cells in view.arms.items()
    }
    wider = envelop(replace(view, arms=arms), envelope.assumptions)
    return [
        LadderTop(
            arm,
            top.key,
            class_envelope.bounds[top.key].capacity_rps.lo,
            cell,
            _finite(wider.bounds[cell.key].capacity_rps.hi),
        )
        for arm, top, cell in ends
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _next_rung(ladder: Sequence[Cell], arm: Sequence[Cell]) -> Cell:
    """The rung above the top one: by the difference of an evenly spaced ladder, else by its last ratio; of one rung, twice it."""
    top = ladder[-1]
    offered = _continued([cell.offered or 0.0 for cell in ladder[-3:]], whole=top.load_kind is LoadKind.CONCURRENCY)
    key = top.key._replace(load=_label(top, offered, {cell.key.load for cell in arm}))
    return replace(top, key=key, offered=offered, cost_gpu_s=None)


def _continued(last: Sequence[float], *, whole: bool) -> float:
    """The next number after the `last` (up to three) of a rising ladder; a whole one where the load is a number of requests."""
    top = last[-1]
    if len(last) == 3 and math.isclose(last[2] - last[1], last[1] - last[0], rel_tol=1e-9):
        step = top + (last[2] - last[1])
    else:
        step = top * (top / last[-2] if len(last) > 1 else 2.0)
    if whole:
        return float(math.ceil(step - 1e-9))
    rounded = float(f"{step:.{DIGITS}g}")
    return rounded if rounded > top else step


def _label(top: Cell, offered: float, taken: set[str]) -> str:
    """The label of the next rung: that of the top one with the new number in it, where it has its number."""
    number, before = f"{offered:.12g}", f"{top.offered:.12g}"
    letter = "c" if top.load_kind is LoadKind.CONCURRENCY else "r"
    label = top.key.load.replace(before, number) if top.key.load.count(before) == 1 else f"{letter}{number}"
    while label in taken:
        label += "+"
    return label
