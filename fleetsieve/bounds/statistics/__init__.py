"""Measurements of a cell -> one interval per quantity: the error of each, the spread between runs, and what requests show."""

from fleetsieve.bounds.statistics.counting import rows_that_count, why_not_counted
from fleetsieve.bounds.statistics.intervals import requests_for_p99_bound, requests_for_upper_p99
from fleetsieve.bounds.statistics.known import FLAKES, KnownCell
from fleetsieve.bounds.statistics.rules import REFERENCE_SPREAD, Rules, Spread, shares
from fleetsieve.bounds.statistics.summary import POISSON_SLACK, imagine, summarise, summarise_all

__all__ = [
    "FLAKES",
    "POISSON_SLACK",
    "REFERENCE_SPREAD",
    "KnownCell",
    "Rules",
    "Spread",
    "imagine",
    "requests_for_p99_bound",
    "requests_for_upper_p99",
    "rows_that_count",
    "shares",
    "summarise",
    "summarise_all",
    "why_not_counted",
]
