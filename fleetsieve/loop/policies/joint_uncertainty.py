"""`joint-uncertainty`: the cell whose capacity and tails are least certain under one model shared by all arms of a class.

The uncertainty is the sum of the standard deviations, in ln, of capacity and of each tail that the SLO limits; no decision is
looked at, and GPU-seconds only break ties. Our reading: the paper gives this baseline one line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.instance import TAIL_METRICS, Slo
from fleetsieve.interval import Interval
from fleetsieve.loop.belief import ClassBelief
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.policies.protocol import Choice, Situation, best


@dataclass(frozen=True)
class JointUncertainty:
    """Decision-blind: it would measure the whole grid as evenly as it can."""

    name: str = "joint-uncertainty"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The least certain candidate; ties go to the cheaper, then to the first by name."""
        look = Lookahead(situation.envelope, situation.certificate.eta, situation.certificate.epsilon)
        beliefs = {name: look.belief(name) for name in {key.class_name for key in situation.candidates}}
        scores = {}
        for key in situation.candidates:
            slo = situation.envelope.instance.class_by_name[key.class_name].slo
            scores[key] = _uncertainty(beliefs[key.class_name], situation.envelope[key], slo)
        key = best(scores, situation.cost_gpu_s)
        return Choice(key, f"the least certain: {scores[key]:.3g} in ln", scores)


def _uncertainty(belief: ClassBelief, b: CellBounds, slo: Slo) -> float:
    """The summed standard deviations; of a cell that was measured, what its own intervals leave open."""
    limited = [metric for metric in TAIL_METRICS if slo.limit_s(metric) is not None]
    if b.measured:
        return math.fsum(_left(b.tails_s[metric]) for metric in limited) + _left(b.capacity_rps)
    return math.fsum(belief.predict(b.cell, quantity)[1] for quantity in ("capacity", *limited))


def _left(interval: Interval) -> float:
    """A sixth of the width in ln: the interval taken as three standard deviations to each side; 1 when it has an open end."""
    if interval.is_point:
        return 0.0
    if interval.lo <= 0.0 or math.isinf(interval.hi):
        return 1.0
    return math.log(interval.hi / interval.lo) / 6.0
