"""A prior file -> predictions: what any tool expects of cells, or what was measured elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from fleetsieve.errors import Fault, InputError, UsageError
from fleetsieve.files.cells import unknown_class
from fleetsieve.files.csv_rows import open_rows
from fleetsieve.files.faults import FaultList
from fleetsieve.files.plausibility import LONGEST_S
from fleetsieve.files.schema import AT_LEAST_ONE, MEASUREMENTS, POSITIVE, VARIANT, Column, ColumnKind
from fleetsieve.files.spelling import composed
from fleetsieve.files.table import Table, optional, read_table
from fleetsieve.instance import DEFAULT_POOL, DEFAULT_VARIANT, CellKey, Instance, ServerKey, Status
from fleetsieve.loop.predictions import Prediction, Predictions

LATENCIES = ("ttft_p99_s", "e2e_p99_s", "tpot_p99_s")
VALUES = ("throughput_rps", *LATENCIES)
PREDICTIONS = (
    Column("class", required=True, unit="name of a class of classes.csv"),
    Column("tp", ColumnKind.INTEGER, required=True, range=AT_LEAST_ONE, unit="GPUs"),
    Column("load", required=True, unit="label of a load of cells.csv"),
    Column("pool"),
    Column(VARIANT),
    Column("throughput_rps", ColumnKind.NUMBER, range=POSITIVE, unit="requests/s of one replica", header=True),
    *(Column(name, ColumnKind.NUMBER, range=POSITIVE, unit="seconds") for name in LATENCIES),
)
_OTHERS = tuple(column for column in MEASUREMENTS if column.name not in {predicted.name for predicted in PREDICTIONS})
PREDICTED = (*PREDICTIONS, *(replace(column, required=False) for column in _OTHERS))
"""A table of predictions: every row predicts, and a value is above 0. The other columns of measurements.csv may stand beside."""

MEASURED = tuple(replace(column, header=column.header or column.name == "throughput_rps") for column in MEASUREMENTS)
"""A table with a column `status` is one of measurements: rows that failed predict nothing, and neither does a value of 0."""


@dataclass(frozen=True, slots=True)
class PriorFile:
    """What a prior file states of the cells of an instance.

    `suspicions` are rows of cells that the instance lacks, and values that look as if they were in another unit.
    """

    predictions: Predictions
    suspicions: tuple[Fault, ...]


def read_predictions(path: str | Path, instance: Instance) -> PriorFile:
    """The predictions in the file `path`: a prior.csv or a measurements.csv, of this instance or of one with the same cells.

    Columns class, tp, load, pool, variant, throughput_rps and the p99 latencies (empty: no prediction); all others of
    measurements.csv may be there. Of several rows of a cell, each with its own seed, the median of each value predicts; rows that
    failed do not count.

    Raises:
        UsageError: when there is no such file.
        InputError: with every error of the file, each with its line, column, value and remedy.
    """
    if not Path(path).exists():
        raise UsageError(
            f"there is no file {path}",
            "a prior is a CSV with class, tp, load and throughput_rps, or a measurements.csv",
        )
    faults = FaultList(str(path))
    table = read_table(Path(path), _columns(Path(path)), faults)
    if table is None:
        raise InputError(faults.errors)
    _suspect_units(table, faults)
    found = _found(table, instance, faults)
    if faults.errors:
        raise InputError(faults.errors)
    return PriorFile({key: _median(rows) for key, rows in found.items() if rows}, faults.suspicions)


def _columns(path: Path) -> Sequence[Column]:
    """What the file may hold, by its header."""
    header = open_rows(path, MEASURED, FaultList(str(path)))
    return MEASURED if header is not None and "status" in header.names.values() else PREDICTED


def _found(table: Table, instance: Instance, faults: FaultList) -> dict[CellKey, list[Prediction]]:
    """The predictions of each cell of the instance, one a row; rows of other cells are reported and ignored."""
    cells = {_alike(key): key for key in instance.cell_by_key}
    classes = {composed(name) for name in instance.class_by_name}
    found: dict[CellKey, list[Prediction]] = {}
    seen: dict[tuple[CellKey, int], int] = {}
    for line, stated, seed, prediction in _rows(table):
        key = cells.get(_alike(stated), stated)
        if seen.setdefault((key, seed), line) != line:
            message = f"cell {key} is on line {seen[key, seed]} too; keep one row, or give each its own seed"
            faults.add(line, "load", "duplicate cell", message)
        elif key in instance.cell_by_key:
            found.setdefault(key, []).extend([prediction] if prediction is not None else [])
        elif composed(key.class_name) not in classes:
            message = f"{unknown_class(key.class_name, instance.class_by_name)}; the row is ignored"
            faults.suspect(line, "class", "unknown class", message)
        else:
            message = f"the instance has no cell {key}; the row is ignored"
            faults.suspect(line, "load", "not in cells.csv", message)
    return found


def _alike(key: CellKey) -> CellKey:
    server = ServerKey(key.tp, composed(key.pool), composed(key.variant))
    return CellKey(composed(key.class_name), server, composed(key.load))


def _rows(table: Table) -> Iterator[tuple[int, CellKey, int, Prediction | None]]:
    """Line, key, seed and prediction of the rows whose key has no wrong part; None for a measurement that failed."""
    values = zip(*(optional(table.numbers[name]) for name in VALUES), strict=True)
    for line, name, tp, load, pool, variant, seed, status, row in zip(
        table.lines.tolist(),
        table.text["class"],
        optional(table.numbers["tp"]),
        table.text["load"],
        table.text["pool"],
        table.text[VARIANT],
        optional(table.numbers["seed"]),
        table.text["status"],
        values,
        strict=True,
    ):
        if name and load and tp is not None:
            predicted = None if status and status != Status.OK else Prediction(*(value or None for value in row))
            server = ServerKey(int(tp), pool or DEFAULT_POOL, variant or DEFAULT_VARIANT)
            yield line, CellKey(name, server, load), int(seed or 0), predicted


def _median(rows: Sequence[Prediction]) -> Prediction:
    """The median of each value over the rows that have it."""
    columns = ([value for row in rows if (value := getattr(row, name)) is not None] for name in VALUES)
    return Prediction(*(median(values) if values else None for values in columns))


def _suspect_units(table: Table, faults: FaultList) -> None:
    """Latencies that no server has in seconds."""
    for name in LATENCIES:
        values, longest = table.numbers[name], LONGEST_S[name]
        for line, value in zip(table.lines[values > longest].tolist(), values[values > longest].tolist(), strict=True):
            message = f"{value:g} s is more than {longest:g} s; is it in milliseconds? Then divide by 1000"
            faults.suspect(line, name, "long", message)
