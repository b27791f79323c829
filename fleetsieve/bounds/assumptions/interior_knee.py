"""`interior_knee`: per class, SLO-feasible capacity per GPU is unimodal in log TP with an interior peak.

The paper's prior, in our reading (its text gives no formula): a quadratic in log TP is fitted to the log of revealed
SLO-feasible capacities per GPU; an unmeasured cell lies below fit + k x residual scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fleetsieve.bounds.assumptions.protocol import CAPACITY, ClassView, Contradiction, Limit
from fleetsieve.instance import TAIL_METRICS, ArmKey, CellKey


@dataclass(frozen=True)
class InteriorKnee:
    """Off by default; on in the paper's profile. `k` scales the band, `least_scale` keeps it from closing on few points."""

    k: float = 2.0
    least_scale: float = 0.1
    name: str = "interior_knee"
    across_arms: bool = True

    def describe(self) -> str:
        """One sentence for the certificate."""
        return f"SLO-feasible capacity per GPU is unimodal in log TP with an interior peak (band {self.k:g} x residual scale)"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        """A fit that opens upwards: the revealed capacities have no interior peak; dropped for all arms of the fit."""
        for arms in view.along_tp():
            fit = _fit(view, arms)
            if fit is not None and fit[0][0] >= 0.0:
                rows = tuple(key for key, _, _ in _points(view, arms))
                for arm in arms:
                    text = "the revealed capacities per GPU have no interior peak"
                    yield Contradiction(self.name, arm, CAPACITY, rows, text)

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        """Capacity per GPU of unmeasured cells is within the band above the fit."""
        for arms in view.along_tp():
            fit = _fit(view, arms)
            if fit is None:
                continue
            coefficients, scale = fit
            for arm in arms:
                if holds(arm, CAPACITY):
                    top = float(np.polyval(coefficients, math.log(arm.tp))) + self.k * max(scale, self.least_scale)
                    for cell in view.arms[arm]:
                        yield Limit(cell.key, CAPACITY, math.exp(top) * cell.gpus)


def _points(view: ClassView, arms: Sequence[ArmKey]) -> list[tuple[CellKey, float, float]]:
    """(key, log TP, log capacity per GPU) of the revealed cells of these arms that meet the SLO."""
    points = []
    for arm in arms:
        for cell in view.arms[arm]:
            known = view.sustains(cell.key)
            if known is None or known.capacity_rps is None or known.capacity_rps.lo <= 0.0:
                continue
            limits = ((known.tail_s(m), view.workload.slo.limit_s(m)) for m in TAIL_METRICS)
            if all(limit is None or (tail is not None and tail.hi <= limit) for tail, limit in limits):
                points.append((cell.key, math.log(cell.key.tp), math.log(known.capacity_rps.lo / cell.gpus)))
    return points


def _fit(view: ClassView, arms: Sequence[ArmKey]) -> tuple[tuple[float, float, float], float] | None:
    """Quadratic coefficients (highest power first) and residual scale; None with fewer than three TP degrees."""
    points = _points(view, arms)
    if len({x for _, x, _ in points}) < 3:
        return None
    x, y = np.array([p[1] for p in points]), np.array([p[2] for p in points])
    a, b, c = np.polyfit(x, y, 2)
    residual = y - np.polyval((a, b, c), x)
    return (float(a), float(b), float(c)), float(np.sqrt(np.mean(residual**2)))
