"""Whether a measurement counts: one rule for what was measured live and what was imported.

A measurement is of its cell only if the cell's load was on the server. One that was sent more lightly shows tails that are too good
and a throughput that is too low, so it may neither commit its cell nor bound another. It is treated as a failure that a second try
may not repeat: it keeps the cell out of the committed plan and leaves it open under the upper bounds.

 - No success: without one successful request there is no tail and no capacity.
 - Closed loop: Little's law. c requests/s that take W seconds each on average are c W in flight; of a loop that was held these
   are the concurrency N. With requests the mean W is known; without, the p99 takes its place, or the middle of median and p99:
   half of the requests took the median at most, and nearly all others the p99.
 - Open loop, from requests: what was sent against what was due; and how late.
 - Open loop, from figures alone: of λ requests/s that arrive during W seconds while c are served, (λ - c) W wait at its end, so the
   last of them takes W (1 - c/λ) seconds at least. A p99 that is far below that contradicts the stated load.
 - Answers of a length that has nothing to do with the class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fleetsieve.bounds.statistics.points import quantile
from fleetsieve.instance import Cell, Instance, LoadKind, Measurement, Status, WorkloadClass
from fleetsieve.interval import FRACTION, NON_NEGATIVE, Interval
from fleetsieve.records import Floats, RequestRecords
from fleetsieve.rule_sets import rule_set

HELD_LOOP = 0.8
"""A closed loop that held less than this share of its concurrency was of another load."""

HELD_RATE = 0.9
"""An open loop whose requests were sent at less than this share of their scheduled rate was of another load."""

LATE_SHARE = 0.25
"""The p99 of how late requests were sent may be this share of the class's TTFT limit: beyond it the client shapes the tail."""

LEAST_LATE_S = 0.01
"""Nobody sends more exactly than this: it is allowed whatever the limit."""

LATE_WINDOW, LEAST_LATE_WINDOW_S = 0.1, 0.25
"""Without a TTFT limit: a tenth of the window, and this many seconds at least."""

OTHER_RATE = 2.0
"""Records that were scheduled at less than 1 / 2 or more than 2 times the cell's rate are of another cell."""

RATE_SIGMAS = 4.0
"""Standard deviations of a Poisson count that a scheduled number of requests may be off beside."""

OTHER_LENGTH = 4.0
"""Answers with less than 1 / 4 or more than 4 times the class's output tokens on average are of another class."""

BACKLOG_SHARE = 0.5
"""A p99 below this share of the wait that a backlog would have made contradicts the backlog."""

FAILED_TIMES = 2.0
"""A request that failed may have been in flight for so many p99s of the others."""

TOO_MANY = 1.25
"""A closed loop with more than so many times its concurrency in flight was of another load, or its figures are wrong."""


def why_not_counted(cell: Cell, row: Measurement, workload: WorkloadClass) -> str:
    """Why a measurement with status ok shows nothing about its cell, as part of a sentence; "" where it counts.

    `workload` is the class of the cell, whose TTFT limit and output tokens matter.
    """
    if row.status is not Status.OK:
        return ""
    if row.records is not None:
        return _why_records(cell, row.records, workload)
    success = row.success_rate.interval(FRACTION) or Interval.point(1.0)
    served = row.throughput_rps.interval(NON_NEGATIVE)
    if success.hi == 0.0 or (served is not None and served.hi == 0.0) or row.requests == 0:
        return "no request succeeded"
    if served is None or not cell.offered:
        return ""
    if cell.load_kind is LoadKind.RATE:
        if served.lo > OTHER_RATE * cell.offered:
            return f"the load is another one: {served.lo:.3g} requests/s were served, of {cell.offered:g} offered"
        return _why_backlog(row, served.hi, success.lo, cell.offered)
    if row.e2e_p50_s is not None and (least := served.lo * row.e2e_p50_s / 2.0) > TOO_MANY * cell.offered:
        return f"the load is another one: at least {least:.3g} requests were in flight, of {cell.offered:g}"
    longest_s = _longest_s(row)
    if longest_s is None or success.lo == 0.0 or not math.isfinite(served.hi):
        return ""
    failed = 1.0 / success.lo - 1.0
    return _why_loop(served.hi * longest_s * (1.0 + FAILED_TIMES * failed), cell.offered)


