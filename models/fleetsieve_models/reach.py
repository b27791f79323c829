"""A least fulfilment for every class, in whole replicas: what makes the fairest plan easy to find on several pools."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import pyomo.environ as pyo
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem
from fleetsieve_models.selection import Expr, served_classes


def fulfilment(demand: ClassDemand, q: Configuration, replicas: int) -> float:
    """r_i = min(λ_i, c_q n) / λ_i of `replicas` n, in the floating point of a plan's evaluation."""
    return min(demand.demand_rps, q.capacity_rps * replicas) / demand.demand_rps


def replicas_to_reach(demand: ClassDemand, q: Configuration, least: float) -> int:
    """N_q(r), the fewest replicas whose fulfilment is at least r = `least` in [0, 1]."""
    count = max(0, int(least * demand.demand_rps / q.capacity_rps) - 1)
    while fulfilment(demand, q, count) < least:
        count += 1
    return count


def add_reach(m: pyo.ConcreteModel, problem: FleetProblem) -> None:
    """Add what holds when every class in the minimum reaches a fulfilment of r, to the model of `lexicographic`.

        Σ_{q in Q_i} y_q >= ceil(r)   some_configuration   for the classes i in the minimum
        n_q >= N_q(r) y_q             enough               for their configurations q

    Both follow from r <= r_i and whole replicas, and they are much stronger than r <= r_i alone: a relaxation that spreads
    a class over several pools has to round its replicas up in each. Adds the parameters `least_replicas` (N_q) and
    `least_selected` (ceil(r)), 0 at first, and deactivates both constraints.
    """
    counted = [c.name for c in served_classes(problem) if c.in_minimum]
    own = [q for i in counted for q in m.Q[i]]
    m.least_replicas = pyo.Param(own, domain=pyo.NonNegativeIntegers, initialize=0, mutable=True)
    m.least_selected = pyo.Param(domain=pyo.Binary, initialize=0, mutable=True)

    @m.Constraint(counted)
    def some_configuration(m: pyo.ConcreteModel, i: str) -> Expr:
        return sum(m.y[q] for q in m.Q[i]) >= m.least_selected

    @m.Constraint(own)
    def enough(m: pyo.ConcreteModel, q: int) -> Expr:
        return m.n[q] >= m.least_replicas[q] * m.y[q]

    m.some_configuration.deactivate()
    m.enough.deactivate()


def set_reach(m: pyo.ConcreteModel, problem: FleetProblem, least: float) -> None:
    """Set the parameters for r = `least` in [0, 1]."""
    demand = {c.name: c for c in problem.classes}
    m.least_selected = int(least > 0.0)
    for k in m.least_replicas:
        q = problem.configurations[k]
        m.least_replicas[k] = replicas_to_reach(demand[q.class_name], q, least)


def break_points(m: pyo.ConcreteModel, problem: FleetProblem) -> list[float]:
    """Every value that the min fulfilment of a plan can have, ascending: 0, and those of 1, ..., M_q replicas."""
    demand = {c.name: c for c in problem.classes}
    values = {0.0}
    for k in m.least_replicas:
        q = problem.configurations[k]
        values.update(fulfilment(demand[q.class_name], q, n) for n in range(1, m.M[k] + 1))
    return sorted(values)
