"""Where a stored document differs from the one that is derived again: figures within a tolerance, words but for rounded figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

AGREE = 1e-6
"""Two derivations of one value by different engines agree when they differ by less than this (relative to max(1, |value|))."""

PRINTED = 1.5
"""Printed figures agree within so many units of their last digit: a rounded one may fall to either side."""

WORDS = frozenset({"explanation", "rests_on", "statement", "reason"})
"""Keys whose values are sentences."""

SCHEMA_1 = frozenset(
    {
        *(
            "instance",
            "verdict",
            "epsilon",
            "eta",
            "gap",
            "conservative",
            "optimistic",
            "assumptions",
            "explanation",
            "dropped",
        ),
        *(
            "closed",
            "lower",
            "upper",
            "unservable",
            "open_classes",
            "blocking",
            "settling",
            "stopped",
            "rests_on",
            "confidence",
        ),
        *(
            "engine",
            "rows",
            "files",
            "versions",
            "shortfall",
            "best_min_fulfilment",
            "min_fulfilment",
            "goodput_rps",
            "goodput",
        ),
        *(
            "gpus_used",
            "classes",
            "class",
            "tp",
            "load",
            "pool",
            "variant",
            "replicas",
            "gpus",
            "served_rps",
            "demand_rps",
            "fulfilment",
        ),
        *(
            "utilisation",
            "tails",
            "ttft_p99_s",
            "e2e_p99_s",
            "tpot_p99_s",
            "lo",
            "hi",
            "slo",
            "name",
            "assumption",
            "arm",
        ),
        *("quantity", "seed", "status", "line", "horizon_h", "gap_rps", "worth_requests", "rps_per_gpu"),
    }
)
"""The keys that every certificate has: those of schema version 1. A key that came later may be absent in an older one."""

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


def differences(place: str, stated: Any, derived: Any, *, older: bool = False) -> list[str]:
    """Each difference in a sentence; empty when `stated` equals `derived`.

    More keys than the derived ones are no difference here. `older`: the document is of an older version, so that its words, which
    cannot be derived again, are ignored, and so are keys that it could not have yet.
    """
    return _differences(place, stated, derived, older, words=place in WORDS)


def _differences(place: str, stated: Any, derived: Any, older: bool, words: bool) -> list[str]:
    if words and older:
        return []
    if isinstance(derived, Mapping) and isinstance(stated, Mapping):
        found = []
        for key, value in derived.items():
            if key in stated:
                found += _differences(f"{place} {key}", stated[key], value, older, words or key in WORDS)
            elif not older or key in SCHEMA_1:
                found.append(f"{place} lacks {key!r}")
        return found
    if _listed(derived) and _listed(stated):
        if len(derived) != len(stated):
            return _by_entry(place, stated, derived)
        pairs = zip(stated, derived, strict=True)
        return [
            f for n, (one, other) in enumerate(pairs, 1) for f in _differences(f"{place} {n}", one, other, older, words)
        ]
    if _same(stated, derived) or (words and same_words(stated, derived)):
        return []
    return [f"{place} is {_shown(derived)}, the certificate says {_shown(stated)}"]


def _by_entry(place: str, stated: Sequence[Any], derived: Sequence[Any]) -> list[str]:
    """Lists of different lengths: of sentences those that only one has, of anything else how many there are."""
    if not all(isinstance(entry, str) for entry in (*stated, *derived)):
        return [f"{place} has {len(derived)} entries, the certificate has {len(stated)}"]
    only = [f"{place}: the certificate says, and it does not follow: {one}" for one in stated if one not in derived]
    lacking = [f"{place}: the certificate does not say: {one}" for one in derived if one not in stated]
    return only + lacking or [f"{place} has {len(derived)} entries, the certificate has {len(stated)}"]


def same_words(stated: Any, derived: Any) -> bool:
    """Whether two texts are the same, figures apart that were rounded to either side."""
    if not (isinstance(stated, str) and isinstance(derived, str)):
        return False
    if _NUMBER.sub("#", stated) != _NUMBER.sub("#", derived):
        return False
    pairs = zip(_NUMBER.findall(stated), _NUMBER.findall(derived), strict=True)
    return all(one == other or _rounded_alike(one, other) for one, other in pairs)


def _rounded_alike(one: str, other: str) -> bool:
    """Whether two printed decimals differ by no more than their rounding; whole numbers are counts and names, and do not."""
    digits = [len(text.partition(".")[2]) for text in (one, other) if "e" not in text]
    if len(digits) < 2 or max(digits) == 0:
        return False
    # A figure that is rounded to a whole number had the other's digits: "1" beside "0.9999".
    unit = 10.0 ** -(max(digits) if max(digits) >= 3 or min(digits) > 0 else 3)
    return abs(float(one) - float(other)) <= PRINTED * unit


def unknown_keys(place: str, stated: Any, derived: Any) -> list[str]:
    """The keys of a stated document that the derived one does not have, at any depth."""
    if isinstance(derived, Mapping) and isinstance(stated, Mapping):
        only_stated = [f"{place}{key}" for key in stated if key not in derived]
        return only_stated + [
            k for key in derived if key in stated for k in unknown_keys(f"{place}{key}.", stated[key], derived[key])
        ]
    if _listed(derived) and _listed(stated) and len(derived) == len(stated):
        return [k for one, other in zip(stated, derived, strict=True) for k in unknown_keys(place, one, other)]
    return []


def _same(stated: Any, derived: Any) -> bool:
    if isinstance(stated, bool) or isinstance(derived, bool):
        return stated is derived
    if isinstance(stated, int | float) and isinstance(derived, int | float):
        return math.isclose(stated, derived, rel_tol=AGREE, abs_tol=AGREE)
    return type(stated) is type(derived) and bool(stated == derived)


def _listed(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value) or "nothing"
