"""Looks drawn from the requests of a measured cell: each is a bootstrap resample, so the table's own records are the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from fleetsieve.bounds.statistics.points import point_row
from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey, Measurement, Status
from fleetsieve.probes.noisy import look_generator
from fleetsieve.records import RequestRecords


class Resampled:
    """A probe that draws as many requests as a cell's records hold, with replacement; measurement k is the same in any order."""

    def __init__(
        self, table: Iterable[Measurement], *, seed: int, trial: int, looks: int, with_records: bool = True
    ) -> None:
        """`table` has one row a cell, with records where it succeeded; every cell of it can be measured `looks` times.

        Without `with_records` a measurement shows its point values alone.

        Raises:
            UsageError: when a row that succeeded has no records.
        """
        self._rows = {row.key: row for row in table}
        bare = [row.key for row in self._rows.values() if row.status is Status.OK and row.records is None]
        if bare:
            raise UsageError(f"there are no per-request records of {bare[0]} and {len(bare) - 1} more cells")
        self._origin, self._looks, self._with_records = (seed, trial), looks, with_records

    @property
    def looks(self) -> Mapping[CellKey, int]:
        """How often each cell of the table can be measured."""
        return MappingProxyType(dict.fromkeys(self._rows, self._looks))

    def measure(self, key: CellKey, look: int) -> Measurement:
        """The `look`-th resample of the cell; a measurement that failed fails again."""
        row = self._rows[key]
        if row.records is None:
            return replace(row, seed=look)
        drawn = resample(row.records, look_generator(*self._origin, key, look))
        return replace(point_row(row, drawn), seed=look, records=drawn if self._with_records else None)


def resample(records: RequestRecords, generator: np.random.Generator) -> RequestRecords:
    """As many requests, drawn uniformly with replacement, each with all that it showed."""
    count = len(records.ok)
    chosen = generator.integers(count, size=count)
    return RequestRecords(
        records.sent_at_s[chosen],
        records.ttft_s[chosen],
        records.e2e_s[chosen],
        records.tpot_s[chosen],
        records.ok[chosen],
        records.window_s,
        None if records.scheduled_at_s is None else records.scheduled_at_s[chosen],
        None if records.output_tokens is None else records.output_tokens[chosen],
    )
