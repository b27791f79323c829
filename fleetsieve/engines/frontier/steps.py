"""Which steps of the curves a min fulfilment and a shortfall limit leave, and what they use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fleetsieve.allocation import TIE
from fleetsieve.engines.frontier.curves import Curve, Floats, Ints


def with_class(column: Floats, used: Ints, values: Floats, *, maximise: bool) -> Floats:
    """A column over 0..G GPUs with one more class: out[k] = best over its steps of column[k - used] + value.

    The best is the most, or the least; steps that need more than G GPUs are left out. -inf (or inf) where no step fits.
    """
    pick, none = (np.maximum, -np.inf) if maximise else (np.minimum, np.inf)
    out = np.full(len(column), none)
    if len(used) <= FEW:
        for gpus, value in zip(used.tolist(), values.tolist(), strict=True):
            if gpus < len(column):
                pick(out[gpus:], column[: len(column) - gpus] + value, out=out[gpus:])
        return out
    for part in blocks(used, len(column)):
        pick(out, pick.reduce(left_by(column, used[part], none) + values[part, None], axis=0), out=out)
    return out


FEW = 6
"""Up to so many steps it is quicker to take them one by one."""

BLOCK = 1 << 18
"""Numbers that a table of steps times GPUs may hold: what is larger is worked through in parts."""


def blocks(used: Ints, size: int) -> Iterator[slice]:
    """The steps that need less than `size` GPUs, in parts of at most `BLOCK` numbers (or of one step)."""
    fitting, rows = int(np.searchsorted(used, size)), max(1, BLOCK // size)
    for start in range(0, fitting, rows):
        yield slice(start, min(start + rows, fitting))


def left_by(column: Floats, used: Ints, none: float) -> Floats:
    """For each step (row) and k GPUs the column at what the step leaves of them; `none` where it needs more than k."""
    left = np.arange(len(column)) - used[:, None]
    return np.where(left >= 0, column[left], none)


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
