"""The fleet decision: which configuration and how many replicas for each class, in lexicographic order."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import pyomo.environ as pyo
from fleetsieve_models.fleet import add_fleet
from fleetsieve_models.problem import STAGES, Configuration, FleetProblem
from fleetsieve_models.selection import Expr, add_selection, replicas_for, served_classes
from fleetsieve_models.stages import add_holds


def lexicographic(problem: FleetProblem, eta: float = 0.0) -> pyo.ConcreteModel:
    """The fleet decision of equations (1) to (5), one objective per stage, all deactivated.

    Integers n_q (replicas), binaries y_q, served load x_i = λ_i r_i with fulfilment r_i:

        Σ_{q in Q_i} y_q <= 1,  n_q <= M_q y_q                  (1) one configuration per class
        x_i <= Σ_{q in Q_i} c_q n_q                             (2) capacity
        Σ_q g_q n_q <= G, and replicas placed on nodes          (3) GPUs of each pool
        n_q in {0, 1, 2, ...},  y_q in {0, 1},  0 <= x_i <= λ_i (4) domains
        only usable q are in the problem                        (5) policy

    (2) is written in fulfilment, r_i <= Σ_q min(1, c_q / λ_i) n_q, the same for whole replicas because r_i <= 1.
    M_q = min(floor(G / g_q), ceil(λ_i / c_q)): a replica beyond ceil(λ_i / c_q) serves nothing and takes GPUs.

    Stages, each solved with the earlier ones held:

        shortfall        min  Σ_{critical i} p_i s_i,  s_i >= δ_i - r_i,  s_i >= 0
        min_fulfilment   max  m,  m <= r_i for the classes in the minimum;   held at its value - η
        goodput          max  Σ_i x_i
        gpus             min  Σ_q g_q n_q
        nodes            min  Σ_p t_p  (nodes touched, over pools with nodes)
        spare            max  Σ_i Σ_{q in Q_i} c_q n_q
        replicas         min  Σ_q n_q
        order            min  Σ_q (place of q in the fixed order) n_q

    A class that demands nothing is fulfilled and in no constraint; one without configurations has x_i = 0 and n_q, y_q
    do not exist for it.

    Takes the problem and η >= 0. Gives a model without a solution: see `stages.stages` for the objectives, their limits
    and the constraints that hold them.

    Raises:
        ValueError: when η is negative or not finite.
    """
    if not 0.0 <= eta < float("inf"):
        raise ValueError(f"eta is {eta}, not a finite number >= 0")
    served = {c.name: c for c in served_classes(problem)}
    unserved = {c.name: c for c in problem.classes if c.demand_rps > 0.0 and c.name not in served}

    def most(q: Configuration) -> int:
        return min(problem.max_replicas(q), replicas_for(served[q.class_name].demand_rps, q.capacity_rps))

    m = pyo.ConcreteModel()
    add_selection(m, problem, tuple(served.values()), most)
    add_fleet(m, problem)

    m.demand = pyo.Param(m.SERVED, initialize={i: c.demand_rps for i, c in served.items()})
    m.r = pyo.Var(m.SERVED, bounds=(0, 1))

    @m.Constraint(m.SERVED)
    def capacity(m: pyo.ConcreteModel, i: str) -> Expr:
        return m.r[i] <= sum(min(1.0, m.c[q] / m.demand[i]) * m.n[q] for q in m.Q[i])

    critical = {i: c for i, c in (served | unserved).items() if c.floor is not None}
    if critical:
        m.CRITICAL = pyo.Set(initialize=list(critical))
        m.s = pyo.Var(m.CRITICAL, bounds=lambda m, i: (0 if i in served else critical[i].floor, 1))

        @m.Constraint([i for i in critical if i in served])
        def floor(m: pyo.ConcreteModel, i: str) -> Expr:
            return m.s[i] >= critical[i].floor - m.r[i]

        @m.Objective(sense=pyo.minimize)
        def shortfall(m: pyo.ConcreteModel) -> Expr:
            return sum(critical[i].priority * m.s[i] for i in m.CRITICAL)

    if any(c.in_minimum for c in (served | unserved).values()):
        m.m = pyo.Var(bounds=(0, 0 if any(c.in_minimum for c in unserved.values()) else 1))

        @m.Constraint([i for i, c in served.items() if c.in_minimum])
        def least_of_all(m: pyo.ConcreteModel, i: str) -> Expr:
            return m.m <= m.r[i]

        @m.Objective(sense=pyo.maximize)
        def min_fulfilment(m: pyo.ConcreteModel) -> Expr:
            return m.m

    @m.Objective(sense=pyo.maximize)
    def goodput(m: pyo.ConcreteModel) -> Expr:
        return sum(m.demand[i] * m.r[i] for i in m.SERVED)

    add_tie_breaks(m)
    add_holds(m, STAGES, {"min_fulfilment": eta})
    return m


def add_tie_breaks(m: pyo.ConcreteModel) -> None:
    """Add the objectives that choose among equally good plans: gpus, nodes, spare, replicas, order.

    Takes a model with a selection and a fleet. `nodes` is left out where no pool has nodes.
    """

    @m.Objective(sense=pyo.minimize)
    def gpus(m: pyo.ConcreteModel) -> Expr:
        return sum(m.g[q] * m.n[q] for q in m.CONFIGURATIONS)

    if m.NODE_POOLS:

        @m.Objective(sense=pyo.minimize)
        def nodes(m: pyo.ConcreteModel) -> Expr:
            return sum(m.t[p] for p in m.NODE_POOLS)

    @m.Objective(sense=pyo.maximize)
    def spare(m: pyo.ConcreteModel) -> Expr:
        return sum(m.c[q] * m.n[q] for q in m.CONFIGURATIONS)

    @m.Objective(sense=pyo.minimize)
    def replicas(m: pyo.ConcreteModel) -> Expr:
        return sum(m.n[q] for q in m.CONFIGURATIONS)

    @m.Objective(sense=pyo.minimize)
    def order(m: pyo.ConcreteModel) -> Expr:
        return sum((q + 1) * m.n[q] for q in m.CONFIGURATIONS)
