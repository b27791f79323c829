"""A prior file -> predictions: what any tool expects of cells, one row a cell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetsieve.errors import Fault, InputError, UsageError
from fleetsieve.files.cells import unknown_class
from fleetsieve.files.faults import FaultList
from fleetsieve.files.plausibility import LONGEST_S
from fleetsieve.files.schema import AT_LEAST_ONE, POSITIVE, Column, Kind
from fleetsieve.files.table import Table, optional, read_table
from fleetsieve.instance import DEFAULT_POOL, CellKey, Instance
from fleetsieve.prior import Prediction, Predictions

if TYPE_CHECKING:
    from collections.abc import Iterator

LATENCIES = ("ttft_p99_s", "e2e_p99_s", "tpot_p99_s")
PREDICTIONS = (
    Column("class", required=True, unit="name of a class of classes.csv"),
    Column("tp", Kind.INTEGER, required=True, range=AT_LEAST_ONE, unit="GPUs"),
    Column("load", required=True, unit="label of a load of cells.csv"),
    Column("pool"),
    Column("throughput_rps", Kind.NUMBER, range=POSITIVE, unit="requests/s of one replica", header=True),
    *(Column(name, Kind.NUMBER, range=POSITIVE, unit="seconds") for name in LATENCIES),
)


@dataclass(frozen=True, slots=True)
class PriorFile:
    """What a prior file states of the cells of an instance.

    `suspicions` are rows of cells that the instance lacks, and values that look as if they were in another unit.
    """

    predictions: Predictions
    suspicions: tuple[Fault, ...]


def read_predictions(path: str | Path, instance: Instance) -> PriorFile:
    """The predictions in the file `path` (columns class, tp, load, pool, throughput_rps and the p99 latencies; empty: none).

    Raises:
        UsageError: when there is no such file.
        InputError: with every fault of the file, each with its line, column, value and remedy.
    """
    if not Path(path).exists():
        raise UsageError(
            f"there is no file {path}", "a prior is a CSV with class, tp, load and throughput_rps, a row a cell"
        )
    faults = FaultList(str(path))
    table = read_table(Path(path), PREDICTIONS, faults)
    if table is None:
        raise InputError(faults.errors)
    _suspect_units(table, faults)
    found: dict[CellKey, Prediction] = {}
    seen: dict[CellKey, int] = {}
    for line, key, prediction in _rows(table):
        if seen.setdefault(key, line) != line:
            message = f"cell {key} stands on line {seen[key]} too; keep one row"
            faults.add(line, "load", "duplicate cell", message)
        elif key in instance.cell_by_key:
            found[key] = prediction
        elif key.class_name not in instance.class_by_name:
            message = f"{unknown_class(key.class_name, instance.class_by_name)}; the row is passed over"
            faults.suspect(line, "class", "unknown class", message)
        else:
            message = f"the instance has no cell {key}; the row is passed over"
            faults.suspect(line, "load", "not in cells.csv", message)
    if faults.errors:
        raise InputError(faults.errors)
    return PriorFile(found, faults.suspicions)


def _rows(table: Table) -> Iterator[tuple[int, CellKey, Prediction]]:
    """The rows whose key has no faulty part."""
    values = zip(*(optional(table.numbers[name]) for name in ("throughput_rps", *LATENCIES)), strict=True)
    for line, name, tp, load, pool, predicted in zip(
        table.lines.tolist(),
        table.text["class"],
        optional(table.numbers["tp"]),
        table.text["load"],
        table.text["pool"],
        values,
        strict=True,
    ):
        if name and load and tp is not None:
            yield line, CellKey(name, int(tp), load, pool or DEFAULT_POOL), Prediction(*predicted)


def _suspect_units(table: Table, faults: FaultList) -> None:
    """Latencies that no server has in seconds."""
    for name in LATENCIES:
        values, longest = table.numbers[name], LONGEST_S[name]
        for line, value in zip(table.lines[values > longest].tolist(), values[values > longest].tolist(), strict=True):
            message = f"{value:g} s is more than {longest:g} s; is it in milliseconds? Then divide by 1000"
            faults.suspect(line, name, "long", message)
