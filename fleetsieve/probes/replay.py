"""A measured table, revealed one row at a time: the k-th measurement of a cell takes its k-th seed.

Rows that were measured already come before those that are hidden still; where somebody added one of the table's own by hand, it is
not revealed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey, Instance, Measurement


class Replay:
    """A probe that reads from a table instead of measuring."""

    def __init__(self, table: Iterable[Measurement], measured: Iterable[Measurement] = ()) -> None:
        """`table` holds the hidden rows in any order; the seeds of a cell are taken from the lowest up.

        `measured` are the rows that a run has already, in their order: its next measurement of a cell takes the first other row.
        """
        rows: dict[CellKey, list[Measurement]] = {}
        for row in measured:
            rows.setdefault(row.key, []).append(row)
        known = {(row.key, row.seed) for of_cell in rows.values() for row in of_cell}
        hidden = sorted(table, key=lambda row: row.seed)
        for row in hidden:
            if (row.key, row.seed) not in known:
                rows.setdefault(row.key, []).append(row)
        self._rows, self._hidden = rows, {(row.key, row.seed) for row in hidden}

    @property
    def looks(self) -> Mapping[CellKey, int]:
        """Rows of each cell, measured or hidden; after the last one the cell is exhausted."""
        return MappingProxyType({key: len(of_cell) for key, of_cell in self._rows.items()})

    def missing(self, instance: Instance) -> tuple[CellKey, ...]:
        """Cells of the instance without a row (the operator's exclusions aside): they are left out of the run."""
        return tuple(cell.key for cell in instance.cells if cell.key not in self._rows and not cell.excluded)

    def hides(self, row: Measurement) -> bool:
        """Whether the table has this row, so that a run may have revealed it."""
        return (row.key, row.seed) in self._hidden

    def measure(self, key: CellKey, look: int) -> Measurement:
        """The `look`-th row of the cell.

        Raises:
            UsageError: when the table has no such row.
        """
        of_cell = self._rows.get(key, [])
        if look >= len(of_cell):
            raise UsageError(f"the table has {len(of_cell)} rows of {key}; look {look + 1} was asked for")
        return of_cell[look]
