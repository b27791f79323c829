"""Why a load was not sent as it was asked for. Each check gives the reasons in words, and none when all is well."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fleetsieve.bounds.statistics.points import quantile
from fleetsieve.files.records import RequestRow

SEND_ERROR_LIMIT_S = 0.05
"""A p99 send-time error above this is reported."""

LEAST_IN_FLIGHT = 0.9
"""A closed loop that held less than this share of its concurrency is reported."""

LEAST_SENT = 0.95
"""Of the requests that are due in a window, the share that is to be sent in it."""

THROUGHPUTS_AGREE = 0.1
"""Two ways to count a closed loop's throughput may differ by this share, and by what begins and ends at the window's edges."""

WHOLE_ANSWERS = 0.01
"""Answers of several tokens that come in one piece show no time per token; more than this share of them is reported."""

TOKENS_OFF = 0.02
"""Prompts whose length is off by more than this share on average are reported."""


def median_and_p99(late_s: Sequence[float]) -> tuple[float | None, float | None]:
    """The median and the p99 of send-time errors in seconds; None without any."""
    values = np.array(late_s, dtype=np.float64)
    return quantile(values, 0.5), quantile(values, 0.99)


def of_sending(late_s: Sequence[float], limit_s: float) -> list[str]:
    """Open loop: requests that were sent too late."""
    tail = median_and_p99(late_s)[1]
    if tail is None or tail <= limit_s:
        return []
    return [f"1 % of the requests were sent {1e3 * tail:.0f} ms late or more (limit {1e3 * limit_s:.0f} ms)"]


def of_window(due: int, sent: int) -> str:
    """Why the load of an open loop was not held: `due` requests were due in the window, and too few were `sent` in it; else "".

    Those that were sent after the window are no part of it, so its requests do not show that they are lacking.
    """
    return (
        "" if sent >= LEAST_SENT * due else f"the load was not held: {sent} of {due} requests were sent in their window"
    )


def mean_in_flight(rows: Sequence[RequestRow], window_s: float) -> float:
    """How many requests were in flight on average in the window; one that never ended was until its end."""
    total = 0.0
    for row in rows:
        end = window_s if row.e2e_s is None else min(window_s, row.sent_at_s + row.e2e_s)
        total += max(0.0, end - max(0.0, row.sent_at_s))
    return total / window_s


def of_closed_loop(
    rows: Sequence[RequestRow], window_s: float, concurrency: int | None, mean_in_flight: float | None
) -> list[str]:
    """Closed loop: too few requests in flight, or completions that disagree with Little's law.

    N requests in flight that take W seconds each on average make N / W requests/s. Records that were lost, or a window that
    was cut wrongly, make the completions in the window disagree with that.
    """
    if concurrency is None or mean_in_flight is None:
        return []
    warnings = []
    if mean_in_flight < LEAST_IN_FLIGHT * concurrency:
        warnings.append(_held(mean_in_flight, concurrency))
    ended = [row for row in rows if row.e2e_s is not None and 0.0 <= row.sent_at_s + row.e2e_s < window_s]
    mean_s = sum(row.e2e_s or 0.0 for row in ended) / len(ended) if ended else 0.0
    if mean_s > 0.0:
        counted, by_law = len(ended) / window_s, mean_in_flight / mean_s
        if not math.isclose(counted, by_law, rel_tol=THROUGHPUTS_AGREE, abs_tol=concurrency / window_s):
            warnings.append(
                f"{counted:.3g} requests/s ended in the window, but {mean_in_flight:.1f} in flight for {mean_s:.3g} s each "
                f"make {by_law:.3g}"
            )
    return warnings


def _held(mean_in_flight: float, concurrency: int) -> str:
    return f"{mean_in_flight:.1f} requests were in flight on average, of {concurrency}"


def of_lengths(counted: Sequence[tuple[int, int]]) -> list[str]:
    """Prompts that the server counted otherwise than they were made: pairs of (tokens sent, tokens counted)."""
    if not counted:
        return []
    sent, counted_mean = (float(np.mean(column)) for column in zip(*counted, strict=True))
    if abs(counted_mean - sent) <= max(1.5, TOKENS_OFF * sent):
        return []
    return [f"the server counted {counted_mean:.1f} tokens a prompt on average, where {sent:.1f} were sent"]


def of_strangers(count: int) -> list[str]:
    """Records that name no request of the schedule: `count` of them were ignored."""
    if not count:
        return []
    records = "1 record names" if count == 1 else f"{count} records name"
    return [f"{records} no request of this measurement, and {'was' if count == 1 else 'were'} ignored"]


def places_of_failures(rows: Sequence[RequestRow], window_s: float) -> float:
    """How many places of a closed loop are empty on average because the window's requests failed early.

    Each that was recorded as failed would have held its place as long as a good one does on average.
    """
    inside = [row for row in rows if row.sent_at_s >= 0.0]
    good_s = [row.e2e_s or 0.0 for row in inside if row.status == "ok"]
    if not good_s:
        return math.inf
    mean_s = sum(good_s) / len(good_s)
    failed = [row for row in inside if row.status not in ("ok", "missing")]
    return sum(max(0.0, mean_s - (row.e2e_s or 0.0)) for row in failed) / window_s


def of_pieces(good: Sequence[RequestRow]) -> list[str]:
    """Answers of several tokens whose last one came with the first: their time per output token is 0, and shows nothing."""
    several = [row for row in good if (row.output_tokens or 0) >= 2]
    whole = sum(row.e2e_s == row.ttft_s for row in several)
    if whole <= WHOLE_ANSWERS * len(several):
        return []
    return [f"{whole} of {len(several)} answers came in one piece: their time per output token is not known"]
