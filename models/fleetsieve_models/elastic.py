"""Why floors cannot be met: how many GPUs are short, or how much load the critical classes lack."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import pyomo.environ as pyo
from fleetsieve_models.fleet import add_fleet
from fleetsieve_models.problem import Configuration, FleetProblem
from fleetsieve_models.selection import Expr, add_selection, enlarged, replicas_for, served_classes
from fleetsieve_models.stages import add_holds

QUESTIONS = ("extra", "lack")
"""The two objectives; each is asked with the other held at 0."""


def elastic(problem: FleetProblem) -> pyo.ConcreteModel:
    """The floors as requirements, made elastic by more GPUs e_p on pool p and by a lacking fulfilment l_i.

        Σ_{q in Q_i} y_q <= 1,  n_q <= M_q y_q      (1)  with M_q = ceil(λ_i / c_q)
        δ_i - l_i <= r_i <= Σ_q (c_q / λ_i) n_q     (2)  for the critical classes i, l_i >= 0
        Σ_{q on p} g_q n_q <= G_p + e_p, on nodes   (3)  e_p in whole nodes where counting GPUs is not enough
        n_q, e_p in {0, 1, 2, ...},  y_q in {0, 1}  (4)

        extra   min  Σ_p e_p             asked with lack held at 0: the GPUs that are short
        lack    min  Σ_i p_i λ_i l_i     asked with extra held at 0: the requests/s that critical classes lack
        lack_k  min  p_i λ_i l_i         of the k-th critical class, asked with lack held: who lacks what

    Takes the problem of the best realisation. Critical classes without any configuration are left out: no number of
    GPUs helps them, and the caller sets it. Gives a model like `lexicographic`, over `enlarged(problem)`.
    """
    large = enlarged(problem)
    critical = {c.name: c for c in served_classes(large) if c.floor is not None}

    def most(q: Configuration) -> int:
        return replicas_for(critical[q.class_name].demand_rps, q.capacity_rps)

    m = pyo.ConcreteModel()
    add_selection(m, large, tuple(critical.values()), most)
    add_fleet(m, large, have=problem.pool_by_name)
    m.l = pyo.Var(m.SERVED, bounds=lambda m, i: (0, critical[i].floor))

    @m.Constraint(m.SERVED)
    def floor(m: pyo.ConcreteModel, i: str) -> Expr:
        served = sum(min(1.0, m.c[q] / critical[i].demand_rps) * m.n[q] for q in m.Q[i])
        return critical[i].floor - m.l[i] <= served

    @m.Objective(sense=pyo.minimize)
    def extra(m: pyo.ConcreteModel) -> Expr:
        return sum(m.more_gpus[p] for p in m.POOLS)

    @m.Objective(sense=pyo.minimize)
    def lack(m: pyo.ConcreteModel) -> Expr:
        return sum(critical[i].priority * critical[i].demand_rps * m.l[i] for i in m.SERVED)

    for k, i in enumerate(m.SERVED):
        own = critical[i].priority * critical[i].demand_rps * m.l[i]
        m.add_component(lack_of(k), pyo.Objective(expr=own, sense=pyo.minimize))
    add_holds(m, [*QUESTIONS, *(lack_of(k) for k in range(len(m.SERVED)))])
    return m


def lack_of(k: int) -> str:
    """The name of the objective that is what the k-th critical class lacks."""
    return f"lack_{k}"
