"""What is known of one cell from its own rows, and what its failures imply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleetsieve.brief import brief
from fleetsieve.instance import CellKey, Measurement, Status
from fleetsieve.interval import Interval

FLAKES = frozenset({Status.TIMEOUT, Status.CRASHED, Status.REJECTED})
"""Failures that a second try may not repeat: they never close a cell for the optimistic bound."""


@dataclass(frozen=True, slots=True)
class KnownCell:
    """What is known of one cell from its own rows; None where its rows show nothing about a quantity.

    `rows` are in the order in which they were measured. Capacity is in requests/s of one replica, tails in seconds.
    `missing_requests`: how many more its records need before they bound a limited p99 from above.
    """

    key: CellKey
    rows: tuple[Measurement, ...] = ()
    capacity_rps: Interval | None = None
    ttft_p99_s: Interval | None = None
    e2e_p99_s: Interval | None = None
    tpot_p99_s: Interval | None = None
    success: Interval | None = None
    missing_requests: int = 0

    def __repr__(self) -> str:
        return brief(self)

    def tail_s(self, metric: str) -> Interval | None:
        """The p99 interval of "ttft", "e2e" or "tpot" in seconds."""
        return self.ttft_p99_s if metric == "ttft" else self.e2e_p99_s if metric == "e2e" else self.tpot_p99_s

    @property
    def measured(self) -> bool:
        """Whether a measurement of the cell succeeded."""
        return any(row.status is Status.OK for row in self.rows)

    @property
    def failed(self) -> bool:
        """Whether the last measurement failed: the cell is then closed for the conservative plan until a later one succeeds."""
        return bool(self.rows) and self.rows[-1].status is not Status.OK

    def count(self, *statuses: Status) -> int:
        """How many measurements ended in one of these statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def without_record(self) -> int:
        """How many requests its measurements count that have no record."""
        return without_record(row for row in self.rows if row.status is Status.OK)

    @property
    def impossible(self) -> bool:
        """Whether the cell cannot run at all: a failed start (deterministic), or an OOM seen twice, with no success."""
        return not self.measured and (bool(self._failed_starts(refused=False)) or self.count(Status.OOM) >= 2)

    @property
    def given_up(self) -> bool:
        """Whether another measurement is not worth its cost: two flakes, OOMs or failed starts, or one start and no success."""
        repeated = any(self.count(*kind) >= 2 for kind in (FLAKES, {Status.OOM}, {Status.FAILED_START}))
        return repeated or bool(self._failed_starts(refused=True))

    def _failed_starts(self, *, refused: bool) -> int:
        return sum(row.status is Status.FAILED_START and bool(row.refused) == refused for row in self.rows)

    @property
    def out_of_memory(self) -> bool:
        """Whether memory is proven too small for this load, and so for every higher one in the arm."""
        return not self.measured and self.count(Status.OOM) >= 2


def without_record(rows: Iterable[Measurement]) -> int:
    """How many requests recorded measurements count beyond those that have a record; a count may include the warm-up."""
    pairs = ((row.requests, row.records) for row in rows)
    return sum(max(0, (stated or 0) - len(records.sent_at_s)) for stated, records in pairs if records is not None)
