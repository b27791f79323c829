"""What the measurements of one cell show: rows in, one interval per quantity out.

- Looks with per-request records: order statistics, Clopper-Pearson and batch means over the records of all measurements pooled,
at the
  error that the k-th measurement may spend (see `rules`). Their point values are then only shown. An open loop carried at least
  what it was sent, over the time until the last of that was answered: batch means would take the scatter of its arrivals for its
  own.
- Looks without: a point value is taken as exact, bounds that a row brings as they stand, and several looks as the hull of what
  each states, so a second value never narrows the first without statistics behind it.
- Where the spread between runs is known, k measurements state exp(mean of ln ± q σ / √k): it widens every interval, and repeats
narrow
  it. With both parts each gets half of the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fleetsieve.bounds.statistics.counting import shows_overload
from fleetsieve.bounds.statistics.intervals import (
    batch_rates_rps,
    p99_interval,
    rate_interval,
    requests_for_upper_p99,
    success_interval,
)
from fleetsieve.bounds.statistics.known import KnownCell, without_record
from fleetsieve.bounds.statistics.rules import Rules
from fleetsieve.instance import TAIL_METRICS, THROUGHPUT, Cell, CellKey, LoadKind, Measurement, Reading, Slo, Status
from fleetsieve.interval import FRACTION, NON_NEGATIVE, Interval
from fleetsieve.records import RequestRecords

POISSON_SLACK = 0.05
"""A finite open-loop run may complete a few per cent more than the offered rate; beyond this the offered number is wrong."""

NO_LIMITS = Slo()


def summarise(cell: Cell, rows: Iterable[Measurement], rules: Rules | None = None, slo: Slo = NO_LIMITS) -> KnownCell:
    """What the rows of one cell show together; without `rules` no spread is known.

    `slo` only shows for which tails requests are missed. An open-loop replica cannot sustain more than it is offered: a throughput
    up to POISSON_SLACK above is cut to the offered rate.
    """
    looks = tuple(rows)
    rules = rules if rules is not None else Rules()
    good = [row for row in looks if row.status is Status.OK]
    if any(row.records is not None for row in good):
        return _recorded(cell, looks, good, rules, slo)
    tails_s = {metric: _combined([row.tail(metric) for row in good], rules, metric) for metric in TAIL_METRICS}
    capacity = _combined([_sustained(cell, row, rules) for row in good], rules, THROUGHPUT)
    return KnownCell(
        key=cell.key,
        rows=looks,
        capacity_rps=_at_most_offered(cell, capacity) if THROUGHPUT in rules.spreads else capacity,
        ttft_p99_s=tails_s["ttft"],
        e2e_p99_s=tails_s["e2e"],
        tpot_p99_s=tails_s["tpot"],
        success=_hull((row.success_rate for row in good), FRACTION),
    )


def _recorded(
    cell: Cell, looks: tuple[Measurement, ...], good: Sequence[Measurement], rules: Rules, slo: Slo
) -> KnownCell:
    """What per-request records state, those of all measurements that went well pooled."""
    recorded = [row.records for row in good if row.records is not None]
    count = len(recorded)
    spent = rules.spent(count)
    intervals: dict[str, Interval | None] = {}
    missing = 0
    for metric in TAIL_METRICS:
        alpha = spent / 2.0 if metric in rules.spreads else spent
        pooled = np.concatenate([records.latencies_s(metric) for records in recorded])
        intervals[metric] = _widened(p99_interval(pooled, alpha), rules, metric, count) if len(pooled) else None
        if slo.limit_s(metric) is not None:
            missing = max(missing, requests_for_upper_p99(alpha) - len(pooled))
    rates = np.concatenate([batch_rates_rps(records) for records in recorded])
    alpha = spent / 2.0 if THROUGHPUT in rules.spreads else spent
    capacity = rate_interval(rates, alpha)
    if cell.load_kind is LoadKind.RATE:
        carried = sum(r.succeeded for r in recorded) / math.fsum(r.until_served_s for r in recorded)
        low = max(capacity.lo, carried)
        capacity = Interval(low, max(capacity.hi, low) * _sent_short(cell, recorded, rules))
    capacity = _widened(capacity, rules, THROUGHPUT, count)
    sent, succeeded = sum(r.sent for r in recorded), sum(r.succeeded for r in recorded)
    success = success_interval(succeeded, sent, spent)
    if rules.rule_set.refuses and (lost := without_record(good)):
        # They count as failed against a commitment, and prove nothing: the count of the row may be wrong.
        success = Interval(success_interval(succeeded, sent + lost, spent).lo, success.hi)
    return KnownCell(
        key=cell.key,
        rows=looks,
        capacity_rps=_at_most_offered(cell, capacity),
        ttft_p99_s=intervals["ttft"],
        e2e_p99_s=intervals["e2e"],
        tpot_p99_s=intervals["tpot"],
        success=success,
        missing_requests=missing,
    )


def _sent_short(cell: Cell, recorded: Sequence[RequestRecords], rules: Rules) -> float:
    """How many times more an open loop would have been sent at its cell's rate; 1 where it was sent as much.

    What was not sent could not be served, so it bounds nothing from above.
    """
    sent, window_s = sum(r.sent for r in recorded), math.fsum(r.window_s for r in recorded)
    if not rules.rule_set.refuses or not cell.offered or not sent:
        return 1.0
    return max(1.0, cell.offered * window_s / sent)


def summarise_all(
    cells: Mapping[CellKey, Cell], rows: Iterable[Measurement], rules: Rules, slos: Mapping[str, Slo]
) -> dict[CellKey, KnownCell]:
    """`summarise` of every cell that has a row, in the order of first measurement; `slos` are those of the classes."""
    by_cell: dict[CellKey, list[Measurement]] = {}
    for row in rows:
        by_cell.setdefault(row.key, []).append(row)
    return {key: summarise(cells[key], rows, rules, slos[key.class_name]) for key, rows in by_cell.items()}


def _combined(readings: Sequence[Reading], rules: Rules, quantity: str) -> Interval | None:
    """The interval that the measurements' own figures give for one quantity."""
    spread = rules.spreads.get(quantity)
    if spread is None:
        return _hull(readings, NON_NEGATIVE)
    said = [interval for r in readings if (interval := r.interval(NON_NEGATIVE)) is not None]
    if not said:
        return None
    count = len(said)
    alpha = rules.spent(count) if all(interval.is_point for interval in said) else rules.spent(count) / 2.0
    if any(interval.lo <= 0.0 for interval in said):
        low = 0.0
    else:
        low = math.exp(math.fsum(math.log(interval.lo) for interval in said) / count)
    high = (
        math.exp(math.fsum(math.log(interval.hi) for interval in said) / count)
        if low > 0.0
        else max(interval.hi for interval in said)
    )
    half = spread.half_width(alpha, count)
    return Interval(low * math.exp(-half), high * math.exp(half))


