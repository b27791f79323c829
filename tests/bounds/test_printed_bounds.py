"""Bounds as text: rounded outwards, a decimal that is meant stays as it is, and a zero has no sign."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fleetsieve.interval import lower_text, upper_text
from fleetsieve.report import rounding

VALUES = st.floats(-1e9, 1e9) | st.floats(-1e-5, 1e-5)
DIGITS = st.integers(0, 6)
ALIKE = Fraction(1, 10**9)


@given(VALUES, DIGITS)
def test_no_text_promises_more_than_is_proven(value: float, digits: int) -> None:
    exact, room, step = Fraction(value), abs(Fraction(value)) * ALIKE, Fraction(1, 10**digits)
    low, high = Fraction(lower_text(value, digits)), Fraction(upper_text(value, digits))
    assert exact - step < low <= exact + room
    assert exact - room <= high < exact + step


@given(st.integers(-(10**8), 10**8), DIGITS, st.floats(-0.9e-9, 0.9e-9))
def test_a_value_beside_a_decimal_that_can_be_printed_is_printed_as_that_decimal(
    steps: int, digits: int, beside: float
) -> None:
    """Float digits make 0.4 of 0.39999999999999997, and sums of floats less than that."""
    value = steps / 10**digits * (1.0 + beside)
    told = f"{steps / 10**digits:z.{digits}f}"
    assert (lower_text(value, digits), upper_text(value, digits)) == (told, told)


@given(VALUES, DIGITS)
def test_a_zero_has_no_sign(value: float, digits: int) -> None:
    texts = [text(value, digits) for text in (lower_text, upper_text)]
    texts += [text(value, lower=lower) for text in (rounding.rate, rounding.share) for lower in (True, False)]
    for told in texts:
        assert not told.startswith("-") or any(c in told for c in "123456789"), told


def test_nothing_of_something_is_zero() -> None:
    """What is still possible is rounded up from a little below: of nothing this is no negative zero."""
    assert rounding.rate(0.0, lower=False) == "0"
    assert rounding.share(0.0, lower=False) == "0\xa0%"
    assert lower_text(0.4 - 1e-10) == "0.400"
    assert lower_text(0.4 - 1e-8) == "0.399"
