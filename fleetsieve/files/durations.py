"""A time with its unit, as people write an SLO: `500ms`, `0.5s`. It is converted once, where it is read; inside are seconds."""

from __future__ import annotations

import re
from decimal import Decimal

_DURATION = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(ms|s)?", re.ASCII | re.IGNORECASE)
_PLACES = {"s": 0, "ms": 3}


def duration(text: str, unit: str = "s") -> float | None:
    """The time in `unit` ("s" or "ms") that a text states, whose own unit goes first; None where it is no time.

    The conversion is exact: 34.2 ms are the very number that is written 0.0342.

    >>> duration("34.2ms"), duration("0.5 s"), duration("0.5"), duration("0.5s", "ms"), duration("5 min")
    (0.0342, 0.5, 0.5, 500.0, None)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    stated_unit = (match[2] or unit).lower()
    return float(Decimal(match[1]).scaleb(_PLACES[unit] - _PLACES[stated_unit]))


def seconds_of_ms(milliseconds: float) -> float:
    """Milliseconds as seconds.

    >>> seconds_of_ms(34.2)
    0.0342
    """
    return float(Decimal(repr(milliseconds)).scaleb(-_PLACES["ms"]))
