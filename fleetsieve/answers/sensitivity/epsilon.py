"""Break points of ε.

A plan is certified when ε reaches its largest gap. Where η is not stated it is ε/2, and then ε moves the plan as well: the goodput
stage may use every step with a fulfilment of at least m* - ε/2, so it gains one at ε = 2 (m* - r) for each fulfilment r that some
number of replicas gives. m* does not depend on ε.
"""

from __future__ import annotations

from itertools import pairwise

from fleetsieve_models.problem import FleetProblem

from fleetsieve.answers.sensitivity.stretches import Decide
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.engines.frontier import Frontier, problem_curves


def epsilon_breaks(envelope: Envelope, lo: float, hi: float, decide: Decide) -> list[float]:
    """Every ε in (lo, hi) at which the decision may change."""
    moves: list[float] = []
    if envelope.instance.certificate.eta is None:
        best = decide(lo).lower.best_min_fulfilment
        moves = sorted({e for r in _fulfilments(envelope.conservative) if lo < (e := 2.0 * (best - r)) < hi})
    certifies = []
    for low, high in pairwise([lo, *moves, hi]):
        largest = decide((low + high) / 2.0).gap.largest
        if low < largest < high:
            certifies.append(largest)
    return sorted([*moves, *certifies])


def _fulfilments(problem: FleetProblem) -> set[float]:
    """Every fulfilment that a plan may give a class: those of its curve, or where placement matters of any number of replicas."""
    if Frontier.accepts(problem):
        return {r for c in problem_curves(problem) for r in c.fulfilment.tolist()}
    found = {0.0}
    for c in problem.classes:
        for q in problem.configurations_of[c.name] if c.demand_rps > 0.0 else ():
            limit = min(problem.max_replicas(q), int(min(c.demand_rps / q.capacity_rps, 1e6)))
            found |= {min(1.0, n * q.capacity_rps / c.demand_rps) for n in range(1, limit + 1)}
    return found
