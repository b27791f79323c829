"""classes.csv -> workload classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetsieve.files.faults import FaultList
from fleetsieve.files.plausibility import LONGEST_S, long_time
from fleetsieve.files.schema import CLASSES, number_text
from fleetsieve.files.spelling import SPELLED_TWICE, spelled_twice
from fleetsieve.files.table import Table, optional, read_table
from fleetsieve.instance import MOST_DEMAND_RPS, TAIL_METRICS, Slo, WorkloadClass


@dataclass(frozen=True, slots=True)
class ClassesFile:
    """What classes.csv states. `lines` maps every class name to its line; `complete` says that it has them all.

    `classes` are the classes of the rows; they are fit for use only when the file has no fault.
    """

    classes: tuple[WorkloadClass, ...] = ()
    lines: Mapping[str, int] | None = None
    complete: bool = False

    @property
    def with_blanks(self) -> Mapping[str, str]:
        """The names that begin or end with a blank, by the name without it; not where that is a class of its own."""
        lines = self.lines or {}
        return {name.strip(): name for name in lines if name.strip() not in lines}


def read_classes(path: Path, faults: FaultList) -> ClassesFile:
    """The classes of the file at `path`; its faults are added to `faults`."""
    table = read_table(path, CLASSES, faults)
    if table is None:
        return ClassesFile()
    if not len(table):
        if not faults.errors:
            faults.add(0, "", "no rows", "the file has a header and no row; write one row for each workload class")
        return ClassesFile()
    complete = not faults.has_errors_in(("", "class"))  # asked before faults that hide no name
    lines: dict[str, int] = {}
    for name, line in zip(table.text["class"], table.lines.tolist(), strict=True):
        if name and lines.setdefault(name, line) != line:
            faults.add(
                line, "class", "duplicate class", f"class {name!r} stands on line {lines[name]} too; keep one row"
            )
    for name, earlier in spelled_twice(lines):
        message = f"class {name!r} stands on line {lines[earlier]} too, {SPELLED_TWICE}"
        faults.add(lines[name], "class", "duplicate class", message)
    for line, demand in zip(table.lines.tolist(), table.numbers["demand_rps"].tolist(), strict=True):
        if demand > MOST_DEMAND_RPS:
            message = f"{number_text(demand)} is out of range; demand_rps must be <= {MOST_DEMAND_RPS:g}"
            faults.add(line, "demand_rps", "out of range", message)
    _suspect(table, faults)
    return ClassesFile(_classes(table), lines, complete)


def _classes(table: Table) -> tuple[WorkloadClass, ...]:
    column = {name: optional(values) for name, values in table.numbers.items()}
    limits: Sequence[Slo] = [
        Slo(*values)
        for values in zip(
            column["max_ttft_p99_s"],
            column["max_e2e_p99_s"],
            column["max_tpot_p99_s"],
            column["min_success"],
            strict=True,
        )
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
    for metric in TAIL_METRICS:
        column, longest = f"max_{metric}_p99_s", LONGEST_S[f"{metric}_p99_s"]
        for line, limit in zip(table.lines.tolist(), table.numbers[column].tolist(), strict=True):
            if limit > longest:
                faults.suspect(line, column, "milliseconds", long_time(limit, longest))
