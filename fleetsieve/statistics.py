"""What the looks at one cell say about it: rows in, one interval per quantity out.

Rows with point values are taken as exact; rows that bring bounds of their own are taken at their bounds; several looks at a cell
give the hull of what each says, so a second value never narrows the first without statistics behind it. Intervals from
per-request records (order statistics, Clopper-Pearson, batch means) enter here too: they replace the reading of a row
by an interval, and nothing above this module changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleetsieve.instance import Cell, CellKey, LoadKind, Measurement, Reading, Status
from fleetsieve.interval import FRACTION, NON_NEGATIVE, Interval

POISSON_SLACK = 0.05
"""A finite open-loop run may complete a few per cent more than the offered rate; beyond this the offered number is wrong."""

FLAKES = frozenset({Status.TIMEOUT, Status.CRASHED, Status.REJECTED})
"""Failures that a second try may not repeat: they never close a cell for the optimistic bound."""


@dataclass(frozen=True, slots=True)
class KnownCell:
    """What is known of one cell from its own rows; None where its rows say nothing of a quantity.

    `rows` are in the order in which they were measured. Capacity is in requests/s of one replica, tails in seconds.
    """

    key: CellKey
    rows: tuple[Measurement, ...] = ()
    capacity_rps: Interval | None = None
    ttft_p99_s: Interval | None = None
    e2e_p99_s: Interval | None = None
    tpot_p99_s: Interval | None = None
    success: Interval | None = None

    def tail_s(self, metric: str) -> Interval | None:
        """The p99 interval of "ttft", "e2e" or "tpot" in seconds."""
        return self.ttft_p99_s if metric == "ttft" else self.e2e_p99_s if metric == "e2e" else self.tpot_p99_s

    @property
    def measured(self) -> bool:
        """Whether a look at the cell succeeded."""
        return any(row.status is Status.OK for row in self.rows)

    @property
    def failed(self) -> bool:
        """Whether the last look failed: the cell is then closed for the conservative plan until a later look succeeds."""
        return bool(self.rows) and self.rows[-1].status is not Status.OK

    def count(self, *statuses: Status) -> int:
        """How many looks ended in one of these statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def impossible(self) -> bool:
        """Whether the cell cannot run at all: a failed start (deterministic), or an OOM seen twice, with no success."""
        return not self.measured and (self.count(Status.FAILED_START) >= 1 or self.count(Status.OOM) >= 2)

    @property
    def given_up(self) -> bool:
        """Whether failures were repeated, so that another look is not worth its cost: two flakes, two OOMs, two failed starts."""
        return any(self.count(*kind) >= 2 for kind in (FLAKES, {Status.OOM}, {Status.FAILED_START}))

    @property
    def out_of_memory(self) -> bool:
        """Whether memory is proven too small for this load, and so for every higher one in the arm."""
        return not self.measured and self.count(Status.OOM) >= 2


def summarise(cell: Cell, rows: Iterable[Measurement]) -> KnownCell:
    """What the rows of one cell say together: the hull, quantity by quantity, of its successful rows.

    An open-loop replica cannot sustain more than it is offered: a throughput up to POISSON_SLACK above is cut to the offered rate.
    """
    looks = tuple(rows)
    good = [row for row in looks if row.status is Status.OK]
    return KnownCell(
        key=cell.key,
        rows=looks,
        capacity_rps=_hull((_sustained(cell, row.throughput_rps) for row in good), NON_NEGATIVE),
        ttft_p99_s=_hull((row.ttft_p99_s for row in good), NON_NEGATIVE),
        e2e_p99_s=_hull((row.e2e_p99_s for row in good), NON_NEGATIVE),
        tpot_p99_s=_hull((row.tpot_p99_s for row in good), NON_NEGATIVE),
        success=_hull((row.success_rate for row in good), FRACTION),
    )


def _sustained(cell: Cell, reading: Reading) -> Reading:
    """The reading of one look, cut to the offered rate unless all of it lies further above."""
    said = reading.interval(NON_NEGATIVE)
    if cell.load_kind is not LoadKind.RATE or cell.offered is None or said is None:
        return reading
    if said.lo > cell.offered * (1.0 + POISSON_SLACK):
        return reading
    return Reading(lo=min(said.lo, cell.offered), hi=min(said.hi, cell.offered))


def summarise_all(cells: Mapping[CellKey, Cell], rows: Iterable[Measurement]) -> dict[CellKey, KnownCell]:
    """`summarise` of every cell that has a row, in the order of first measurement."""
    by_cell: dict[CellKey, list[Measurement]] = {}
    for row in rows:
        by_cell.setdefault(row.key, []).append(row)
    return {key: summarise(cells[key], own) for key, own in by_cell.items()}


def requests_for_p99_bound(confidence: float, cells: int = 1) -> int:
    """Requests that an upper p99 bound needs: ceil(ln α / ln 0.99) with α = (1 - confidence) / cells.

    The largest of n independent requests lies above the true p99 with probability 1 - 0.99^n; with fewer requests no order
    statistic bounds it. `confidence` in (0, 1); `cells` >= 1 share the error.

    >>> requests_for_p99_bound(0.95), requests_for_p99_bound(0.95, 12), requests_for_p99_bound(0.95, 45)
    (299, 546, 677)
    """
    return math.ceil(math.log((1.0 - confidence) / cells) / math.log(0.99))


def _hull(readings: Iterable[Reading], whole: Interval) -> Interval | None:
    told: Interval | None = None
    for reading in readings:
        said = reading.interval(whole)
        if said is not None:
            told = said if told is None else told.hull(said)
    return told
