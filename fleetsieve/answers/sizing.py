"""The dual question: the fewest GPUs that serve every class in full, under both ends of the envelope.

The verdict follows the certificate's: certified-infeasible when even the upper bounds cannot serve some class at any number of
GPUs; certified-feasible when measured cells serve every class with a number of GPUs within ε of what any realisation needs;
undecided otherwise. No class is left out here: a class that no cell can serve makes full service infeasible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleetsieve_models.placement import fewest_nodes
from fleetsieve_models.problem import FleetProblem, GpuPool

from fleetsieve.allocation import Allocation, evaluate, replica_sizes
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.brief import brief
from fleetsieve.certificate import Verdict
from fleetsieve.certificate.document import Document, assumptions_document, plan_document, versions
from fleetsieve.certificate.sentence import listed, rests_on_bounds
from fleetsieve.engines.solving import Need, optimise_fewest_gpus
from fleetsieve.errors import SolveFailed


@dataclass(frozen=True)
class Sizing:
    """Both answers and the verdict; `gap_gpus` is the share of the conservative plan's GPUs that may be too many."""

    verdict: Verdict
    envelope: Envelope
    epsilon: float
    gap_gpus: float
    conservative: Need
    optimistic: Need

    def __repr__(self) -> str:
        return brief(self)


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
    plan, proven = s.conservative.optimum.allocation, s.optimistic.optimum.bounds.get("gpus")
    if s.verdict is Verdict.INFEASIBLE:
        words.append(f"{s.optimistic.optimum.reason} that meets its SLO, at any number of GPUs.")
    elif plan is None:
        least = "nothing is proven" if proven is None else f"at least {proven:.0f} GPUs would be needed"
        words.append(f"no plan of measured cells serves every class in full yet; {least}.")
    else:
        words.append(f"{_needed(plan, s.conservative.gpus, s.envelope.conservative)};")
        needed = "an unknown number" if proven is None else f"at least {proven:.0f} GPUs"
        words.append(f"every realisation inside the bounds needs {needed}.")
    return " ".join(words)


def _needed(plan: Allocation, used: Mapping[str, int], real: FleetProblem) -> str:
    """The GPUs and nodes of a plan beside those that the fleet has, and whether the fleet can host it."""
    fits, nodes = fits_fleet(plan, real), nodes_by_pool(plan)

    def on_nodes(pool: GpuPool) -> str:
        whole = nodes.get(pool.name, 0) * (pool.gpus_per_node or 0)
        if whole in (0, used[pool.name]):
            return ""
        filled = "" if fits and whole > pool.gpus else f" ({whole} GPUs)"  # it fits with the help of a partial node
        return f" on {nodes[pool.name]} node{'s' if nodes[pool.name] > 1 else ''} of {pool.gpus_per_node}{filled}"

    if len(real.pools) == 1:
        (pool,) = real.pools
        fleet = f"they fit the fleet of {pool.gpus}" if fits else f"the fleet of {pool.gpus} cannot host them"
        if plan.gpus_used > pool.gpus:
            fleet = f"the fleet has {pool.gpus}"
        return f"{plan.gpus_used} GPUs{on_nodes(pool)} serve every class in full ({fleet})"
    pools = [
        f"{used[p.name]} of {p.name}{on_nodes(p)} against the fleet's {p.gpus}" for p in real.pools if used[p.name]
    ]
    fleet = "they fit the fleet" if fits else "the fleet cannot host them"
    return "; ".join([f"{plan.gpus_used} GPUs serve every class in full", *([listed(pools)] if pools else []), fleet])


def fits_fleet(plan: Allocation, real: FleetProblem) -> bool:
    """Whether the fleet as it is can host a plan that was made for pools without end."""
    try:
        evaluate(real, plan.replica_counts)
    except SolveFailed:
        return False
    return True


def nodes_by_pool(plan: Allocation) -> dict[str, int]:
    """The fewest whole nodes that host a plan, for every pool that has nodes.

    (A partial node never makes them fewer: a whole one hosts what it hosts.)
    """
    sizes = replica_sizes(plan.problem, plan.replica_counts)
    return {p.name: fewest_nodes(p, of_pool) or 0 for p, of_pool in sizes.items() if p.gpus_per_node is not None}


def sizing_document(sizing: Sizing) -> Document:
    """The answer as JSON values, with the keys of a certificate; `gap` has the share of GPUs beside the stages."""
    s = sizing
    served = None if s.conservative.optimum.allocation is None else 0.0
    return {
        "formulation": "fewest-gpus",
        "instance": s.envelope.instance.name,
        "verdict": str(s.verdict),
        "epsilon": s.epsilon,
        "gap": {
            **dict.fromkeys(("shortfall", "min_fulfilment", "goodput"), served),
            "gpus": s.gap_gpus if math.isfinite(s.gap_gpus) else None,
        },
        "conservative": _need_document(s.conservative, s.envelope.conservative, s.envelope),
        "optimistic": _need_document(s.optimistic, s.envelope.optimistic, s.envelope),
        "assumptions": assumptions_document(s.envelope),
        "explanation": sizing_sentence(s),
        "unservable": list(s.envelope.unservable),
        "rests_on": list(rests_on_bounds(s.envelope)),
        "versions": versions(s.envelope.in_force),
    }


def _need_document(need: Need, real: FleetProblem, envelope: Envelope) -> Document | None:
    plan = need.optimum.allocation
    if plan is None:
        return None
    return {
        **plan_document(plan, envelope),
        "gpus_by_pool": dict(need.gpus),
        "nodes_by_pool": nodes_by_pool(plan),
        "fits_fleet": fits_fleet(plan, real),
        "price_per_h": need.price_per_h,
    }