def _widened(interval: Interval, rules: Rules, quantity: str, looks: int) -> Interval:
    """An interval of within-run error, widened by the spread between runs at the other half of the measurement's error."""
    spread = rules.spreads.get(quantity)
    if spread is None:
        return interval
    half = spread.half_width(rules.spent(looks) / 2.0, looks)
    return Interval(interval.lo * math.exp(-half), interval.hi * math.exp(half))


def _sustained(cell: Cell, row: Measurement, rules: Rules) -> Reading:
    """The throughput of one measurement of an open loop, cut to the offered rate unless all of it lies further above.

    Without a sign of overload what was served is a lower bound alone.
    """
    reading = row.throughput_rps
    interval = reading.interval(NON_NEGATIVE)
    if cell.load_kind is not LoadKind.RATE or cell.offered is None or interval is None:
        return reading
    if rules.rule_set.refuses and not shows_overload(cell, row):
        return Reading(lo=interval.lo, hi=cell.offered)
    cut = _at_most_offered(cell, interval)
    return reading if cut is interval or cut is None else Reading(lo=cut.lo, hi=cut.hi)


def _at_most_offered(cell: Cell, interval: Interval | None) -> Interval | None:
    """A capacity cut to the offered rate, unless all of it lies more than POISSON_SLACK above."""
    if interval is None or cell.load_kind is not LoadKind.RATE or cell.offered is None:
        return interval
    if interval.hi <= cell.offered or interval.lo > cell.offered * (1.0 + POISSON_SLACK):
        return interval
    return Interval(min(interval.lo, cell.offered), cell.offered)


def _hull(readings: Iterable[Reading], whole: Interval) -> Interval | None:
    hull: Interval | None = None
    for one in readings:
        interval = one.interval(whole)
        if interval is not None:
            hull = interval if hull is None else hull.hull(interval)
    return hull


def imagine(
    known: KnownCell | None,
    cell: Cell,
    rules: Rules,
    *,
    capacity_rps: float,
    tails_s: Mapping[str, float],
    success: float = FRACTION.hi,
) -> KnownCell:
    """What would be known of a cell after one more measurement that shows these values: for policies, never for a certificate.

    `tails_s` holds the p99 in seconds of the metrics that matter. Where no spread is known, an unmeasured cell becomes points.
    """
    looks = 0 if known is None else known.count(Status.OK)
    tails = {
        metric: _imagined(known.tail_s(metric) if known else None, looks, tails_s[metric], rules, metric)
        for metric in TAIL_METRICS
        if metric in tails_s
    }
    capacity = _imagined(known.capacity_rps if known else None, looks, capacity_rps, rules, THROUGHPUT)
    return KnownCell(
        key=cell.key,
        capacity_rps=_at_most_offered(cell, capacity),
        ttft_p99_s=tails.get("ttft"),
        e2e_p99_s=tails.get("e2e"),
        tpot_p99_s=tails.get("tpot"),
        success=Interval.point(success),
    )


def _imagined(before: Interval | None, looks: int, value: float, rules: Rules, quantity: str) -> Interval:
    """The interval of one quantity after `looks` measurements that gave `before` and one that shows `value`."""
    spread = rules.spreads.get(quantity)
    blurred = before is not None and not before.is_point
    if value <= 0.0 or (spread is None and not blurred):
        return Interval.point(value)
    middle, looks = math.log(value), looks if before is not None else 0
    if before is not None and before.lo > 0.0 and math.isfinite(before.hi):
        middle = (looks * math.log(before.lo * before.hi) / 2.0 + middle) / (looks + 1)
    if spread is not None:
        half = spread.half_width(rules.spent(looks + 1), looks + 1)
    elif before is not None and before.lo > 0.0 and math.isfinite(before.hi):
        half = math.log(before.hi / before.lo) / 2.0 * math.sqrt(looks / (looks + 1))
    else:
        half = 0.0
    return Interval(math.exp(middle - half), math.exp(middle + half))
