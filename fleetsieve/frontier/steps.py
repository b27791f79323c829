"""Which steps of the curves a min fulfilment and a shortfall limit leave, and what they use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsieve.allocation import TIE
from fleetsieve.frontier.curves import Curve, Floats, Ints


def with_class(column: Floats, used: Ints, values: Floats, *, most: bool) -> Floats:
    """A column over 0..G GPUs with one more class: out[k] = best over its steps of column[k - used] + value.

    The best is the most, or the least; steps that need more than G GPUs are left out. -inf (or inf) where no step fits.
    """
    pick, grown = (np.maximum, -np.inf) if most else (np.minimum, np.inf)
    out = np.full(len(column), grown)
    for gpus, value in zip(used.tolist(), values.tolist(), strict=True):
        if gpus >= len(column):
            break
        pick(out[gpus:], column[: len(column) - gpus] + value, out=out[gpus:])
    return out


def gpus_at(curves: Sequence[Curve], steps: Sequence[int]) -> float:
    """GPUs that the classes use at these steps; inf when a class has no such step."""
    total = 0
    for c, s in zip(curves, steps, strict=True):
        if s >= len(c.gpus):
            return np.inf
        total += int(c.gpus[s])
    return total


def limits(curves: Sequence[Curve], shortfall: float) -> bool:
    """Whether a shortfall limit is a side constraint: neither 0 (then floors are steps) nor beyond the worst."""
    return TIE < shortfall < sum(float(c.loss[0]) for c in curves) - TIE


def starts(curves: Sequence[Curve], min_fulfilment: float, shortfall: float) -> list[int]:
    """The first step of each class that the min fulfilment, and a shortfall limit of 0, allow."""
    floors = shortfall <= TIE
    first = []
    for c in curves:
        need = c.first(min_fulfilment) if c.counts else 0
        first.append(max(need, c.first_without_loss) if floors else need)
    return first
