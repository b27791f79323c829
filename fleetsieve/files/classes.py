"""classes.csv -> workload classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetsieve.files.durations import seconds_of_ms
from fleetsieve.files.faults import FaultList
from fleetsieve.files.schema import CLASSES, LIMITS_MS, number_text
from fleetsieve.files.spelling import SPELLED_TWICE, spelled_twice
from fleetsieve.files.table import Table, optional, read_table
from fleetsieve.instance import MAX_DEMAND_RPS, TAIL_METRICS, Slo, WorkloadClass


@dataclass(frozen=True, slots=True)
class ClassesFile:
    """What classes.csv states. `lines` maps every class name to its line; `complete`: it has them all.

    `classes` are the classes of the rows; they are fit for use only when the file has no error. `in_ms` are the metrics whose
    limits the file states in milliseconds.
    """

    classes: tuple[WorkloadClass, ...] = ()
    lines: Mapping[str, int] | None = None
    complete: bool = False
    in_ms: frozenset[str] = frozenset()

    @property
    def with_blanks(self) -> Mapping[str, str]:
        """The names that begin or end with a blank, by the name without it; not where that is a class of its own."""
        lines = self.lines or {}
        return {name.strip(): name for name in lines if name.strip() not in lines}


def read_classes(path: Path, faults: FaultList) -> ClassesFile:
    """The classes of the file at `path`; its errors are added to `faults`."""
    table = read_table(path, (*CLASSES, *LIMITS_MS), faults)
    if table is None:
        return ClassesFile()
    limits = {metric: _limits_s(table, metric, faults) for metric in TAIL_METRICS}
    if not len(table):
        if not faults.errors:
            faults.add(0, "", "no rows", "the file has a header and no row; write one row for each workload class")
        return ClassesFile()
    complete = not faults.has_errors_in(("", "class"))  # asked before errors that hide no name
    lines: dict[str, int] = {}
    for name, line in zip(table.text["class"], table.lines.tolist(), strict=True):
        if name and lines.setdefault(name, line) != line:
            faults.add(line, "class", "duplicate class", f"class {name!r} is on line {lines[name]} too; keep one row")
    for name, earlier in spelled_twice(lines):
        message = f"class {name!r} is on line {lines[earlier]} too, {SPELLED_TWICE}"
        faults.add(lines[name], "class", "duplicate class", message)
    for line, demand in zip(table.lines.tolist(), table.numbers["demand_rps"].tolist(), strict=True):
        if demand > MAX_DEMAND_RPS:
            message = f"{number_text(demand)} is out of range; demand_rps must be <= {MAX_DEMAND_RPS:g}"
            faults.add(line, "demand_rps", "out of range", message)
    _suspect(table, faults)
    in_ms = frozenset(metric for metric in TAIL_METRICS if f"max_{metric}_p99_ms" in table.given)
    return ClassesFile(_classes(table, limits), lines, complete, in_ms)


def _limits_s(table: Table, metric: str, faults: FaultList) -> list[float | None]:
    """The p99 limits of a metric in seconds, from the one of its two columns that the file has."""
    in_s, in_ms = f"max_{metric}_p99_s", f"max_{metric}_p99_ms"
    if {in_s, in_ms} <= table.given:
        faults.add(1, in_ms, "two units", f"{in_s} and {in_ms} state one limit; keep one of the two columns")
    if in_ms in table.given:
        return [None if limit is None else seconds_of_ms(limit) for limit in optional(table.numbers[in_ms])]
    return optional(table.numbers[in_s])


def _classes(table: Table, limits_s: Mapping[str, list[float | None]]) -> tuple[WorkloadClass, ...]:
    column = {name: optional(values) for name, values in table.numbers.items()}
    limits: Sequence[Slo] = [
        Slo(*values)
        for values in zip(*(limits_s[metric] for metric in TAIL_METRICS), column["min_success"], strict=True)
    ]
    return tuple(
        WorkloadClass(
            name, demand or 0.0, slo, 1.0 if priority is None else priority, floor, input_tokens, output_tokens
        )
        for name, demand, slo, priority, floor, input_tokens, output_tokens in zip(
            table.text["class"],
            column["demand_rps"],
            limits,
            column["priority"],
            column["floor_rps"],
            column["input_tokens"],
            column["output_tokens"],
            strict=True,
        )
    )


def _suspect(table: Table, faults: FaultList) -> None:
    floors, demands = table.numbers["floor_rps"].tolist(), table.numbers["demand_rps"].tolist()
    for name, line, floor, demand in zip(table.text["class"], table.lines.tolist(), floors, demands, strict=True):
        if floor > demand == 0.0:
            message = f"floor {number_text(floor)} has no effect: the demand of {name!r} is 0"
            faults.suspect(line, "floor_rps", "floor without demand", message)
        elif floor > demand:
            message = f"floor {number_text(floor)} is above the demand {number_text(demand)} of {name!r}; it counts as the demand"
            faults.suspect(line, "floor_rps", "floor above demand", message)
