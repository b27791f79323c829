"""Break points of a demand axis.

Between two of the following factors t of the stated demand, every stage compares the same steps in the same order, and each plan's
goodput is linear in t:
 1. a step of a scaled class starts or ends to serve it in full, or its demand falls below its floor;
 2. m*(t), or the greatest min fulfilment under θ+, turns (`fulfilment`);
 3. a step reaches m*(t) - η under θ-, or m*(t) under θ+.
There the greatest goodput is a maximum of lines, so convex: equal lines at both ends are the same line between, and lines that
differ are followed to where they cross, which is on the maximum or shows a line above it. Later stages do not depend on t. For a
plan that stays, the gap in min fulfilment is A + B/t between the points where its least fulfilled class changes, and the gap in
goodput exceeds ε where a convex function exceeds 0: so each crossing is enclosed, and then found to the last digits.

All this holds where every floor is met under θ- (then the shortfall binds nothing). It holds too where floors are missed, if every
demand varies and no floor is above its demand: each class then loses p_i (floor - C)/(λ_i t), so all losses fall as 1/t, and which
plans lose least, or no more than one of them, does not depend on t. No verdict hangs on the gap there: a floor is missed.

This needs one pool where counting GPUs is enough. Elsewhere the range is sampled, changes are enclosed by bisection, and the range
is called rough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from fleetsieve.allocation import TIE, Allocation
from fleetsieve.answers.sensitivity.axes import DemandAxis
from fleetsieve.answers.sensitivity.deciding import Decider, Decision
from fleetsieve.answers.sensitivity.fulfilment import pieces, reaching
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.engines.frontier import Frontier, problem_curves

SAMPLES = 33
"""Values at which a range without computable break points is decided."""

APART = 1e-9
"""Relative distance below which two break points are one: the engines call values this close a tie."""

Range = tuple[float, float]


def demand_breaks(
    axis: DemandAxis, base: Envelope, decider: Decider, advance: Callable[[int, int], None] = lambda done, of: None
) -> tuple[list[float], list[Range]]:
    """Every factor in the range at which the decision may change, and the ranges in which some may be missing.

    `advance` is called with how many ranges between steps were searched, of how many.
    """
    return _Scaling(axis, base, decider).breaks(advance)


class _Scaling:
    """One demand axis on one envelope."""

    def __init__(self, axis: DemandAxis, base: Envelope, decider: Decider) -> None:
        self.axis, self.base, self.decider = axis, base, decider
        self.scaled = {
            c.name: c.demand_rps for c in base.instance.classes if axis.scales(c.name) and c.demand_rps > 0.0
        }
        self._known: dict[float, Decision] = {}

    def decide(self, t: float) -> Decision:
        """The decision at factor t."""
        if t not in self._known:
            self._known[t] = self.decider(self.axis.at(self.base, t))
        return self._known[t]

    def breaks(self, advance: Callable[[int, int], None]) -> tuple[list[float], list[Range]]:
        """As `demand_breaks`."""
        lo, hi = self.axis.lo, self.axis.hi
        top = self.axis.at(self.base, hi)
        if not (Frontier.accepts(top.conservative) and Frontier.accepts(top.optimistic)):
            return self._sampled(lo, hi), [(lo, hi)]
        found: list[float] = []
        rough: list[Range] = []
        ranges = list(pairwise(_apart([lo, *self._steps(top), hi])))
        for done, (low, high) in enumerate(ranges):
            advance(done, len(ranges))
            found += [low, high]
            middle = (low + high) / 2.0
            decision = self.decide(middle)
            if decision.plan is None:  # what breaks a given plan so that it has no figures, no demand repairs
                continue
            if self._short(decision) and not self._losses_in_step(decision):
                found += self._sampled(low, high)
                rough.append((low, high))
                continue
            for a, b in pairwise(_apart([low, *self._turns(middle, low, high), high])):
                found += [a, *self._inside(a, b)]
        advance(len(ranges), len(ranges))
        return _apart(found), rough

    def _short(self, decision: Decision) -> bool:
        """Whether some floor is missed under either end."""
        return max(decision.lower.shortfall, decision.upper.shortfall or 0.0) > TIE

    def _losses_in_step(self, decision: Decision) -> bool:
        """Whether what each class loses of its floor is the same multiple of 1/t for all of them, up to the next step."""
        demands = decision.envelope.conservative.classes
        return all(c.demand_rps <= 0.0 or c.name in self.scaled for c in demands) and all(
            c.floor is None or c.floor < 1.0 for c in demands
        )

    def _steps(self, top: Envelope) -> list[float]:
        """Factors of the first kind."""
        found = [
            spare / self.scaled[c.demand.name]
            for problem in (top.conservative, top.optimistic)
            for c in problem_curves(problem)
            if c.demand.name in self.scaled
            for spare in c.spare_rps.tolist()
        ]
        given = self.decide(self.axis.hi).plan if self.decider.given is not None else None
        if given is not None:
            found += [
                class_plan.capacity_rps / self.scaled[class_plan.class_name]
                for class_plan in given.classes
                if class_plan.class_name in self.scaled
            ]
        floors = [(c.floor_rps, self.scaled[c.name]) for c in top.instance.classes if c.name in self.scaled]
        found += [floor / rate for floor, rate in floors if floor is not None]
        return [t for t in found if self.axis.lo < t < self.axis.hi]

    def _turns(self, t: float, low: float, high: float) -> list[float]:
        """Factors of the second and third kind between two of the first."""
        envelope = self.axis.at(self.base, t)
        eta = envelope.instance.certificate.fairness_slack
        gpus = envelope.instance.fleet.gpus
        lower, upper = problem_curves(envelope.conservative), problem_curves(envelope.optimistic)
        names, missed = list(self.scaled), self.decide(t).lower.shortfall
        found = [piece.lo for piece in pieces(upper, names, gpus, t, low, high, missed)]
        for piece in pieces(lower, names, gpus, t, low, high, missed):
            found.append(piece.lo)
            found += reaching(lower, names, t, piece, eta)
            found += reaching(upper, names, t, piece, 0.0)
        return [x for x in found if low < x < high]

    def _inside(self, a: float, b: float) -> list[float]:
        """Changes of the plan, then of the verdict, where goodput is a maximum of lines."""
        step = min(1e-7 * b, (b - a) / 8.0)
        low, high = a + step, b - step
        plans = self._crossings(low, self.decide(low), high, self.decide(high), 0)
        found = list(plans)
        for p, q in pairwise(_apart([low, *plans, high])):
            decision = self.decide((p + q) / 2.0)
            if self._short(decision):
                continue
            edges = _apart([p, *(x for x in self._kinks(decision) if p < x < q), q])
            for left, right in pairwise(edges):
                inner = min(1e-8 * right, (right - left) / 8.0)
                found += self._verdicts(left + inner, right - inner)
        return found

    def _crossings(self, a: float, one: Decision, b: float, other: Decision, depth: int) -> list[float]:
        """Where the plan changes between a and b, by following the lines of their goodputs."""
        if one.placed == other.placed or one.plan is None or other.plan is None:
            return []
        (c1, s1), (c2, s2) = self._line(one.plan, a), self._line(other.plan, b)
        if s1 == s2 or not a < (x := (c1 - c2) / (s2 - s1)) < b or depth > 30:
            # Lines that do not cross inside: the two tie within what floats tell, and the change is at a tie's edge.
            return self._edge(a, one, b)
        here = self.decide(x)
        if here.plan is None or here.plan.goodput_rps <= (c1 + s1 * x) * (1.0 + 1e-8) + TIE:
            return [x]
        return [*self._crossings(a, one, x, here, depth + 1), *self._crossings(x, here, b, other, depth + 1)]

    def _edge(self, a: float, one: Decision, b: float) -> list[float]:
        """One change of the plan between a and b, enclosed by bisection."""
        while b - a > APART * b:
            middle = (a + b) / 2.0
            if self.decide(middle).placed == one.placed:
                a = middle
            else:
                b = middle
        return [(a + b) / 2.0]

    def _line(self, plan: Allocation, t: float) -> tuple[float, float]:
        """The plan's goodput as (constant, slope) of t, in the neighbourhood of t."""
        constant = slope = 0.0
        for class_plan in plan.classes:
            rate = self.scaled.get(class_plan.class_name)
            if rate is not None and class_plan.capacity_rps >= class_plan.demand_rps:
                slope += rate
            else:
                constant += class_plan.served_rps
        return constant, slope

    def _kinks(self, decision: Decision) -> list[float]:
        """Where the least fulfilled class of a plan changes, as one demand moves and the others stay."""
        if decision.plan is None:
            return []
        moving = [
            (class_plan.capacity_rps / self.scaled[class_plan.class_name])
            for class_plan in decision.plan.classes
            if class_plan.class_name in self.scaled
        ]
        still = {
            class_plan.fulfilment for class_plan in decision.plan.classes if class_plan.class_name not in self.scaled
        }
        return [capacity / r for capacity in moving for r in still if r > 0.0]

    def _verdicts(self, a: float, b: float) -> list[float]:
        """Where a gap crosses ε between a and b, with one plan and one least fulfilled class."""
        epsilon = self.base.instance.certificate.epsilon
        found = self._root(lambda t: self.decide(t).gap.min_fulfilment - epsilon, a, b)
        excess = self._excess(epsilon)
        if excess(a) > 0.0 and excess(b) > 0.0:
            lowest = self._lowest(a, b, epsilon, 0)
            if lowest is not None:
                found += [*self._root(excess, a, lowest), *self._root(excess, lowest, b)]
        else:
            found += self._root(excess, a, b)
        return found

    def _excess(self, epsilon: float) -> Callable[[float], float]:
        return lambda t: self.decide(t).gap.goodput - epsilon

    def _root(self, f: Callable[[float], float], a: float, b: float) -> list[float]:
        if a >= b or (f(a) > 0.0) == (f(b) > 0.0):
            return []
        from scipy.optimize import brentq  # half a second of imports that most axes do without

        return [float(brentq(f, a, b, xtol=1e-13 * b, rtol=1e-14))]

    def _lowest(self, a: float, b: float, epsilon: float, depth: int) -> float | None:
        """A factor between a and b with a goodput gap of at most ε, where both ends exceed it; None when there is none."""
        (c1, s1), (c2, s2) = self._above(a, epsilon), self._above(b, epsilon)
        if s1 >= 0.0 or s2 <= 0.0:
            return None
        x = (c1 - c2) / (s2 - s1)
        if not a < x < b or c1 + s1 * x > 0.0:
            return None
        if self._excess(epsilon)(x) <= 0.0:
            return x
        if depth > 30:
            return None
        left = self._lowest(a, x, epsilon, depth + 1)
        return left if left is not None else self._lowest(x, b, epsilon, depth + 1)

    def _above(self, t: float, epsilon: float) -> tuple[float, float]:
        """GP+ - GP- - ε Σλ as (constant, slope) in the neighbourhood of t."""
        decision = self.decide(t)
        if decision.best is None or decision.plan is None:
            return 0.0, 0.0
        (c2, s2), (c1, s1) = self._line(decision.best, t), self._line(decision.plan, t)
        rate = sum(self.scaled.values())
        still = sum(c.demand_rps for c in decision.envelope.instance.classes if c.name not in self.scaled)
        return c2 - c1 - epsilon * still, s2 - s1 - epsilon * rate

    def _sampled(self, lo: float, hi: float) -> list[float]:
        """Changes between samples, each enclosed by bisection: what changes twice between two samples is missed."""
        step = min(1e-7 * hi, (hi - lo) / 8.0)
        points = [lo + step + (hi - lo - 2.0 * step) * k / (SAMPLES - 1) for k in range(SAMPLES)]
        found = []
        for a, b in pairwise(points):
            first, last = self.decide(a).key, self.decide(b).key
            while first != last:
                low, high = a, b
                while high - low > APART * high:
                    middle = (low + high) / 2.0
                    low, high = (middle, high) if self.decide(middle).key == first else (low, middle)
                found.append((low + high) / 2.0)
                a, first = high, self.decide(high).key
        return found


def _apart(values: Sequence[float]) -> list[float]:
    """The values in order, those left out that are next to one before."""
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > APART * value:
            found.append(value)
    return found
