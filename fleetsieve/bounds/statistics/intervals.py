"""Intervals from requests: order statistics for a p99, Clopper-Pearson for success, batch means for throughput.

`alpha` is the error of ONE side everywhere: each bound fails with at most that probability. Requests are taken as independent (a
listed assumption), batches as independent and near normal.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np

from fleetsieve.interval import FRACTION, Interval
from fleetsieve.records import Floats, RequestRecords

P99 = 0.99
FEWEST_BATCHES, MAX_BATCHES = 10, 30
"""Parts of a window for batch means; more than 30 narrow an interval little (Schmeiser, Operations Research 30, 1982)."""

_E2E_PER_BATCH = 5.0
"""A batch lasts at least so many median latencies, where the window allows: neighbours then share few requests."""

_ONE_SIGMA = NormalDist().cdf(-1.0)


def requests_for_p99_bound(confidence: float, cells: int = 1) -> int:
    """Requests that an upper p99 bound needs: ceil(ln α / ln 0.99) with α = (1 - confidence) / cells.

    The largest of n independent requests lies above the true p99 with probability 1 - 0.99^n; with fewer requests no order
    statistic bounds it. `confidence` in (0, 1); `cells` >= 1 share the error.

    >>> requests_for_p99_bound(0.95), requests_for_p99_bound(0.95, 12), requests_for_p99_bound(0.95, 45)
    (299, 546, 677)
    """
    return requests_for_upper_p99((1.0 - confidence) / cells)


def requests_for_upper_p99(alpha: float) -> int:
    """Requests from which on the largest bounds the p99 from above with an error of `alpha` in (0, 1).

    >>> requests_for_upper_p99(0.05)
    299
    """
    return math.ceil(math.log(alpha) / math.log(P99))


@cache
def p99_ranks(requests: int, alpha: float) -> tuple[int, int | None]:
    """The ranks (from 1) of the order statistics that bound the p99 from below and above; 0 and None where none does.

    Of n requests, those below the true p99 are at most, and those at or below it at least, binomial B(n, 0.99). X_(r) is below the
    p99 only if r or more requests are: P(B >= r) <= α for the upper rank. X_(s) is above it only if fewer than s are at or
    below: P(B <= s - 1) <= α for the lower one. (David and Nagaraja, Order Statistics, 2003, 7.1.)

    >>> p99_ranks(299, 0.05), p99_ranks(298, 0.05)
    ((293, 299), (292, None))
    """
    if requests == 0:
        return 0, None
    from scipy import stats  # here and below: a second to load, and tables without records or estimates need none of it

    law = stats.binom(requests, P99)
    upper = int(law.isf(alpha)) + 1
    while upper <= requests and law.sf(upper - 1) > alpha:
        upper += 1
    lower = int(law.ppf(alpha))
    while lower > 0 and law.cdf(lower - 1) > alpha:
        lower -= 1
    return lower, upper if upper <= requests else None


def p99_interval(latencies_s: Floats, alpha: float) -> Interval:
    """The distribution-free interval of the p99, with an error of `alpha` on each side; +inf with too few requests."""
    ordered = np.sort(latencies_s)
    lower, upper = p99_ranks(len(ordered), alpha)
    return Interval(float(ordered[lower - 1]) if lower else 0.0, float(ordered[upper - 1]) if upper else math.inf)


def success_interval(succeeded: int, sent: int, alpha: float) -> Interval:
    """Clopper and Pearson's interval of a success probability, with an error of `alpha` on each side.

    >>> success_interval(100, 100, 0.05).lo > 0.97, success_interval(0, 0, 0.05) == FRACTION
    (True, True)
    """
    if sent == 0:
        return FRACTION
    from scipy import stats

    low = float(stats.beta.ppf(alpha, succeeded, sent - succeeded + 1)) if succeeded else 0.0
    high = float(stats.beta.isf(alpha, succeeded + 1, sent - succeeded)) if succeeded < sent else 1.0
    return Interval(low, high)


def batch_rates_rps(records: RequestRecords) -> Floats:
    """Completions per second in equal parts of a measurement's window: FEWEST_BATCHES to MAX_BATCHES of them."""
    latencies = records.latencies_s("e2e")
    span = _E2E_PER_BATCH * float(np.median(latencies)) if len(latencies) else math.inf
    fit = MAX_BATCHES if span <= 0.0 else math.floor(min(records.window_s / span, MAX_BATCHES))
    return records.batch_rates_rps(max(FEWEST_BATCHES, fit))


def rate_interval(rates_rps: Floats, alpha: float) -> Interval:
    """Student's interval of the mean of batch rates in requests/s, with an error of `alpha` on each side; at least two batches."""
    mean, count = float(np.mean(rates_rps)), len(rates_rps)
    half = t_quantile(alpha, count - 1) * float(np.std(rates_rps, ddof=1)) / math.sqrt(count)
    return Interval(max(0.0, mean - half), mean + half)


def p99_error(latencies_s: Floats) -> float | None:
    """The standard error of ln(p99) within a run, from the order statistics one σ away; None with too few requests."""
    near = p99_interval(latencies_s, _ONE_SIGMA)
    return math.log(near.hi / near.lo) / 2.0 if near.lo > 0.0 and near.hi < math.inf else None


def rate_error(rates_rps: Floats) -> float | None:
    """The standard error of ln(mean of batch rates) within a run; None where nothing completed."""
    mean = float(np.mean(rates_rps))
    return float(np.std(rates_rps, ddof=1)) / math.sqrt(len(rates_rps)) / mean if mean > 0.0 else None


@cache
def normal_quantile(alpha: float) -> float:
    """The standard normal value that is exceeded with probability `alpha`."""
    return -NormalDist().inv_cdf(alpha)


@cache
def t_quantile(alpha: float, dof: int) -> float:
    """The value of Student's t with `dof` degrees of freedom that is exceeded with probability `alpha`."""
    from scipy import stats

    return float(stats.t.isf(alpha, dof))
