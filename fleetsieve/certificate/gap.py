"""How far a committed plan can be from the best: the stage-wise gap between what is guaranteed and what is possible.

Let θ- and θ+ be the lower and upper realisation, A- the plan that is optimal for θ- (its goodput stage with slack η), and

    m*            the greatest min fulfilment under θ-
    S-, MM-, GP-  shortfall, min fulfilment (>= m* - η) and goodput of A- under θ-
    S+            the least shortfall possible under θ+
    MM+           the greatest min fulfilment under θ+ with shortfall <= S-
    GP+           the greatest goodput under θ+ with shortfall <= S-, and min fulfilment >= m* if S- = S+

    gap = (S- - S+,  MM+ - MM-,  (GP+ - GP-) / Σλ)

Claim. Let θ be any realisation inside the bounds and A* the strict lexicographic optimum under θ (η = 0), with values S*, MM*, GP*.
Then in each stage A- is worse than A* under θ by at most the gap.

Proof. A plan that uses configurations usable under one realisation is usable under every better one, and its x_i, r_i do not
fall when capacities rise. So A- is a plan under θ with shortfall <= S-, min fulfilment >= MM-, goodput >= GP-; and A* is a plan
under θ+ whose three values there are no worse than S*, MM*, GP*.
 1. S* >= S+, so A-'s excess shortfall is at most S- - S*, and S- - S* <= S- - S+.
 2. A* has the least shortfall under θ and A- is a plan there, so S* <= S-: A* is admitted in MM+, and MM* <= MM+.
 3. A* is admitted in GP+ when the min-fulfilment constraint is dropped. When it is not, S- = S+, so S* = S- as well: the plan that
    attains m* under θ- has shortfall S- = S* under θ, so it is admitted in stage 2 under θ, and MM* >= m*. A* attains MM*, so it
    keeps the constraint. Either way GP* <= GP+.                                                                          []

The minimum runs over the same classes in all solves: those that are not unservable under θ+. With S- > S+ the optimum may buy
shortfall with fulfilment, so m* is no bound on it; hence the dropped constraint. Holding S+ or MM+ instead of S- and m* would
compare A- with plans that A* may not be: the gap would then be no bound.

A class that is servable under θ+ but has no committable cell is open: whether it belongs in the minimum is itself unknown. While a
class is open nothing is certified feasible (see `certify`), so that the claim also holds for an optimum that leaves out
classes which the truth, but not yet the data, shows to be unservable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetsieve.allocation import TIE
from fleetsieve.engines.frontier import Curve, greatest_goodput, greatest_min_fulfilment, least_shortfall


@dataclass(frozen=True, slots=True)
class Lower:
    """What A- guarantees: S-, m*, MM- and GP- (requests/s)."""

    shortfall: float
    best_min_fulfilment: float
    min_fulfilment: float
    goodput_rps: float


@dataclass(frozen=True, slots=True)
class Upper:
    """What no plan can beat: S+, MM+ and GP+ (requests/s); None where it was not proven."""

    shortfall: float | None
    min_fulfilment: float | None
    goodput_rps: float | None


@dataclass(frozen=True, slots=True)
class Gap:
    """The gap of each stage, as fractions (shortfall in priority-weighted fulfilment); inf where nothing was proven."""

    shortfall: float
    min_fulfilment: float
    goodput: float

    @classmethod
    def between(cls, lower: Lower, upper: Upper, total_demand_rps: float) -> Gap:
        """The gap of A- against the upper values; `total_demand_rps` is Σλ (with 0 there is no goodput gap)."""
        shortfall = math.inf if upper.shortfall is None else lower.shortfall - upper.shortfall
        fulfilment = math.inf if upper.min_fulfilment is None else upper.min_fulfilment - lower.min_fulfilment
        goodput = math.inf if upper.goodput_rps is None else upper.goodput_rps - lower.goodput_rps
        scale = total_demand_rps if total_demand_rps > 0.0 else math.inf
        return cls(
            max(0.0, shortfall), max(0.0, fulfilment), max(0.0, goodput / scale if math.isfinite(goodput) else goodput)
        )

    @property
    def total(self) -> float:
        """The sum of the three."""
        return self.shortfall + self.min_fulfilment + self.goodput

    @property
    def largest(self) -> float:
        """The largest of the three."""
        return max(self.shortfall, self.min_fulfilment, self.goodput)


def keeps_least_fulfilment(lower_shortfall: float, upper_shortfall: float) -> bool:
    """Whether S- = S+, so that GP+ is sought among plans with min fulfilment >= m*."""
    return lower_shortfall - upper_shortfall <= TIE


def frontier_gap(low: Sequence[Curve], high: Sequence[Curve], gpus: int, eta: float) -> tuple[Gap, float]:
    """The gap by the frontier alone, and S-: for scoring simulated outcomes by the thousand (never in a certificate).

    `low` and `high` are the curves of the classes under θ- and θ+, `gpus` the pool's GPUs, `eta` >= 0 the fairness slack. MM- is
    taken as m*, so the gap in min fulfilment may be up to η below the certificate's.
    """
    shortfall, least = least_shortfall(low, gpus), least_shortfall(high, gpus)
    best = greatest_min_fulfilment(low, gpus, shortfall)
    goodput = greatest_goodput(low, gpus, best - eta, shortfall)
    kept = best if keeps_least_fulfilment(shortfall, least) else 0.0
    upper = Upper(least, greatest_min_fulfilment(high, gpus, shortfall), greatest_goodput(high, gpus, kept, shortfall))
    total = math.fsum(c.demand.demand_rps for c in low)
    return Gap.between(Lower(shortfall, best, best, goodput), upper, total), shortfall
