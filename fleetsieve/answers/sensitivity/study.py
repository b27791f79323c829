"""A sensitivity study: the stretches of one axis, or the regions of two.

Exactness, axis by axis:
 - an SLO threshold: cells pass or fail at the ends of their intervals, and nothing else happens between;
 - GPUs: every whole number is decided, up to the one from which on all decide alike (`gpus`);
 - ε: see `epsilon`;
 - demand: see `demand`; what is not exact there is marked.
Of two axes the first that has finitely many values cuts strips, in each of which the other one is studied as above. Two axes that
both have infinitely many are sampled along the first, and every region is marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fleetsieve.answers.sensitivity.axes import Axis, DemandAxis, EpsilonAxis, GpusAxis, SloAxis
from fleetsieve.answers.sensitivity.deciding import Decider, Decision
from fleetsieve.answers.sensitivity.demand import demand_breaks
from fleetsieve.answers.sensitivity.epsilon import epsilon_breaks
from fleetsieve.answers.sensitivity.given import GivenPlan
from fleetsieve.answers.sensitivity.gpus import gpus_spans
from fleetsieve.answers.sensitivity.stretches import (
    Span,
    Stretch,
    by_breaks,
    by_spans,
    equal_spans,
    larger,
    threshold_spans,
    whole_spans,
)
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.brief import counted, summary
from fleetsieve.certificate.sentence import listed
from fleetsieve.errors import UsageError
from fleetsieve.instance import Instance, Measurement

SAMPLED_STRIPS = 24
"""Strips of the first axis where both have infinitely many values."""


@dataclass(frozen=True)
class Study:
    """One axis over an instance: its stretches from `axis.lo` to `axis.hi`.

    `base` is the envelope that `axis.at` applies to; `decide` decides at any value, also outside the range. `broken_today` is what
    breaks a given plan at the numbers that the instance states: nothing when it holds, None without a given plan.
    """

    instance: Instance
    axis: Axis
    base: Envelope
    decider: Decider
    stretches: tuple[Stretch, ...]
    broken_today: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        spans = [f"{s.span.lo:.6g} to {s.span.hi:.6g}: {s.decision.verdict}" for s in self.stretches]
        return summary(f"Study of {self.instance.name}, {self.axis.title}: {counted(len(spans), 'interval')}", spans)

    def decide(self, value: float) -> Decision:
        """The decision at one value of the axis."""
        return self.decider(self.axis.at(self.base, value))

    def stretch_at(self, value: float) -> Stretch | None:
        """The stretch that holds `value`; None outside the range."""
        return next((s for s in self.stretches if s.span.holds(value)), None)

    @property
    def breaks(self) -> list[float]:
        """Where the decision changes, rising.

        A single demand at which two fulfilments tie may decide otherwise than all demands around it: it is a stretch of its own,
        from its value to its value, and no break point.
        """
        alone = (
            set()
            if isinstance(self.axis, GpusAxis)
            else {
                at.span.lo
                for before, at, after in zip(self.stretches, self.stretches[1:], self.stretches[2:], strict=False)
                if at.span.lo == at.span.hi and before.decision.key == after.decision.key
            }
        )
        return sorted({s.span.lo for s in self.stretches[1:]} - alone)


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of one decision, that of `stretch`; `x` and `y` are its sides, `exact` covers both."""

    x: Span
    y: Span
    stretch: Stretch
    exact: bool


@dataclass(frozen=True)
class Map:
    """Two axes over an instance: `regions` cover the whole rectangle, in the order of the first axis and then of the second.

    `broken_today` is as in `Study`.
    """

    instance: Instance
    x: Axis
    y: Axis
    decider: Decider
    regions: tuple[Region, ...]
    broken_today: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        verdicts = Counter(r.stretch.decision.verdict for r in self.regions)
        lines = [f"{verdict}: {counted(count, 'region')}" for verdict, count in verdicts.items()]
        return summary(f"Map of {self.instance.name}: x is {self.x.title}, y is {self.y.title}", lines)


Advance = Callable[[int, int], None]
"""Takes how much of a work is done, and of how much."""


def _silent(done: int, of: int) -> None:
    """Tells nobody."""


