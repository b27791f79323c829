"""Figures of one row that cannot all be true: requests that were served and never sent, a 99th percentile of nine requests.

They are warnings, and ask for what no rounding, warm-up or drain explains. What a whole row is worth is another question, which
`statistics.counting` answers for certificates and for `validate` alike: a row that does not count is reported here, in its words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from fleetsieve.files.faults import FaultList
from fleetsieve.files.schema import number_text
from fleetsieve.instance import TAIL_METRICS, Cell, Instance, LoadKind, Measurement, Status, WorkloadClass
from fleetsieve.interval import FRACTION

LEAST_FOR_P99 = 30
"""A p99 of fewer than 100 requests is no more than their largest. Of 30 even that lies below the true one in three of four runs
(0.99^30 = 0.74); published grids use 40 and more.
"""

SHARE = 0.25
"""How far throughput x window may be from the requests that succeeded: published throughputs have few digits, and windows edges."""

LONGEST_ANSWER_S = 60.0
"""How long an answer may take after its first token, where the row does not show."""


def suspect_contradictions(instance: Instance, rows: Iterable[Measurement], faults: FaultList) -> None:
    """Add what the rows of a measurements file contradict themselves in; those with records have these to decide."""
    from fleetsieve.bounds.statistics import rows_that_count  # here: it needs numpy, which takes a while to load

    given = tuple(rows)
    if not given:
        return
    for row in given:
        if row.status is Status.OK:
            cell = instance.cell_by_key[row.key]
            for column, kind, message in _contradictions(row, cell, instance.class_by_name[row.key.class_name]):
                faults.suspect(row.line, column, kind, message)
    for row, taken in zip(given, rows_that_count(instance, given), strict=True):
        if taken.refused and row.status is Status.OK:
            message = f"{taken.refused}; so the measurement of {row.key} counts as a failure"
            faults.suspect(row.line, "status", "counts as a failure", message)
        elif taken.refused:
            faults.suspect(
                row.line, "status", "no evidence", f"{taken.refused}; so this row says nothing about {row.key}"
            )


def _contradictions(row: Measurement, cell: Cell, workload: WorkloadClass) -> Iterator[tuple[str, str, str]]:
    """Column, kind and message of each."""
    success, served = row.success_rate.value, row.throughput_rps.value
    if success is not None and served is not None and (success > 0.0) != (served > 0.0):
        none, some = ("throughput_rps", "success_rate") if served == 0.0 else ("success_rate", "throughput_rps")
        message = f"{none} is 0, and {some} is {number_text(success or served)}: did a request succeed, or none?"
        yield none, "no success", message
    if row.requests is None or row.records is not None:
        return
    if row.requests < LEAST_FOR_P99 and (tails := [m for m in TAIL_METRICS if row.tail(m).value is not None]):
        message = (
            f"{row.requests} requests say nothing about a 99th percentile beyond their largest "
            f"({', '.join(f'{m}_p99_s' for m in tails)}); send 300 or more"
        )
        yield "requests", "too few for a p99", message
    if served is not None and row.window_s:
        rate = row.success_rate.interval(FRACTION)
        lower, upper = (row.requests * end for end in ((rate.lo, rate.hi) if rate is not None else (0.0, 1.0)))
        counted, room = served * row.window_s, 1.0 + _in_flight(row, cell, workload)
        if counted > upper * (1.0 + SHARE) + room or counted < lower * (1.0 - SHARE) - room:
            sent = f"{row.requests:,} requests" + (f" x success {success:g}" if success is not None else "")
            message = (
                f"{number_text(served)} requests/s x {row.window_s:g} s make {counted:,.0f} requests, but the row has {sent}; "
                "check throughput_rps, window_s and requests"
            )
            yield "requests", "against the throughput", message


def _in_flight(row: Measurement, cell: Cell, workload: WorkloadClass) -> float:
    """How many requests may have begun on one side of an edge of the window and ended on the other, at most."""
    if cell.offered is None:
        return math.inf
    if cell.load_kind is LoadKind.CONCURRENCY:
        return cell.offered
    tails = {m: row.tail(m).value for m in TAIL_METRICS}
    answer_s = (tails["tpot"] or 0.0) * (workload.output_tokens or 0.0) or LONGEST_ANSWER_S
    longest_s = tails["e2e"] if tails["e2e"] is not None else answer_s + (tails["ttft"] or 0.0)
    return cell.offered * longest_s
