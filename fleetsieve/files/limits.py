"""Limits of an SLO that can be, but look as if they were in another unit: 500 for half a second, or 0.0005.

A limit has a plausible size of its own, and where its class was measured it has the size of what was seen: a limit that hundreds
of times the usual tail would meet limits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from fleetsieve.files.classes import ClassesFile
from fleetsieve.files.faults import FaultList
from fleetsieve.instance import TAIL_METRICS, Measurement, WorkloadClass

LONGEST_LIMIT_S = {"ttft": 100.0, "e2e": 3_600.0, "tpot": 1.0}
"""Nobody promises so slow an answer, but in milliseconds many do."""

SHORTEST_LIMIT_S = {"ttft": 0.005, "e2e": 0.02, "tpot": 0.0005}
"""No server of language models is so fast."""

TIMES_MEASURED = 200.0
"""A limit this many times the median of its measured tails is met by everything."""

Medians = Mapping[tuple[str, str], float]
"""The median of a class's measured p99 in seconds, by class name and metric."""


def measured_medians(classes: Iterable[WorkloadClass], rows: Iterable[Measurement]) -> Medians:
    """The medians of the measured tails of the classes."""
    names = {c.name for c in classes}
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        name = row.key.class_name
        if name in names:
            for metric in TAIL_METRICS:
                value = row.tail(metric).value
                if value:
                    values.setdefault((name, metric), []).append(value)
    return {key: median(found) for key, found in values.items()}


def too_long(metric: str, limit_s: float, median_s: float | None = None) -> str:
    """The message about a limit of `limit_s` seconds that nothing would miss; "" where it is plausible.

    `metric` is one of "ttft", "e2e", "tpot", and `median_s` the median of the class's measured p99s, where there are any.
    """
    longest = LONGEST_LIMIT_S[metric]
    meant = f"; was {limit_s:g} ms meant? Then write {limit_s:g}ms"
    if limit_s > longest:
        return f"a limit of {limit_s:g} s is above {longest:,g} s, and limits nothing{meant}"
    if median_s is not None and limit_s > TIMES_MEASURED * median_s:
        times = f"{limit_s / median_s:,.0f} times"
        return (
            f"a limit of {limit_s:g} s is {times} the median of the measured {metric}_p99_s ({median_s:.3g} s){meant}"
        )
    return ""


def too_short(metric: str, limit_s: float) -> str:
    """The message about a limit of `limit_s` seconds that no server meets; "" where it is plausible."""
    if limit_s >= SHORTEST_LIMIT_S[metric]:
        return ""
    meant = f"was {limit_s * 1000.0:g} s meant? Then write {limit_s * 1000.0:g}s"
    return f"a limit of {limit_s:g} s is below {SHORTEST_LIMIT_S[metric]:g} s, which no server meets; {meant}"


def suspect_limits(stated: ClassesFile, rows: Iterable[Measurement], faults: FaultList) -> None:
    """Add the warnings about the limits of a classes.csv without errors; `rows` are what was measured of its classes."""
    lines = stated.lines or {}
    limited = [(c, m, limit) for c in stated.classes for m in TAIL_METRICS if (limit := c.slo.limit_s(m)) is not None]
    medians = measured_medians([c for c, _, _ in limited], rows)
    for workload, metric, limit_s in limited:
        why = too_long(metric, limit_s, medians.get((workload.name, metric))) or too_short(metric, limit_s)
        if why:
            column = f"max_{metric}_p99_{'ms' if metric in stated.in_ms else 's'}"
            faults.suspect(lines[workload.name], column, "implausible limit", why)
