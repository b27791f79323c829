"""What every formulation begins with: one homogeneous configuration per class and whole replicas.

Numbering as in the paper: (1) selector and big-M, (4) domains, (5) policy. Policy needs no constraint: only usable
configurations are in a `FleetProblem`. (3), the GPUs, is in `fleet`.
"""

# mypy: allow-untyped-decorators
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyomo.environ as pyo
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem

Expr = Any
"""A Pyomo expression or relation."""


def served_classes(problem: FleetProblem) -> tuple[ClassDemand, ...]:
    """The classes that a plan can serve: those that demand something and have a configuration."""
    return tuple(c for c in problem.classes if c.demand_rps > 0.0 and problem.configurations_of[c.name])


def replicas_for(rate_rps: float, capacity_rps: float) -> int:
    """The fewest replicas n with c n >= rate, as floating point computes it; one more would serve nothing."""
    count = int(-(-rate_rps // capacity_rps))
    while count * capacity_rps < rate_rps:
        count += 1
    return count


def enlarged(problem: FleetProblem) -> FleetProblem:
    """The same problem with pools so large that neither GPUs nor nodes bind a plan that serves every class in full.

    A pool gains whole nodes (its partial node stays), or GPUs where it has no nodes: one node, or g_q GPUs, for each of
    the max_q ceil(λ_i / c_q) replicas of each class.
    """
    demand = {c.name: c.demand_rps for c in problem.classes}
    node = {p.name: p.gpus_per_node for p in problem.pools}
    most: dict[tuple[str, str], int] = {}
    for q in problem.configurations:
        if q.capacity_rps > 0.0 and demand[q.class_name] > 0.0:
            gpus = replicas_for(demand[q.class_name], q.capacity_rps) * (node[q.pool] or q.gpus)
            most[q.pool, q.class_name] = max(most.get((q.pool, q.class_name), 0), gpus)
    extra = {p.name: sum(gpus for (pool, _), gpus in most.items() if pool == p.name) for p in problem.pools}
    return replace(problem, pools=tuple(replace(p, gpus=p.gpus + extra[p.name]) for p in problem.pools))


def add_selection(
    m: pyo.ConcreteModel, problem: FleetProblem, classes: Sequence[ClassDemand], most: Callable[[Configuration], int]
) -> None:
    """Add the configurations and replicas of `classes` to a model; `most` gives M_q.

        Σ_{q in Q_i} y_q <= 1,  n_q <= M_q y_q     (1)
        n_q in {0, 1, 2, ...},  y_q in {0, 1}      (4)

    Adds the sets `SERVED` (class names), `CONFIGURATIONS` (positions in `problem.configurations`: the fixed order) and
    `Q` (those of each class), the parameters `g`, `c`, `M`, the variables `n`, `y` and the constraints
    `one_configuration` and `only_if_selected`.
    """
    usable = {q.name for c in classes for q in problem.configurations_of[c.name]}
    chosen = {k: q for k, q in enumerate(problem.configurations) if q.name in usable}
    own: dict[str, list[int]] = {c.name: [] for c in classes}
    for k, q in chosen.items():
        own[q.class_name].append(k)

    m.SERVED = pyo.Set(initialize=list(own))
    m.CONFIGURATIONS = pyo.Set(initialize=list(chosen))
    m.Q = pyo.Set(m.SERVED, initialize=own)
    m.g = pyo.Param(m.CONFIGURATIONS, initialize={k: q.gpus for k, q in chosen.items()})
    m.c = pyo.Param(m.CONFIGURATIONS, initialize={k: q.capacity_rps for k, q in chosen.items()})
    m.M = pyo.Param(m.CONFIGURATIONS, initialize={k: most(q) for k, q in chosen.items()})

    m.n = pyo.Var(m.CONFIGURATIONS, domain=pyo.NonNegativeIntegers, bounds=lambda m, q: (0, m.M[q]))
    m.y = pyo.Var(m.CONFIGURATIONS, domain=pyo.Binary)

    @m.Constraint(m.SERVED)
    def one_configuration(m: pyo.ConcreteModel, i: str) -> Expr:
        return sum(m.y[q] for q in m.Q[i]) <= 1

    @m.Constraint(m.CONFIGURATIONS)
    def only_if_selected(m: pyo.ConcreteModel, q: int) -> Expr:
        return m.n[q] <= m.M[q] * m.y[q]
