"""Checked columns of measurements.csv -> measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import repeat
from typing import TYPE_CHECKING, Any

from fleetsieve.files.csv_rows import CHUNK
from fleetsieve.files.schema import BOUNDED, bound_names
from fleetsieve.files.table import Table, optional
from fleetsieve.instance import NOTHING_READ, CellKey, Measurement, Reading, Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STATUSES = {status.value: status for status in Status}


def build_measurements(table: Table, keys: Sequence[CellKey], places: NDArray[np.int64]) -> tuple[Measurement, ...]:
    """The measurement of each row of a table without errors; `places` gives each row's place in `keys`."""
    names = [field.name for field in fields(Measurement)]
    built: list[Measurement] = []
    for start in range(0, len(table), CHUNK):
        rows = slice(start, start + CHUNK)
        columns = _columns(table, rows)
        columns["key"] = [keys[place] for place in places[rows].tolist()]
        built += map(Measurement, *(columns[name] for name in names))
    return tuple(built)


def _columns(table: Table, rows: slice) -> dict[str, Any]:
    """The fields of some rows by the name of the field, all but the key."""
    numbers, text = table.numbers, table.text
    count = len(table.lines[rows])
    columns: dict[str, Any] = {
        name: optional(numbers[name][rows]) if name in table.given else [None] * count for name in numbers
    }
    columns["seed"] = [0 if seed is None else int(seed) for seed in columns["seed"]]
    columns["requests"] = [None if number is None else int(number) for number in columns["requests"]]
    columns["status"] = map(_STATUSES.__getitem__, text["status"][rows])
    columns |= {name: text[name][rows] for name in ("started_at", "source")} | {
        "line": table.lines[rows].tolist(),
        "records": repeat(None, count),
        "refused": repeat("", count),
    }
    for name in BOUNDED:
        parts = (name, *bound_names(name))
        given = table.given.intersection(parts)
        columns[name] = _readings(*(columns[part] for part in parts)) if given else repeat(NOTHING_READ, count)
    return columns


def _readings(values: list[float | None], lows: list[float | None], highs: list[float | None]) -> Iterator[Reading]:
    for value, low, high in zip(values, lows, highs, strict=True):
        nothing = value is None and low is None and high is None
        yield NOTHING_READ if nothing else Reading(value, low, high)
