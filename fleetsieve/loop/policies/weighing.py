"""Which candidates are weighed: all of a short ladder; of a long one a spread of its loads, then those around the best of them.

A score comes from many simulated outcomes, and changes little from one load of a long ladder to the next. What is not weighed is
not chosen in this step; the next step spreads again over what is left, so no candidate is left out for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleetsieve.instance import ArmKey, CellKey, Instance

SHORT_LADDER = 24
"""Candidates of an arm up to which each one is weighed."""

SPREAD = 12
"""Loads of a longer ladder that are weighed first, its two ends among them."""


def weigh(
    candidates: Sequence[CellKey],
    instance: Instance,
    score: Callable[[CellKey], float],
    advance: Callable[[int, int], None],
) -> dict[CellKey, float]:
    """The scores of the candidates that are weighed, in the order of `candidates`.

    `advance` takes how many were weighed, and how many are expected to be.
    """
    ladders: dict[ArmKey, list[CellKey]] = {}
    for key in candidates:
        ladders.setdefault(instance.cell_by_key[key].arm, []).append(key)
    expected = sum(min(len(ladder), SHORT_LADDER) for ladder in ladders.values())
    scores: dict[CellKey, float] = {}

    def scored(key: CellKey) -> float:
        if key not in scores:
            advance(min(len(scores), expected), expected)
            scores[key] = score(key)
        return scores[key]

    try:
        for ladder in ladders.values():
            if len(ladder) <= SHORT_LADDER:
                for key in ladder:
                    scored(key)
            else:
                _climb(sorted(ladder, key=lambda key: (instance.cell_by_key[key].offered or 0.0, key)), scored)
    finally:
        advance(expected, expected)
    return {key: scores[key] for key in candidates if key in scores}


def _climb(ladder: Sequence[CellKey], score: Callable[[CellKey], float]) -> None:
    """Scores a spread of a ladder's candidates, which come by load, then halves the gaps beside the best until none is left."""
    top = len(ladder) - 1
    weighed = {round(step * top / (SPREAD - 1)) for step in range(SPREAD)}
    beside = weighed
    while beside:
        weighed |= beside
        best = max(sorted(weighed), key=lambda place: score(ladder[place]))
        below = max((place for place in weighed if place < best), default=best)
        above = min((place for place in weighed if place > best), default=best)
        beside = {(below + best) // 2, (best + above + 1) // 2} - weighed
