"""Checked columns of measurements.csv -> a million measurements in seconds."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from fleetsieve.files.csv_rows import CHUNK
from fleetsieve.files.schema import BOUNDED, bound_names
from fleetsieve.files.table import Table, optional
from fleetsieve.instance import NOTHING_READ, CellKey, Measurement, Reading, Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
_STATUSES = {status.value: status for status in Status}


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the cyclic garbage collector: it walks all objects again and again while millions are made, and frees none.

    It took half of the time of a large file. Values here have no cycles.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def build_measurements(table: Table, keys: Sequence[CellKey], places: NDArray[np.int64]) -> tuple[Measurement, ...]:
    """The measurement of each row of a table without faults; `places` gives each row's place in `keys`."""
    built: list[Measurement] = []
    for start in range(0, len(table), CHUNK):
        rows = slice(start, start + CHUNK)
        columns = _columns(table, rows)
        columns["key"] = [keys[place] for place in places[rows].tolist()]
        built += _build(
            Measurement, len(places[rows]), {field.name: columns[field.name] for field in fields(Measurement)}
        )
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
        columns[name] = _readings(count, *(columns[part] for part in parts)) if given else repeat(NOTHING_READ, count)
    return columns


def _readings(
    count: int, values: list[float | None], lows: list[float | None], highs: list[float | None]
) -> list[Reading]:
    readings = _build(Reading, count, {"value": values, "lo": lows, "hi": highs})
    if None not in values:
        return readings
    return [
        NOTHING_READ if reading.value is None and reading.lo is None and reading.hi is None else reading
        for reading in readings
    ]


def _build(cls: type[T], count: int, columns: Mapping[str, Iterable[Any]]) -> list[T]:
    """`count` frozen, slotted objects, filled slot by slot from columns.

    Calling the class a million times takes several times longer than the rest of the reading: each field of a frozen
    dataclass is set by a Python call. Setting one slot of all objects at a time stays inside the interpreter's C code.
    """
    objects: list[T] = list(map(object.__new__, repeat(cls, count)))
    for name, column in columns.items():
        set_slot: Callable[[T, Any], None] = cls.__dict__[name].__set__
        deque(map(set_slot, objects, column), maxlen=0)
    return objects
