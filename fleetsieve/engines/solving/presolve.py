"""Configurations that no optimal plan uses, found without a solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleetsieve_models.problem import Configuration, FleetProblem
from fleetsieve_models.selection import replicas_for

from fleetsieve.allocation import tolerance


def may_presolve(stages: Sequence[str]) -> bool:
    """Whether `undominated` keeps an optimum of these stages: `spare` must come before `replicas` and `order`."""
    return "spare" in stages or not {"replicas", "order"} & set(stages)


def undominated(problem: FleetProblem) -> FleetProblem:
    """The same problem with the capacity of every dominated configuration at 0, so that no plan uses it.

    The places of the configurations in the fixed order stay. Configuration q is dominated by q' of the same class and
    pool when g_q' divides g_q, with t = g_q / g_q', and either

        (a)  t c_q' > c_q by more than a tie in any plan's spare capacity, or
        (b)  t = 1, c_q' >= c_q and q' comes before q.

    Then q is in no optimum of the full order of stages. Proof: take a plan with n_q > 0 replicas of q and replace each
    by t of q'. They fit where the one stood, so the GPUs in use are the same and no more nodes are touched; the
    capacity of class i rises from c_q n_q to t c_q' n_q, so x_i, and with it every r_i, the goodput and the minimum do
    not fall and the shortfall does not rise: every stage up to `nodes` is at least as good. In case (a) the spare
    capacity is greater by more than a tie. In case (b) it is at least as great, the replicas are as many and the order
    is smaller. Either way the plan was not optimal. Domination is transitive and irreflexive, so what remains contains
    an optimum.
    """
    demand = {c.name: c.demand_rps for c in problem.classes}
    usable = {name: qs for name, qs in problem.configurations_of.items() if demand[name] > 0.0}
    largest_rps = sum(
        max(
            (min(problem.max_replicas(q), replicas_for(demand[i], q.capacity_rps)) * q.capacity_rps for q in qs),
            default=0.0,
        )
        for i, qs in usable.items()
    )
    margin = 2.0 * tolerance(largest_rps)
    kept = {q.name for qs in usable.values() for q in _kept(qs, margin)}
    configurations = tuple(q if q.name in kept else replace(q, capacity_rps=0.0) for q in problem.configurations)
    return replace(problem, configurations=configurations)


def _kept(configurations: Sequence[Configuration], margin: float) -> list[Configuration]:
    """The configurations of one class that none of the class dominates; `configurations` are in the fixed order."""
    best: dict[tuple[str, int], float] = {}
    for q in configurations:
        best[q.pool, q.gpus] = max(best.get((q.pool, q.gpus), 0.0), q.capacity_rps)
    kept, seen = [], dict.fromkeys(best, 0.0)
    for q in configurations:
        arm = (q.pool, q.gpus)
        if q.capacity_rps > seen[arm] and not any(
            pool == q.pool and q.gpus % gpus == 0 and q.gpus // gpus * capacity > q.capacity_rps + margin
            for (pool, gpus), capacity in best.items()
        ):
            kept.append(q)
        seen[arm] = max(seen[arm], q.capacity_rps)
    return kept
