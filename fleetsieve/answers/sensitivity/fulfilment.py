"""The greatest min fulfilment as a function of a demand's factor t, where no other class of step can be reached or lost.

Every class uses a step of its curve: k GPUs that serve at most C(k) requests/s, whatever the demand. A scaled class with stated
demand λ has r = min(1, C/(λ t)), any other one a constant. So m*(t) is at each t a constant A or B/t:
 - all classes scaled: r keeps its order over all steps, and m*(t) = min(1, K/t) with one K;
 - one class i scaled: m*(t) = max over its steps k of min(1, C(k)/(λ t), F(k)), where F(k) is the greatest min fulfilment that the
   other classes reach with the GPUs that k leaves. It turns only where C(k)/(λ t) = F(k') for some k, k'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fleetsieve.allocation import TIE
from fleetsieve.engines.frontier import Curve, greatest_min_fulfilment

NEAR = 1e-9


@dataclass(frozen=True, slots=True)
class Piece:
    """m*(t) = constant + over / t for t from `lo` to `hi`; one of the two is 0."""

    lo: float
    hi: float
    constant: float
    over: float


def pieces(
    curves: Sequence[Curve],
    scaled: Sequence[str],
    gpus: int,
    t: float,
    lo: float,
    hi: float,
    shortfall: float = 0.0,
) -> list[Piece]:
    """m*(t) with at most the shortfall that `shortfall` at factor `t` becomes, for t from `lo` to `hi`.

    `curves` are those at factor `t` between the two; no step starts or ends to serve its class in full, or to meet its floor,
    between `lo` and `hi`. A shortfall above 0 is taken where all classes are scaled.
    """
    moving = [c for c in curves if c.demand.name in scaled and c.counts]
    still = [c for c in curves if c.demand.name not in scaled and c.counts]
    best = greatest_min_fulfilment(curves, gpus, shortfall)
    if not moving or best >= 1.0 - TIE:
        return [Piece(lo, hi, min(best, 1.0), 0.0)]
    if not still:
        return [Piece(lo, hi, 0.0, best * t)]
    (moved,) = moving
    others = [c for c in curves if c is not moved]
    first = moved.first_without_loss
    used, capacity = moved.gpus[first:], moved.spare_rps[first:] * t / moved.demand.demand_rps
    left = np.array([greatest_min_fulfilment(others, gpus - int(k), 0.0) if k <= gpus else -np.inf for k in used])
    turns = sorted({x for f in set(left[left > 0.0].tolist()) for c in capacity.tolist() if lo < (x := c / f) < hi})
    found: list[Piece] = []
    for low, high in pairwise([lo, *turns, hi]):
        middle = (low + high) / 2.0
        reached = np.minimum(np.minimum(capacity / middle, 1.0), left)
        place = int(np.argmax(reached))
        moves = capacity[place] / middle < min(1.0, left[place])
        piece = Piece(low, high, 0.0, float(capacity[place])) if moves else Piece(low, high, float(reached[place]), 0.0)
        if found and _same(found[-1], piece):
            found[-1] = Piece(found[-1].lo, high, piece.constant, piece.over)
        else:
            found.append(piece)
    return found


def _same(one: Piece, other: Piece) -> bool:
    return abs(one.constant - other.constant) <= NEAR and abs(one.over - other.over) <= NEAR * max(1.0, one.over)


def reaching(curves: Sequence[Curve], scaled: Sequence[str], t: float, piece: Piece, slack: float) -> list[float]:
    """Where, inside the piece, the fulfilment of some step reaches m*(t) - slack: there a start of the goodput stage moves."""
    found = []
    for c in curves:
        rate = c.demand.demand_rps
        if not c.counts:
            continue
        for served, spare in zip(c.served_rps.tolist(), c.spare_rps.tolist(), strict=True):
            full = served >= rate * (1.0 - NEAR)
            # The step has r = constant + over / t; r = m* - slack is linear in 1/t.
            over = spare * t / rate if c.demand.name in scaled and not full else 0.0
            constant = 0.0 if over else served / rate
            shift = piece.constant - slack - constant
            if shift != 0.0 and piece.lo < (x := (over - piece.over) / shift) < piece.hi:
                found.append(x)
    return found
