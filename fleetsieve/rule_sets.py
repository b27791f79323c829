"""The sets of rules by which rows become bounds: what a stored certificate was derived by can be derived again.

A set is never changed once a version with it is released: a new rule makes a new set, under the next number. A certificate and a
run name their set; those of version 0.1.0, which named none, have set 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fleetsieve.errors import UsageError


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What a row means under one set of rules.

    `refuses`: a measurement whose load was not that of its cell, or without one success, counts as a failure that a second try
    may not repeat; failed starts show nothing where no server ever started; requests without a record count as failed.
    `least_success`: a row bounds the capacity of other cells only if its own success may be as high as this fraction.
    """

    number: int
    refuses: bool
    least_success: float


RULE_SETS: Mapping[int, RuleSet] = MappingProxyType(
    {1: RuleSet(1, refuses=False, least_success=0.0), 2: RuleSet(2, refuses=True, least_success=0.99)}
)
FIRST = 1
"""The set of whatever names none: of version 0.1.0."""

CURRENT = 2
"""The set by which everything new is derived."""


def rule_set(number: int) -> RuleSet:
    """The set with this number.

    Raises:
        UsageError: when this version does not know it.
    """
    if number not in RULE_SETS:
        raise UsageError(f"rule set {number} is not known", f"this version knows {', '.join(map(str, RULE_SETS))}")
    return RULE_SETS[number]
