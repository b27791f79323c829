"""How a page rounds, everywhere alike: what is guaranteed goes down, what is still possible and the gap go up.

Rates have three decimals, shares one decimal of a per cent, gaps three decimals; closing zeros are left out.
"""

from __future__ import annotations

import math

from fleetsieve.interval import lower_text, upper_text

RULE = (
    "Figures that the plan guarantees are rounded down, what is still possible and the gap up: rates to 0.001 requests/s, "
    "shares to 0.1 %, gaps to 0.001; what is below 0.000001 is left out. Measured values are rounded to four digits."
)
"""The rule, stated once on the page."""

PER_CENT = "\u00a0%"
"""A line never breaks before it."""

NOTHING = 1e-6
"""Solvers round outwards by less than this: nothing that a person could act on."""


def rate(value_rps: float, *, lower: bool = True) -> str:
    """Requests/s without their unit, rounded down (`lower`) or up.

    >>> rate(139.37781), rate(16.0), rate(48.00000003, lower=False)
    ('139.377', '16', '48')
    """
    return _short(lower_text(value_rps, 3) if lower else _upper(value_rps, 3))


def share(value: float, *, lower: bool = True) -> str:
    """A fraction as per cent, rounded down (`lower`) or up.

    >>> share(0.94118), share(1.0), share(0.7058, lower=False)
    ('94.1\xa0%', '100\xa0%', '70.6\xa0%')
    """
    return f"{_short(lower_text(100.0 * value, 1) if lower else _upper(100.0 * value, 1))}{PER_CENT}"


def points(value: float, *, lower: bool = False) -> str:
    """A difference of two shares in points of a per cent, rounded up unless `lower`.

    >>> points(0.3526)
    '35.3\xa0points'
    """
    return share(value, lower=lower).replace(PER_CENT, "\u00a0points")


def gap_part(value: float | None) -> str:
    """The gap of one stage: "?" where nothing was proven, "0" below what a solver rounds by.

    >>> gap_part(0.0305), gap_part(9.7e-8), gap_part(None)
    ('0.031', '0', '?')
    """
    if value is None or not math.isfinite(value):
        return "?"
    return "0" if value < NOTHING else upper_text(value, 3)


def _upper(value: float, digits: int) -> str:
    return upper_text(value - NOTHING * max(1.0, abs(value)), digits)


def _short(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
