"""When a plan is certified feasible: the one rule, for certificates and for policies that imagine them."""

from __future__ import annotations

from fleetsieve.allocation import Allocation, floors_met
from fleetsieve.certificate.gap import Gap


def blocking_stage(gap: Gap, *, floors_met: bool, open_classes: bool, epsilon: float) -> str:
    """The first stage that keeps a plan from being certified feasible; "" where nothing does.

    Takes the gap, whether the plan meets every critical floor, whether a class is servable under θ+ but has no cell to commit, and
    the largest gap that certifies.
    """
    if not floors_met or gap.shortfall > epsilon:
        return "shortfall"
    if open_classes or gap.min_fulfilment > epsilon:
        return "min_fulfilment"
    return "goodput" if gap.goodput > epsilon else ""


def meets_floors(plan: Allocation) -> bool:
    """Whether every critical floor is met (see `allocation.floors_met`)."""
    return floors_met(plan)