def shows_overload(cell: Cell, row: Measurement) -> bool:
    """Whether the figures of an open loop that served less than it was offered bound its capacity from above.

    Served less means overload only where a backlog is behind it: requests that failed, or a tail as long as it would make them.
    Otherwise fewer may have been sent, and what was served is what the replica can do at least.
    """
    served, success = row.throughput_rps.interval(NON_NEGATIVE), row.success_rate.interval(FRACTION)
    if served is None or not cell.offered or served.hi >= HELD_RATE * cell.offered:
        return True
    if success is not None and success.hi < 1.0:
        return True
    longest_s = _longest_s(row)
    waits = None if row.window_s is None else BACKLOG_SHARE * _wait_s(served.hi, cell.offered, row.window_s)
    return longest_s is not None and waits is not None and longest_s >= waits


def rows_that_count(instance: Instance, rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """The rows as the rule set of the instance takes them, in their order.

    One that does not count is a `rejected` one, with the reason in `refused`. Where no server ever started, failed starts are a
    error of the configuration and no evidence about GPUs: they are refused too.

    Raises:
        UsageError: when the rule set is not known.
    """
    given = tuple(rows)
    if not rule_set(instance.certificate.rule_set).refuses:
        return given
    no_start = all(row.status is Status.FAILED_START for row in given)
    return tuple(_taken(instance, row, no_start) for row in given)


NEVER_STARTED = "no server ever started: that is a fault of the configuration"


def _taken(instance: Instance, row: Measurement, no_start: bool) -> Measurement:
    if no_start:
        return replace(row, refused=NEVER_STARTED)
    cell = instance.cell_by_key.get(row.key)
    why = "" if cell is None else why_not_counted(cell, row, instance.class_by_name[row.key.class_name])
    return replace(row, status=Status.REJECTED, refused=why) if why else row


def in_flight(records: RequestRecords) -> float:
    """How many requests were in flight on average in the window.

    One that failed counts with FAILED_TIMES the p99 of the others at most, whenever it ended. Where no request of the warm-up is
    recorded, the time in which those before the window may have been in flight is left out, up to half of the window.
    """
    good = records.e2e_s[records.ok & np.isfinite(records.e2e_s)]
    longest_s = float(np.quantile(good, 0.99)) if len(good) else 0.0
    lasted = np.where(np.isfinite(records.e2e_s), records.e2e_s, FAILED_TIMES * longest_s)
    start_s = 0.0 if (records.sent_at_s < 0.0).any() else min(longest_s, records.window_s / 2.0)
    ended = np.minimum(records.sent_at_s + lasted, records.window_s)
    inside = ended - np.maximum(records.sent_at_s, start_s)
    return float(np.maximum(inside, 0.0).sum()) / (records.window_s - start_s)


def allowed_late_s(workload: WorkloadClass, window_s: float) -> float:
    """How late the p99 of the requests of a window of `window_s` may be sent, in seconds."""
    limit_s = workload.slo.max_ttft_p99_s
    by_window = max(LATE_WINDOW * window_s, LEAST_LATE_WINDOW_S)
    return by_window if limit_s is None else min(by_window, max(LATE_SHARE * limit_s, LEAST_LATE_S))


def _why_records(cell: Cell, records: RequestRecords, workload: WorkloadClass) -> str:
    if not records.succeeded:
        return "no request succeeded"
    if why := _why_length(records, workload):
        return why
    if not cell.offered:
        return ""
    if cell.load_kind is LoadKind.CONCURRENCY:
        held = in_flight(records)
        if held > TOO_MANY * cell.offered:
            return f"the load is another one: {held:.3g} requests were in flight, of {cell.offered:g}"
        return _why_loop(held, cell.offered)
    return _why_rate(records, cell.offered, allowed_late_s(workload, records.window_s))


def _why_loop(in_flight: float, concurrency: float) -> str:
    if in_flight >= HELD_LOOP * concurrency:
        return ""
    return f"the load was not held: at most {in_flight:.3g} requests were in flight, of {concurrency:g}"


def _why_rate(records: RequestRecords, offered_rps: float, allowed_late_s: float) -> str:
    """Open loop, from requests: they were sent at another rate than the cell's, or late, or more slowly than they were due."""
    inside = records.sent_at_s >= 0.0
    due = records.scheduled_at_s
    known = np.zeros(len(inside), dtype=bool) if due is None else inside & np.isfinite(due)
    count, expected = records.sent, offered_rps * records.window_s
    spread = RATE_SIGMAS * math.sqrt(expected)
    if count < expected / OTHER_RATE - spread or count > expected * OTHER_RATE + spread:
        return f"the load is another one: {count / records.window_s:.3g} requests/s were sent, of {offered_rps:g}"
    if due is None or not known.any():
        return ""
    sent_s, due_s = records.sent_at_s[known], due[known]
    late_s = quantile(np.abs(sent_s - due_s), 0.99) or 0.0
    pace = _pace(sent_s, due_s)
    if pace < HELD_RATE and late_s > LEAST_LATE_S:
        return f"the load was not held: requests were sent at {pace:.0%} of their scheduled rate"
    if late_s > allowed_late_s:
        off = f"{late_s:.3g} s off their time or more (limit {allowed_late_s:.3g} s)"
        return f"the load was not held: 1 % of the requests were sent {off}"
    return ""


def _pace(sent_s: Floats, due_s: Floats) -> float:
    """At which share of their scheduled rate requests were sent: the time from first to last as it was due, over that it took."""
    took, planned = float(np.ptp(sent_s)), float(np.ptp(due_s))
    return planned / took if took > 0.0 else 1.0


def _why_backlog(row: Measurement, served_rps: float, success: float, offered_rps: float) -> str:
    """Open loop, from figures alone: a backlog that the tail contradicts. A request that failed left the queue too."""
    longest_s = _longest_s(row)
    if row.window_s is None or longest_s is None or success == 0.0 or served_rps / success >= HELD_RATE * offered_rps:
        return ""
    wait_s = _wait_s(served_rps / success, offered_rps, row.window_s)
    if longest_s >= BACKLOG_SHARE * wait_s:
        return ""
    return (
        f"the load was not held: {served_rps:.3g} of {offered_rps:g} requests/s were served for {row.window_s:g} s, and yet "
        f"1 % of the requests took {longest_s:.3g} s or more, not {wait_s:.3g} s"
    )


def _wait_s(served_rps: float, offered_rps: float, window_s: float) -> float:
    """How long the last request of a window waits for those before it."""
    return window_s * max(0.0, 1.0 - served_rps / offered_rps)


def _why_length(records: RequestRecords, workload: WorkloadClass) -> str:
    tokens = records.output_tokens
    if tokens is None or not workload.output_tokens:
        return ""
    good = tokens[records.ok & (records.sent_at_s >= 0.0) & np.isfinite(tokens)]
    mean = float(np.mean(good)) if len(good) else workload.output_tokens
    if workload.output_tokens / OTHER_LENGTH <= mean <= workload.output_tokens * OTHER_LENGTH:
        return ""
    return f"the answers are of another length: {mean:.3g} output tokens on average, of {workload.output_tokens:g}"


def _longest_s(row: Measurement) -> float | None:
    """A time that the mean end-to-end latency does not exceed; None where nothing shows."""
    e2e = row.e2e_p99_s.interval(NON_NEGATIVE)
    if e2e is None or not math.isfinite(e2e.hi):
        return None
    if row.e2e_p50_s is not None and row.e2e_p50_s <= e2e.hi:
        return (row.e2e_p50_s + e2e.hi) / 2.0
    return e2e.hi
