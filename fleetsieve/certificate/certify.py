"""The verdict: certified-feasible, undecided or certified-infeasible.

 - certified-infeasible: proven that even the best realisation inside the bounds cannot meet every critical floor (`floors`).
 - certified-feasible: every floor is met, every stage gap <= ε, and no class is open (the proof is in `gap`).
 - undecided: otherwise; it names what blocks it and the cells that could settle it.

A floor that is missed by no more than `allocation.ROUNDED` of it counts as met, in all three.

Certified-feasible means within ε of the best that this fleet can do, with every floor met. It does not mean that demand is met.
The verdict is not monotone in the data: one more measurement may drop an assumption, or move a near-tie in fulfilment, and reopen
the gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fleetsieve.allocation import Allocation, Engine, evaluate
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.standing import candidates
from fleetsieve.brief import summary
from fleetsieve.certificate.floors import out_of_reach, plan_within_rounding
from fleetsieve.certificate.gap import Gap, Lower, Upper, keeps_least_fulfilment
from fleetsieve.certificate.rule import blocking_stage, meets_floors
from fleetsieve.errors import SolveFailed
from fleetsieve.instance import CellKey


class Verdict(StrEnum):
    """The three verdicts."""

    FEASIBLE = "certified-feasible"
    UNDECIDED = "undecided"
    INFEASIBLE = "certified-infeasible"


@dataclass(frozen=True)
class Certificate:
    """A verdict with all that it states; `lower` and `conservative` are guaranteed, `upper` and `optimistic` are hoped for.

    `blocking` is the stage that keeps an undecided verdict open ("" otherwise), `settling` the cells whose measurement could
    settle it, `reason` why a bound is missing when the solver could not prove one. `open_classes` are servable under θ+ but
    have no committable cell.
    """

    verdict: Verdict
    envelope: Envelope
    engine: str
    epsilon: float
    eta: float
    gap: Gap
    lower: Lower
    upper: Upper
    conservative: Allocation
    optimistic: Allocation | None
    unservable: tuple[str, ...]
    open_classes: tuple[str, ...]
    blocking: str
    settling: tuple[CellKey, ...]
    reason: str = ""

    def __repr__(self) -> str:
        from fleetsieve.certificate.sentence import gap_text  # which covers certificates

        lines = [f"gap {gap_text(self.gap)}, certifies at {self.epsilon:g}"]
        lines += [f"blocked by {self.blocking}"] if self.blocking else []
        lines += [f"unservable: {', '.join(self.unservable)}"] if self.unservable else []
        plan = [class_plan.sentence for class_plan in self.conservative.classes]
        return summary(f"Certificate of {self.envelope.instance.name}: {self.verdict}", [*lines, *plan])


def certify(
    envelope: Envelope, engine: Engine, *, eta: float | None = None, epsilon: float | None = None
) -> Certificate:
    """Solve the fleet decision at both ends of the envelope and compare.

    Args:
        envelope: bounds of every cell.
        engine: what solves; its bounds must be proven ones.
        eta: fairness slack >= 0; None takes the instance's.
        epsilon: largest gap that certifies, > 0; None takes the instance's.

    Raises:
        SolveFailed: when the engine finds that there is no conservative plan.
    """
    settings = envelope.instance.certificate
    epsilon = settings.epsilon if epsilon is None else epsilon
    eta = settings.fairness_slack if eta is None else eta
    low = engine.optimise(envelope.conservative, eta=eta)
    if low.infeasible:
        raise SolveFailed(
            f"no conservative plan: {low.reason}", "an empty fleet always has one; run `fleetsieve doctor`"
        )
    # The proof in `gap` holds for any plan as A-, so one that a time limit cut short, or the empty one, is sound.
    plan = low.allocation or evaluate(envelope.conservative, {})
    plan = plan_within_rounding(envelope.conservative, plan, engine, eta)
    best = low.values.get("min_fulfilment", plan.min_fulfilment)
    lower = Lower(plan.shortfall, best, plan.min_fulfilment, plan.goodput_rps)
    upper, optimistic, reason = _upper(envelope, engine, lower, eta)
    gap = Gap.between(lower, upper, envelope.optimistic.total_demand_rps)
    unclear = tuple(c.name for c in envelope.instance.classes if envelope.classes[c.name].open)
    stage = blocking_stage(gap, floors_met=meets_floors(plan), open_classes=bool(unclear), epsilon=epsilon)
    blocking = "solver" if reason else stage
    if blocking and not low.proven:
        blocking, reason = "solver", reason or low.reason
    missed = upper.shortfall is not None and not meets_floors(plan)
    if missed and out_of_reach(envelope.optimistic, upper.shortfall or 0.0, optimistic, engine):
        verdict, blocking = Verdict.INFEASIBLE, ""
    else:
        verdict = Verdict.UNDECIDED if blocking else Verdict.FEASIBLE
    return Certificate(
        verdict=verdict,
        envelope=envelope,
        engine=engine.name,
        epsilon=epsilon,
        eta=eta,
        gap=gap,
        lower=lower,
        upper=upper,
        conservative=plan,
        optimistic=optimistic,
        unservable=envelope.unservable,
        open_classes=unclear,
        blocking=blocking,
        settling=settling_cells(envelope, optimistic, unclear) if blocking else (),
        reason=reason,
    )


def _upper(envelope: Envelope, engine: Engine, lower: Lower, eta: float) -> tuple[Upper, Allocation | None, str]:
    """S+, MM+ and GP+ as proven bounds, the plan of θ+, and why a bound is missing."""
    problem = envelope.optimistic
    optimum = engine.optimise(problem, eta=eta)
    shortfall = optimum.bounds.get("shortfall")
    if shortfall is None or optimum.allocation is None:
        return Upper(None, None, None), optimum.allocation, optimum.reason or "the solver proved no bound under θ+"
    holds = {"shortfall": lower.shortfall}
    if keeps_least_fulfilment(lower.shortfall, optimum.allocation.shortfall):
        fulfilment = optimum.bounds.get("min_fulfilment")
        best = engine.optimise(problem, ("goodput",), holds={**holds, "min_fulfilment": lower.best_min_fulfilment})
    else:
        fulfilment = engine.optimise(problem, ("min_fulfilment",), holds=holds).bounds.get("min_fulfilment")
        best = engine.optimise(problem, ("goodput",), holds=holds)
    goodput = best.bounds.get("goodput")
    reason = (
        "" if goodput is not None and fulfilment is not None else best.reason or "the solver proved no bound under θ+"
    )
    return Upper(max(0.0, shortfall), fulfilment, goodput), optimum.allocation, reason


def settling_cells(envelope: Envelope, optimistic: Allocation | None, unclear: tuple[str, ...]) -> tuple[CellKey, ...]:
    """Cells that could settle an undecided verdict: those that the optimistic plan hopes for, and those of open classes."""
    waiting = candidates(envelope)
    hoped = set(optimistic.replica_counts) if optimistic is not None else set()
    return tuple(key for key in waiting if key in hoped or key.class_name in unclear) or waiting
