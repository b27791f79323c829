"""The dual question: the fewest GPUs that serve every class in full."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import pyomo.environ as pyo
from fleetsieve_models.fleet import add_fleet
from fleetsieve_models.lexicographic import add_tie_breaks
from fleetsieve_models.problem import Configuration, FleetProblem
from fleetsieve_models.selection import Expr, add_selection, enlarged, replicas_for, served_classes
from fleetsieve_models.stages import add_holds

STAGES = ("gpus", "price", "nodes", "spare", "replicas", "order")
"""The stages, first to last; `price` is absent where no GPU has one, `nodes` where no pool has nodes."""


def fewest_gpus(problem: FleetProblem) -> pyo.ConcreteModel:
    """The fewest GPUs, then the least price per hour, then the usual order, that serve every class in full.

        Σ_{q in Q_i} y_q = 1,  n_q <= M_q y_q       (1)
        n_q >= M_q y_q,  M_q = ceil(λ_i / c_q)      (2)  M_q replicas serve class i in full, fewer do not
        replicas placed on nodes of P_p GPUs        (3)  as many nodes and GPUs as it takes
        n_q in {0, 1, 2, ...},  y_q in {0, 1}       (4)

        gpus    min  Σ_q g_q n_q
        price   min  Σ_q (price of a GPU of the pool of q, per hour) g_q n_q

    Takes the problem; how many GPUs its pools have is ignored, how many make a node is not. Classes without any
    configuration are left out: the caller states so. Gives a model like `lexicographic`, over `enlarged(problem)`.
    """
    large = enlarged(problem)
    served = {c.name: c for c in served_classes(large)}

    def most(q: Configuration) -> int:
        return replicas_for(served[q.class_name].demand_rps, q.capacity_rps)

    m = pyo.ConcreteModel()
    add_selection(m, large, tuple(served.values()), most)
    add_fleet(m, large)

    @m.Constraint(m.SERVED)
    def some_configuration(m: pyo.ConcreteModel, i: str) -> Expr:
        return sum(m.y[q] for q in m.Q[i]) >= 1

    @m.Constraint(m.CONFIGURATIONS)
    def in_full(m: pyo.ConcreteModel, q: int) -> Expr:
        return m.n[q] >= m.M[q] * m.y[q]

    price_of = {k: large.pool_by_name[large.configurations[k].pool].price_per_gpu_h for k in m.CONFIGURATIONS}
    add_tie_breaks(m)
    if any(price_of.values()):

        @m.Objective(sense=pyo.minimize)
        def price(m: pyo.ConcreteModel) -> Expr:
            return sum(price_of[q] * m.g[q] * m.n[q] for q in m.CONFIGURATIONS)

    add_holds(m, STAGES)
    return m
