"""Closed intervals of real numbers: what is known about a quantity.

Comparisons are exact: a certificate rests on them, so nothing here is "approximately equal". Bounds that go to a person
are rounded outwards (`lower_text`, `upper_text`), never to nearest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


@dataclass(frozen=True, slots=True)
class Interval:
    """The closed interval [lo, hi]; `hi` may be +inf, neither end may be NaN.

    Raises:
        ValueError: when an end is NaN or lo > hi.

    >>> Interval(1.0, 2.0).hull(Interval(1.5, 3.0))
    Interval(lo=1.0, hi=3.0)
    """

    lo: float
    hi: float

    def __post_init__(self) -> None:
        if math.isnan(self.lo) or math.isnan(self.hi):
            raise ValueError(f"an interval's end is NaN: [{self.lo}, {self.hi}]")
        if self.lo > self.hi:
            raise ValueError(f"an interval's ends are out of order: [{self.lo}, {self.hi}]")

    @classmethod
    def point(cls, value: float) -> Interval:
        """The interval that holds `value` alone."""
        return cls(value, value)

    @property
    def is_point(self) -> bool:
        """Whether the quantity is known exactly."""
        return self.lo == self.hi

    def __contains__(self, value: float) -> bool:
        return self.lo <= value <= self.hi

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def scaled(self, factor: float) -> Interval:
        """The interval times a factor >= 0 (with 0 x inf = 0)."""
        if factor == 0.0:
            return Interval(0.0, 0.0)
        return Interval(self.lo * factor, self.hi * factor)


NON_NEGATIVE = Interval(0.0, math.inf)
FRACTION = Interval(0.0, 1.0)


PRINTED_ALIKE = Decimal("1e-9")
"""A value this close, relative to itself, to a decimal that can be printed is printed as that decimal, and not rounded outwards.

What is below is rounding of sums, and within every tolerance of a decision; it would turn 0.4 into 0.399.
"""


def _rounded(value: float, digits: int, direction: str) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    exact, step = Decimal(repr(float(value))), Decimal(1).scaleb(-digits)
    rounded = exact.quantize(step)
    if abs(rounded - exact) > PRINTED_ALIKE * abs(exact):
        rounded = exact.quantize(step, rounding=direction)
    return str(abs(rounded) if rounded == 0 else rounded)  # a zero has no sign


def lower_text(value: float, digits: int = 3) -> str:
    """`value` as text with `digits` decimals, rounded down: a guarantee stays one when it is printed.

    >>> lower_text(0.9999, 3), lower_text(0.4 - 1e-10, 3)
    ('0.999', '0.400')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def upper_text(value: float, digits: int = 3) -> str:
    """`value` as text with `digits` decimals, rounded up: an optimistic bound stays one when it is printed.

    >>> upper_text(0.0501, 3)
    '0.051'
    """
    return _rounded(value, digits, ROUND_CEILING)
