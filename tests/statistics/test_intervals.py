"""Intervals from requests hold as often as they say, and no tighter ones would."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fleetsieve.bounds.statistics import requests_for_p99_bound
from fleetsieve.bounds.statistics.intervals import (
    p99_interval,
    p99_ranks,
    rate_interval,
    requests_for_upper_p99,
    success_interval,
)
from fleetsieve.interval import FRACTION

ALPHAS = st.sampled_from([0.2, 0.05, 0.01, 1e-3, 1e-4])


def below(n: int, k: int) -> float:
    """P(at most k of n requests are at or below the p99), summed term by term."""
    return math.fsum(math.comb(n, j) * 0.99**j * 0.01 ** (n - j) for j in range(k + 1))


@pytest.mark.slow
@given(st.integers(1, 900), ALPHAS)
def test_ranks_are_the_tightest_that_keep_the_error(n: int, alpha: float) -> None:
    lower, upper = p99_ranks(n, alpha)
    if upper is not None:
        assert 1.0 - below(n, upper - 1) <= alpha * (1 + 1e-9)
    tighter = n if upper is None else upper - 1
    if tighter > 0:
        assert 1.0 - below(n, tighter - 1) > alpha * (1 - 1e-9)
    if lower:
        assert below(n, lower - 1) <= alpha * (1 + 1e-9)
    if lower < n:
        assert below(n, lower) > alpha * (1 - 1e-9)


@given(ALPHAS)
def test_as_many_requests_as_are_asked_for_bound_the_p99(alpha: float) -> None:
    needed = requests_for_upper_p99(alpha)
    assert p99_ranks(needed, alpha)[1] is not None
    assert p99_ranks(needed - 1, alpha)[1] is None


def test_published_numbers_of_requests() -> None:
    assert [requests_for_p99_bound(0.95, cells) for cells in (1, 12, 45)] == [299, 546, 677]


@pytest.mark.parametrize("draw", ["exponential", "pareto", "lognormal"])
def test_the_p99_is_inside_as_often_as_is_said(draw: str) -> None:
    law = {"exponential": stats.expon(), "pareto": stats.pareto(1.5), "lognormal": stats.lognorm(1.0)}[draw]
    truth, generator = float(law.ppf(0.99)), np.random.default_rng(7)
    trials = 4000
    missed = [0, 0]
    for sample in law.rvs(size=(trials, 700), random_state=generator):
        told = p99_interval(sample, 0.05)
        missed[0] += told.lo > truth
        missed[1] += told.hi < truth
    for count in missed:
        assert stats.binomtest(count, trials, 0.05, alternative="greater").pvalue > 1e-4
        assert count > 0.2 * 0.05 * trials, "an interval that is never wrong is too wide"


def test_too_few_requests_bound_nothing_from_above() -> None:
    told = p99_interval(np.array([1.0, 2.0, 3.0]), 0.05)
    assert told.hi == math.inf
    assert told.lo <= 3.0
    assert p99_interval(np.array([]), 0.05).lo == 0.0


@given(st.integers(1, 400), st.data(), ALPHAS)
def test_success_is_clopper_and_pearsons(sent: int, data: st.DataObject, alpha: float) -> None:
    good = data.draw(st.integers(0, sent))
    told = success_interval(good, sent, alpha)
    wanted = stats.binomtest(good, sent).proportion_ci(1.0 - 2.0 * alpha, method="exact")
    assert told.lo == pytest.approx(wanted.low, abs=1e-9)
    assert told.hi == pytest.approx(wanted.high, abs=1e-9)


def test_no_request_says_nothing_of_success() -> None:
    assert success_interval(0, 0, 0.05) == FRACTION


def test_rates_by_batch_means_are_students() -> None:
    rates = np.array([9.0, 11.0, 10.0, 10.5, 9.5])
    told = rate_interval(rates, 0.025)
    low, high = stats.t.interval(0.95, 4, loc=rates.mean(), scale=stats.sem(rates))
    assert told.lo == pytest.approx(low)
    assert told.hi == pytest.approx(high)