def study(
    instance: Instance,
    rows: Iterable[Measurement],
    axis: Axis,
    given: GivenPlan | None = None,
    advance: Advance = _silent,
) -> Study:
    """The stretches of one axis.

    Takes the instance, its measured rows, the axis, and a plan to hold against it instead of the best one; `advance` is called
    with how much was searched.

    Raises:
        UsageError: when the axis cannot be applied to the instance.
        SolverMissing, SolveFailed: where the MILP is needed and fails.
    """
    rows, started = tuple(rows), axis.start(instance)
    base, decider = Envelope.of(started, rows), Decider(given)
    broken = given.breaks(Envelope.of(instance, rows)) if given is not None else None
    return Study(instance, axis, base, decider, tuple(stretches_of(axis, base, decider, advance)), broken)


def study_two(
    instance: Instance,
    rows: Iterable[Measurement],
    x: Axis,
    y: Axis,
    given: GivenPlan | None = None,
    advance: Advance = _silent,
) -> Map:
    """The regions of two axes, `x` and `y`; `advance` is called with how many strips are done, of how many.

    Raises:
        UsageError: when the axes are one and the same, or one cannot be applied to the instance.
        SolverMissing, SolveFailed: where the MILP is needed and fails.
    """
    if x.name == y.name:
        raise UsageError(f"both axes are {x.name}", "two axes vary two numbers")
    if isinstance(x, DemandAxis) and isinstance(y, DemandAxis) and x.scaled(instance) == y.scaled(instance):
        raise UsageError(
            f"both axes vary the demand of {listed(x.scaled(instance))} alone", "two axes vary two numbers"
        )
    rows = tuple(rows)
    base, decider = Envelope.of(y.start(x.start(instance)), rows), Decider(given)
    broken = given.breaks(Envelope.of(instance, rows)) if given is not None else None
    turned = _spans(x, base) is None and _spans(y, base) is not None
    across, along = (y, x) if turned else (x, y)
    exact = _spans(across, base)
    strips = exact if exact is not None else equal_spans(across.lo, across.hi, SAMPLED_STRIPS)
    cut: list[list[Region]] = []
    for done, span in enumerate(strips):
        advance(done, len(strips))
        stretches = stretches_of(along, across.at(base, span.at), decider)
        cut.append([Region(span, s.span, s, exact is not None and s.exact) for s in stretches])
    advance(len(strips), len(strips))
    regions = _joined(cut)
    if turned:
        regions = [replace(region, x=region.y, y=region.x) for region in regions]
    regions.sort(key=lambda r: (r.x.lo, r.x.hi, r.y.lo, r.y.hi))
    return Map(instance, x, y, decider, tuple(regions), broken)


def stretches_of(axis: Axis, base: Envelope, decider: Decider, advance: Advance = _silent) -> list[Stretch]:
    """The stretches of an axis on one envelope."""

    def decide(value: float) -> Decision:
        return decider(axis.at(base, value))

    if isinstance(axis, GpusAxis):
        return by_spans(gpus_spans(int(axis.lo), int(axis.hi), axis.at(base, axis.hi), decider.given), decide, advance)
    spans = _spans(axis, base)
    if spans is not None:
        return by_spans(spans, decide, advance)
    breaks, rough = demand_breaks(axis, base, decider, advance) if isinstance(axis, DemandAxis) else ([], [])
    if isinstance(axis, EpsilonAxis):
        breaks = epsilon_breaks(axis.at(base, axis.lo), axis.lo, axis.hi, decide)
    return by_breaks(breaks, axis.lo, axis.hi, decide, rough)


def _spans(axis: Axis, base: Envelope) -> list[Span] | None:
    """The spans of an axis with finitely many values that differ; None for any other axis."""
    if isinstance(axis, SloAxis):
        return threshold_spans(axis.thresholds(base), axis.lo, axis.hi, rises=axis.rises)
    return whole_spans(int(axis.lo), int(axis.hi)) if isinstance(axis, GpusAxis) else None


def _joined(strips: Sequence[Sequence[Region]]) -> list[Region]:
    """Rectangles of neighbouring strips that have the same sides and decide alike made one."""
    found: list[Region] = []
    before: dict[object, int] = {}
    for strip in strips:
        now: dict[object, int] = {}
        for region in strip:
            y = region.y
            same = (y.lo, y.hi, y.lo_closed, y.hi_closed, region.stretch.decision.key)
            if same in before:
                one = found[before[same]]
                stretch = replace(one.stretch, gap=larger(one.stretch.gap, region.stretch.gap))
                found[before[same]] = replace(
                    one,
                    x=replace(one.x, hi=region.x.hi, hi_closed=region.x.hi_closed),
                    stretch=stretch,
                    exact=one.exact and region.exact,
                )
                now[same] = before[same]
            else:
                now[same] = len(found)
                found.append(region)
        before = now
    return found
