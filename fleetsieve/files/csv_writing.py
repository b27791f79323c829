"""Classes, cells and measurements -> CSV text that reads back to equal objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetsieve.errors import UsageError
from fleetsieve.files.schema import BOUNDED, CELLS, CLASSES, MEASUREMENTS, VARIANT, bound_names
from fleetsieve.instance import DEFAULT_POOL, DEFAULT_VARIANT, Cell, Measurement, WorkloadClass


def measurement_header(*, variants: bool = False) -> str:
    """The first line of measurements.csv, without its line end; `variants`: with the column of engine variants."""
    return _header(_written(MEASUREMENTS_WRITTEN, variants))


def measurement_row(measurement: Measurement, columns: Sequence[str] | None = None) -> str:
    """One row of measurements.csv, without its line end: append it below `measurement_header()`, or below a header of `columns`.

    Seconds, requests/s, fractions and GPU-seconds are written to the last digit, so that the row reads back to an equal
    measurement; absent values are empty fields. A row spans several lines when a text in it does.

    Raises:
        UsageError: when a text cannot be written in UTF-8 or holds a NUL, or `columns` have no place for a value.
    """
    values: dict[str, object] = {
        "class": measurement.key.class_name,
        "tp": measurement.key.tp,
        "load": measurement.key.load,
        "pool": _pool(measurement.key.pool),
        VARIANT: _variant(measurement.key.variant),
        "seed": measurement.seed,
        "status": measurement.status.value,
        "requests": measurement.requests,
        "ttft_p50_s": measurement.ttft_p50_s,
        "e2e_p50_s": measurement.e2e_p50_s,
        "window_s": measurement.window_s,
        "cost_gpu_s": measurement.cost_gpu_s,
        "started_at": measurement.started_at,
        "source": measurement.source,
    }
    for name in BOUNDED:
        reading = getattr(measurement, name)
        low, high = bound_names(name)
        values |= {name: reading.value, low: reading.lo, high: reading.hi}
    if columns is None:
        columns = _written(MEASUREMENTS_WRITTEN, bool(values[VARIANT]))
    if lacking := [name for name, value in values.items() if name not in columns and value not in (None, "")]:
        raise UsageError(
            f"the table has no column {lacking[0]}, and the measurement of {measurement.key} has a value for it",
            "the table is of an older version, or of an instance without variants: start a new run from it, with another --out",
        )
    return _row(values.get(name) for name in columns)


def header_columns(table: bytes) -> tuple[str, ...]:
    """The columns of a measurements.csv in their order; none where its header is not one that a version has written."""
    names = table.split(b"\n", 1)[0].decode("utf-8", "replace").split(",")
    return tuple(names) if set(names) <= {*MEASUREMENTS_WRITTEN, VARIANT} else ()


def measurements_text(measurements: Iterable[Measurement]) -> str:
    """The whole of measurements.csv."""
    rows = list(measurements)
    variants = any(row.key.variant != DEFAULT_VARIANT for row in rows)
    columns = _written(MEASUREMENTS_WRITTEN, variants)
    return _lines([_header(columns), *(measurement_row(row, columns) for row in rows)])


def classes_text(classes: Iterable[WorkloadClass]) -> str:
    """The whole of classes.csv."""
    rows = (
        _row(
            (
                c.name,
                c.input_tokens,
                c.output_tokens,
                c.demand_rps,
                c.priority,
                c.floor_rps,
                c.slo.max_ttft_p99_s,
                c.slo.max_e2e_p99_s,
                c.slo.max_tpot_p99_s,
                c.slo.min_success,
            )
        )
        for c in classes
    )
    return _lines([_header(column.name for column in CLASSES), *rows])


def cells_text(cells: Iterable[Cell]) -> str:
    """The whole of cells.csv."""
    stated = list(cells)
    variants = any(cell.key.variant != DEFAULT_VARIANT for cell in stated)
    rows = (
        _row(
            (
                cell.key.class_name,
                cell.key.tp,
                cell.key.load,
                _pool(cell.key.pool),
                *([_variant(cell.key.variant)] if variants else []),
                cell.load_kind.value,
                cell.offered,
                cell.gpus,
                cell.cost_gpu_s,
                "true" if cell.excluded else "",
            )
        )
        for cell in stated
    )
    return _lines([_header(_written([column.name for column in CELLS], variants)), *rows])


MEASUREMENTS_WRITTEN = tuple(column.name for column in MEASUREMENTS)
"""The columns that are written: all that are known, that of variants where a cell has one."""


def _written(columns: Sequence[str], variants: bool) -> tuple[str, ...]:
    return tuple(name for name in columns if variants or name != VARIANT)


def _pool(name: str) -> str:
    return "" if name == DEFAULT_POOL else name


def _variant(name: str) -> str:
    return "" if name == DEFAULT_VARIANT else name


def _header(names: Iterable[str]) -> str:
    return ",".join(names)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _row(values: Iterable[object]) -> str:
    return ",".join(map(_field, values))


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if not isinstance(value, str):
        return str(value)
    if "\0" in value or not _encodes(value):
        raise UsageError(f"the text {value!r} cannot be written in a CSV file in UTF-8")
    # A leading space would be ignored when the file is read, so it is quoted too.
    if value[:1].isspace() or any(mark in value for mark in ',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
