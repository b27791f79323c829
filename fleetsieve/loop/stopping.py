"""When to stop before a verdict: one rule a class, one method each; the verdict stays undecided.

UnprofitableWithin(hours)   stop when closing the gap costs more requests than it can bring while the fleet is deployed
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from fleetsieve.allocation import TIE
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate
from fleetsieve.errors import UsageError
from fleetsieve.loop.policies import Choice, Situation

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run was stopped: what closing the gap can bring and what it is expected to cost, both in requests.

    worth_requests = gap_rps x horizon_h x 3600; price_requests = to_close_gpu_s x rps_per_gpu.
    """

    horizon_h: float
    gap_rps: float
    worth_requests: float
    to_close_gpu_s: float
    rps_per_gpu: float
    price_requests: float

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return (
            f"stopped: over {self.horizon_h:g} h the gap is worth at most {self.worth_requests:.4g} requests "
            f"({self.gap_rps:.3g} requests/s), and closing it is expected to cost {self.price_requests:.4g} requests "
            f"({self.to_close_gpu_s:.4g} GPU-seconds at {self.rps_per_gpu:.3g} requests/s per GPU)."
        )


class StopRule(Protocol):
    """Decides whether an undecided run continues."""

    def stopped(self, situation: Situation, choice: Choice) -> Stop | None:
        """Why the run stops before `choice` is measured; None when it continues."""
        ...


@dataclass(frozen=True)
class UnprofitableWithin:
    """Stops when the gap, as requests over the deployment, is worth less than the GPU-seconds that closing it should cost.

    What the gap is worth is its greatest value, so that the rule errs towards measuring: the goodput gap in requests/s, and what
    the least served classes lack of the fulfilment that every class could have, Σ_i λ_i max(0, MM+ - r_i). That gap is in requests
    of theirs; goodput may buy it from other classes, so it is not in the goodput gap, and both count. No plan can gain more than
    the demand that is not served now, which caps the sum.

    What closing costs is the policy's own expectation where it has one (decision-gap: Γ over the best score, as if every further
    GPU-second closed as much), but at least the cheapest candidate, since one measurement is the least, and at most one
    measurement of every candidate; a policy without an expectation counts the cheapest alone. A GPU-second is worth the most
    requests/s per GPU that a measured cell sustains within its SLO: what the GPU would have served meanwhile.

    The run continues whatever it costs while a floor is unproven, a class is open, the solver has not proven a bound, or nothing
    is planned. A longer horizon never stops earlier.

    Raises:
        UsageError: when `horizon_h`, in hours, is not a finite number > 0.
    """

    horizon_h: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.horizon_h) and self.horizon_h > 0.0):
            raise UsageError(f"a deployment of {self.horizon_h:g} hours is not a finite number > 0")

    def stopped(self, situation: Situation, choice: Choice) -> Stop | None:
        """Why the run stops before `choice` is measured; None when it continues."""
        rate = best_rps_per_gpu(situation.envelope)
        if rate is None or _must_go_on(situation.certificate):
            return None
        gap = gap_rps(situation.certificate)
        costs = [situation.cost_gpu_s[key] for key in situation.candidates]
        expected = choice.to_close_gpu_s
        to_close = min(costs) if expected is None else min(max(expected, min(costs)), math.fsum(costs))
        worth, price = gap * self.horizon_h * SECONDS_PER_HOUR, to_close * rate
        return Stop(self.horizon_h, gap, worth, to_close, rate, price) if worth < price else None


def gap_rps(certificate: Certificate) -> float:
    """The stage gaps in goodput and fulfilment as requests/s, at most the demand that is not served."""
    c = certificate
    reach = c.lower.min_fulfilment + c.gap.min_fulfilment
    lacking = math.fsum(
        class_plan.demand_rps * max(0.0, reach - class_plan.fulfilment)
        for demand, class_plan in zip(c.conservative.problem.classes, c.conservative.classes, strict=True)
        if demand.in_minimum and class_plan.demand_rps > 0.0
    )
    total = c.conservative.problem.total_demand_rps
    return min(c.gap.goodput * total + lacking, total - c.lower.goodput_rps)


def best_rps_per_gpu(envelope: Envelope) -> float | None:
    """The most requests/s per GPU that a cell which can be committed is sure to sustain; None before there is one."""
    rates = [
        b.capacity_rps.lo * envelope.instance.fleet.max_utilisation / b.cell.gpus
        for class_envelope in envelope.classes.values()
        for b in class_envelope.bounds.values()
        if b.committable
    ]
    return max(rates, default=0.0) or None


def _must_go_on(c: Certificate) -> bool:
    """Whether what is open is not for sale: a floor, a class without a cell, a bound that was not proven, no plan at all."""
    unproven = c.blocking in ("solver", "shortfall") or not math.isfinite(c.gap.largest)
    floor = c.lower.shortfall > TIE or c.gap.shortfall > TIE
    return unproven or floor or bool(c.open_classes) or not c.conservative.replica_counts
