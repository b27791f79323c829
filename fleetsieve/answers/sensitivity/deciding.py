"""One decision: what is committed, the verdict, and what binds; of the best plan, or of a plan that is given.

The engine is the frontier where counting GPUs is enough to place replicas, and the MILP elsewhere. Equal problems have equal
decisions, so each is solved once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import cast

from fleetsieve_models.problem import STAGES, FleetProblem

from fleetsieve.allocation import TIE, Allocation, Optimum, evaluate, floor_met
from fleetsieve.answers.sensitivity.given import GivenPlan
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.brief import brief
from fleetsieve.certificate import Certificate, Gap, Lower, Upper, certify
from fleetsieve.certificate.sentence import listed
from fleetsieve.engines.choosing import Automatic
from fleetsieve.errors import SolveFailed

BROKEN = "broken"
"""The verdict of a given plan that does not hold."""


@dataclass(frozen=True)
class Decision:
    """What is decided under one set of numbers.

    `plan` is the conservative plan (None for a given plan that cannot be evaluated), `best` the plan behind GP+, `faults` what
    a given plan fails at: an SLO, the fleet or a floor break it, demand that is not met does not.
    """

    envelope: Envelope
    verdict: str
    plan: Allocation | None
    gap: Gap
    lower: Lower
    upper: Upper
    open_classes: tuple[str, ...]
    blocking: str
    best: Allocation | None = field(default=None, repr=False)
    faults: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return brief(self)

    @cached_property
    def key(self) -> Hashable:
        """What makes two decisions the same: verdict, configurations, replicas, unservable classes, errors of a given plan."""
        return self.verdict, self.placed, self.envelope.unservable if self.plan is not None else None, self.faults

    @property
    def placed(self) -> Hashable:
        """The configurations and replicas alone."""
        return tuple(sorted(self.plan.replica_counts.items(), key=str)) if self.plan is not None else None


class Decider:
    """Decides under an envelope; `given` is a plan to hold against it instead of the best one."""

    def __init__(self, given: GivenPlan | None = None) -> None:
        self.given = given
        self._known: dict[Hashable, Decision] = {}

    def __call__(self, envelope: Envelope) -> Decision:
        """The decision under an envelope.

        Raises:
            SolverMissing, SolveFailed: as `certificate.certify`, where the MILP is needed.
        """
        faults = self.given.faults(envelope) if self.given is not None else ()
        settings = envelope.instance.certificate
        opened = tuple(c.name for c in envelope.instance.classes if envelope.classes[c.name].open)
        key = (envelope.conservative, envelope.optimistic, settings.epsilon, settings.fairness_slack, opened, faults)
        if key not in self._known:
            self._known[key] = self._decide(envelope, faults)
        return replace(self._known[key], envelope=envelope)

    def _decide(self, envelope: Envelope, faults: tuple[str, ...]) -> Decision:
        if self.given is None:
            return _decision(envelope, _Watched())
        counts = cast("Mapping[Hashable, int]", self.given.counts)
        try:
            plan = evaluate(envelope.conservative, counts)
        except SolveFailed:
            faults = faults or ("the fleet cannot host it",)
            unknown = Gap(math.inf, math.inf, math.inf)
            return replace(_decision(envelope, _Watched()), verdict=BROKEN, plan=None, gap=unknown, faults=faults)
        missed = [
            class_plan.class_name
            for demand, class_plan in zip(plan.problem.classes, plan.classes, strict=True)
            if demand.floor is not None and not floor_met(demand.floor, class_plan.fulfilment)
        ]
        short = [class_plan.class_name for class_plan in plan.classes if class_plan.fulfilment < 1.0 - TIE]
        found = _decision(envelope, _Watched(plan))
        errors = [f"the floor of {listed(missed)} is missed"] if missed else []
        errors += [f"{listed(short)} {'is' if len(short) == 1 else 'are'} not served in full"] if short else []
        return replace(found, verdict=BROKEN if missed else found.verdict, faults=tuple(errors))


class _Watched(Automatic):
    """It keeps the plan of the last goodput bound; `given`, if any, is its answer for θ-."""

    def __init__(self, given: Allocation | None = None) -> None:
        self.best: Allocation | None = None
        self._given = given

    def optimise(
        self,
        problem: FleetProblem,
        stages: Sequence[str] = STAGES,
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = MappingProxyType({}),
    ) -> Optimum:
        """As `allocation.Engine.optimise`."""
        optimum = super().optimise(problem, stages, eta=eta, holds=holds)
        if tuple(stages) == ("goodput",):
            self.best = optimum.allocation
        if self._given is not None and problem is self._given.problem:
            # The gap holds for any plan as A-, so the given one takes the place of the best; m* stays that of the best.
            return replace(optimum, allocation=self._given)
        return optimum


def _decision(envelope: Envelope, engine: _Watched) -> Decision:
    c: Certificate = certify(envelope, engine)
    return Decision(
        envelope=envelope,
        verdict=str(c.verdict),
        plan=c.conservative,
        gap=c.gap,
        lower=c.lower,
        upper=c.upper,
        open_classes=c.open_classes,
        blocking=c.blocking,
        best=engine.best,
    )
