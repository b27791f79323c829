"""A range cut into stretches of one decision each.

Between neighbouring break points there is one decision, so the decision is taken at each of them and once between them, and
neighbours that decide alike become one stretch: a break point at which nothing changes leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fleetsieve.allocation import Allocation, evaluate
from fleetsieve.answers.sensitivity.deciding import Decision
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.brief import brief
from fleetsieve.certificate import Gap

Decide = Callable[[float], Decision]
"""A value of the axis -> what is decided there."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a committed plan guarantees at one end of a stretch; None where a given plan cannot be evaluated.

    The min fulfilment is None too where no class counts in it: a minimum over nothing guarantees nothing.
    """

    min_fulfilment: float | None
    goodput_rps: float | None

    @classmethod
    def of(cls, decision: Decision, at: Envelope | None = None) -> Figures:
        """Those of a decision's plan, `at` other numbers when they are given."""
        plan = decision.plan
        if plan is not None and at is not None:
            plan = evaluate(at.conservative, plan.replica_counts)
        if plan is None:
            return cls(None, None)
        return cls(plan.min_fulfilment if classes_in_minimum(plan) else None, plan.goodput_rps)


def classes_in_minimum(plan: Allocation) -> list[str]:
    """The classes over which the min fulfilment of a plan runs: those that demand something and some cell may serve."""
    return [c.name for c in plan.problem.classes if c.in_minimum and c.demand_rps > 0.0]


@dataclass(frozen=True, slots=True)
class Span:
    """From `lo` to `hi`, and whether each end belongs to it; `at` is a value inside that stands for all of them."""

    lo: float
    hi: float
    lo_closed: bool
    hi_closed: bool
    at: float

    def holds(self, value: float) -> bool:
        """Whether `value` lies in the span."""
        above = value > self.lo or (self.lo_closed and value == self.lo)
        return above and (value < self.hi or (self.hi_closed and value == self.hi))

    def joined(self, after: Span) -> Span:
        """This span and the one right after it as one; the longer one's value stands for both."""
        at = after.at if after.hi - after.lo > self.hi - self.lo else self.at
        return Span(self.lo, after.hi, self.lo_closed, after.hi_closed, at)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span with one decision, that taken at `span.at`.

    `first` and `last` are the figures at its ends (they differ where the demand varies), `gap` the largest of each stage that was
    seen in it. `exact` states that no break point inside can have been missed; else the span was sampled.
    """

    span: Span
    decision: Decision
    first: Figures
    last: Figures
    gap: Gap
    exact: bool = True

    def __repr__(self) -> str:
        return brief(self)

    @classmethod
    def alike(cls, span: Span, decide: Decide) -> Stretch:
        """A span in which the figures do not change."""
        decision = decide(span.at)
        figures = Figures.of(decision)
        return cls(span, decision, figures, figures, decision.gap)

    def joined(self, after: Stretch) -> Stretch:
        """This stretch and the one right after it, which decides alike, as one."""
        span = self.span.joined(after.span)
        decision = self.decision if span.at == self.span.at else after.decision
        return Stretch(
            span, decision, self.first, after.last, larger(self.gap, after.gap), self.exact and after.exact
        )  # fmt: skip


def larger(one: Gap, other: Gap) -> Gap:
    """Stage by stage the larger of two gaps."""
    return Gap(
        max(one.shortfall, other.shortfall),
        max(one.min_fulfilment, other.min_fulfilment),
        max(one.goodput, other.goodput),
    )


def merged_stretches(parts: Iterable[Stretch]) -> list[Stretch]:
    """Neighbours that decide alike made one."""
    found: list[Stretch] = []
    for part in parts:
        if found and found[-1].decision.key == part.decision.key:
            found[-1] = found[-1].joined(part)
        else:
            found.append(part)
    return found


def threshold_spans(thresholds: Sequence[float], lo: float, hi: float, *, rises: bool) -> list[Span]:
    """The spans of a limit that cells pass or fail.

    A cell passes when its tail is at most the limit, so nothing changes from one threshold to just below the next; a least success
    is the other way round (`rises` False).
    """
    points = sorted({lo, hi, *(value for value in thresholds if lo < value < hi)})
    if rises:
        return [*(Span(a, b, True, False, a) for a, b in pairwise(points)), Span(hi, hi, True, True, hi)]
    return [Span(lo, lo, True, True, lo), *(Span(a, b, False, True, b) for a, b in pairwise(points))]


def whole_spans(lo: int, hi: int) -> list[Span]:
    """One span for each whole number."""
    return [Span(n, n, True, True, n) for n in range(lo, hi + 1)]


def equal_spans(lo: float, hi: float, count: int) -> list[Span]:
    """`count` equal spans, for want of better ones."""
    edges = [lo + (hi - lo) * k / count for k in range(count)] + [hi]
    return [Span(a, b, True, b == hi, (a + b) / 2.0) for a, b in pairwise(edges)]


def by_spans(
    spans: Sequence[Span], decide: Decide, advance: Callable[[int, int], None] = lambda done, of: None
) -> list[Stretch]:
    """The stretches of a range where nothing changes inside a span; `advance` is called with how many are decided, of how many."""
    parts = []
    for done, span in enumerate(spans):
        advance(done, len(spans))
        parts.append(Stretch.alike(span, decide))
    advance(len(spans), len(spans))
    return merged_stretches(parts)


def by_breaks(
    breaks: Iterable[float], lo: float, hi: float, decide: Decide, rough: Sequence[tuple[float, float]] = ()
) -> list[Stretch]:
    """The stretches between break points at which the decision may go with either side, or be one of its own.

    Inside the ranges in `rough` break points may have been missed.
    """
    points = sorted({lo, hi, *(value for value in breaks if lo < value < hi)})
    parts = [Stretch.alike(Span(lo, lo, True, True, lo), decide)]
    for low, high in pairwise(points):
        middle = (low + high) / 2.0
        if low < middle < high:
            parts.append(_between(Span(low, high, False, False, middle), decide, rough))
        parts.append(Stretch.alike(Span(high, high, True, True, high), decide))
    return merged_stretches(parts)


def _between(span: Span, decide: Decide, rough: Sequence[tuple[float, float]]) -> Stretch:
    step = min(1e-7 * max(abs(span.lo), abs(span.hi)), (span.hi - span.lo) / 4.0)
    decision, first, last = decide(span.at), decide(span.lo + step), decide(span.hi - step)
    gap = larger(decision.gap, larger(first.gap, last.gap))
    exact = not any(low < span.hi and span.lo < high for low, high in rough)
    # The ends belong to the neighbours, but for one plan the figures are continuous.
    start, end = (Figures.of(decision, decide(value).envelope) for value in (span.lo, span.hi))
    return Stretch(span, decision, start, end, gap, exact)
