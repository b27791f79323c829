"""The dual question: the fewest GPUs that serve every class in full, under both ends of the envelope.

The verdict follows the certificate's: certified-infeasible when even the upper bounds cannot serve some class at any number of
GPUs; certified-feasible when measured cells serve every class with a number of GPUs within ε of what any realisation needs;
undecided otherwise. No class is left out here: a class that no cell can serve makes full service infeasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fleetsieve_models.problem import FleetProblem

from fleetsieve.certificate import Verdict
from fleetsieve.certificate.document import Document, plan_document, versions
from fleetsieve.certificate.sentence import rests_on_bounds
from fleetsieve.envelope import Envelope
from fleetsieve.solving import Need, optimise_fewest_gpus


@dataclass(frozen=True)
class Sizing:
    """Both answers and the verdict; `gap_gpus` is the share of the conservative plan's GPUs that may be too many."""

    verdict: Verdict
    envelope: Envelope
    epsilon: float
    gap_gpus: float
    conservative: Need
    optimistic: Need


def size(envelope: Envelope) -> Sizing:
    """The fewest GPUs for full service under the lower and under the upper bounds.

    Raises:
        SolverMissing, SolveFailed: as `solving.optimise_fewest_gpus`.
    """
    low, high = (optimise_fewest_gpus(_all_counted(p)) for p in (envelope.conservative, envelope.optimistic))
    epsilon, gap = envelope.instance.certificate.epsilon, math.inf
    proven = high.optimum.bounds.get("gpus")
    if low.optimum.allocation is not None and proven is not None:
        used = low.optimum.allocation.gpus_used
        gap = max(0.0, used - proven) / used if used else 0.0
    verdict = Verdict.FEASIBLE if gap <= epsilon else Verdict.UNDECIDED
    if high.optimum.infeasible:
        verdict = Verdict.INFEASIBLE
    return Sizing(verdict, envelope, epsilon, gap, low, high)


def _all_counted(problem: FleetProblem) -> FleetProblem:
    return replace(problem, classes=tuple(replace(c, in_minimum=True) for c in problem.classes))


def sizing_sentence(sizing: Sizing) -> str:
    """The verdict in one sentence."""
    s = sizing
    words = [f"{s.verdict}:"]
    plan, hoped = s.conservative.optimum.allocation, s.optimistic.optimum.allocation
    fleet = s.envelope.instance.fleet.gpus
    if s.verdict is Verdict.INFEASIBLE:
        words.append(f"{s.optimistic.optimum.reason} that meets its SLO, at any number of GPUs.")
    elif plan is None:
        least = f"at least {hoped.gpus_used} GPUs would be needed" if hoped is not None else "nothing is proven"
        words.append(f"no plan of measured cells serves every class in full yet; {least}.")
    else:
        fits = f"the fleet has {fleet}" if plan.gpus_used > fleet else f"they fit the fleet of {fleet}"
        words.append(f"{plan.gpus_used} GPUs serve every class in full ({fits});")
        proven = s.optimistic.optimum.bounds.get("gpus")
        needed = "an unknown number" if proven is None else f"at least {proven:.0f} GPUs"
        words.append(f"every realisation inside the bounds needs {needed}.")
    return " ".join(words)


def sizing_document(sizing: Sizing) -> Document:
    """The answer as JSON values, with the keys of a certificate; `gap` has the share of GPUs beside the stages."""
    s = sizing
    return {
        "formulation": "fewest-gpus",
        "instance": s.envelope.instance.name,
        "verdict": str(s.verdict),
        "epsilon": s.epsilon,
        "gap": {
            "shortfall": 0.0,
            "min_fulfilment": 0.0 if s.conservative.optimum.allocation is not None else None,
            "goodput": 0.0 if s.conservative.optimum.allocation is not None else None,
            "gpus": s.gap_gpus if math.isfinite(s.gap_gpus) else None,
        },
        "conservative": _need_document(s.conservative, s.envelope),
        "optimistic": _need_document(s.optimistic, s.envelope),
        "assumptions": [{"name": a.name, "statement": a.describe()} for a in s.envelope.in_force],
        "explanation": sizing_sentence(s),
        "unservable": list(s.envelope.unservable),
        "rests_on": list(rests_on_bounds(s.envelope)),
        "versions": versions(),
    }


def _need_document(need: Need, envelope: Envelope) -> Document | None:
    if need.optimum.allocation is None:
        return None
    plan = plan_document(need.optimum.allocation, envelope)
    return {**plan, "gpus_by_pool": dict(need.gpus), "price_per_h": need.price_per_h}
