"""How many examples a law is tried on: enough to find most faults in a run of all tests, and many more where time is no matter."""

from __future__ import annotations

import os

MAX_DRAWS = 100
ALL = os.environ.get("FLEETSIEVE_ALL_DRAWS") == "1"
"""`.ci/run` sets it: each law is tried on all its draws, and each slow test on all its cases, once for every change."""


def draws(count: int) -> int:
    """The number of examples of a law that has `count` of them: no more than 100, unless all were asked for."""
    return count if ALL else min(count, MAX_DRAWS)
