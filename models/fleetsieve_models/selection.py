"""What every formulation begins with: one homogeneous configuration per class, whole replicas, GPUs and nodes.

Numbering as in the paper: (1) selector and big-M, (3) GPUs, (4) domains, (5) policy. Policy needs no constraint: only
usable configurations are in a `FleetProblem`.
"""

# mypy: allow-untyped-decorators
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyomo.environ as pyo
from fleetsieve_models.placement import counting_is_enough, maximal_patterns, nodes_of
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool

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


def add_fleet(m: pyo.ConcreteModel, problem: FleetProblem, have: Mapping[str, GpuPool] | None = None) -> None:
    """Add the GPUs and nodes of each pool p to a model that has a selection.

        Σ_{q on p} g_q n_q <= G_p + e_p                                        (3)
        Σ_{q on p} g_q n_q <= P_p t_p                    where counting GPUs is enough
        Σ_{q on p, g_q = g} n_q <= Σ_π a_gπ z_π,  Σ_π z_π = t_p                  where it is not (see `placement`)

    The G_p are those of `problem`, without any e_p; or, when `have` gives the pools as they are, those of `have`, and e_p
    is a variable `more_gpus`: more GPUs (whole nodes where counting is not enough), at most up to the pools of `problem`.
    Adds `POOLS` and `NODE_POOLS` (only pools that a configuration uses) and `t`, the nodes touched.
    """
    on: dict[str, list[int]] = {p.name: [] for p in problem.pools}
    for k in m.CONFIGURATIONS:
        on[problem.configurations[k].pool].append(k)
    pools = {p.name: p for p in problem.pools if on[p.name]}
    sizes = {p: sorted({m.g[q] for q in on[p]}) for p in pools}
    noded = [p for p in pools if pools[p].gpus_per_node is not None]
    counted = [p for p in noded if counting_is_enough(pools[p], sizes[p])]
    placed = [p for p in noded if p not in counted]
    base = {p: pool if have is None else have[p] for p, pool in pools.items()}
    m.POOLS = pyo.Set(initialize=list(pools))
    m.NODE_POOLS = pyo.Set(initialize=noded)

    def most_nodes(m: pyo.ConcreteModel, p: str) -> tuple[int, int]:
        full, rest = nodes_of(pools[p])
        return 0, full + (rest > 0)

    m.t = pyo.Var(m.NODE_POOLS, domain=pyo.NonNegativeIntegers, bounds=most_nodes)
    extra = dict.fromkeys(pools, 0)
    more_nodes = dict.fromkeys(placed, 0)
    if have is not None:
        m.more_gpus = pyo.Var(
            m.POOLS, domain=pyo.NonNegativeIntegers, bounds=lambda m, p: (0, pools[p].gpus - base[p].gpus)
        )
        m.more_nodes = pyo.Var(placed, domain=pyo.NonNegativeIntegers)
        m.whole_nodes = pyo.Constraint(
            placed, rule=lambda m, p: m.more_gpus[p] == pools[p].gpus_per_node * m.more_nodes[p]
        )
        extra, more_nodes = m.more_gpus, m.more_nodes

    @m.Constraint(m.POOLS)
    def gpus_of_pool(m: pyo.ConcreteModel, p: str) -> Expr:
        return sum(m.g[q] * m.n[q] for q in on[p]) <= base[p].gpus + extra[p]

    @m.Constraint(counted)
    def nodes_by_counting(m: pyo.ConcreteModel, p: str) -> Expr:
        return sum(m.g[q] * m.n[q] for q in on[p]) <= pools[p].gpus_per_node * m.t[p]

    if not placed:
        return
    nodes = {p: dict(zip(("full", "partial"), nodes_of(base[p]), strict=True)) for p in placed}
    patterns = {
        (p, kind, k): dict(zip(sizes[p], pattern, strict=True))
        for p in placed
        for kind, free in (("full", pools[p].gpus_per_node), ("partial", nodes[p]["partial"]))
        for k, pattern in enumerate(maximal_patterns(free or 0, sizes[p]))
    }
    m.PATTERNS = pyo.Set(initialize=list(patterns), dimen=3)
    m.z = pyo.Var(m.PATTERNS, domain=pyo.NonNegativeIntegers)

    @m.Constraint([(p, g) for p in placed for g in sizes[p]])
    def placed_on_nodes(m: pyo.ConcreteModel, p: str, g: int) -> Expr:
        room = sum(held[g] * m.z[key] for key, held in patterns.items() if key[0] == p and held[g])
        return sum(m.n[q] for q in on[p] if m.g[q] == g) <= room

    @m.Constraint(sorted({key[:2] for key in patterns}))
    def nodes_there_are(m: pyo.ConcreteModel, p: str, kind: str) -> Expr:
        most = 1 if kind == "partial" else nodes[p]["full"] + more_nodes[p]
        return sum(m.z[key] for key in patterns if key[:2] == (p, kind)) <= most

    @m.Constraint(placed)
    def nodes_by_pattern(m: pyo.ConcreteModel, p: str) -> Expr:
        return sum(m.z[key] for key in patterns if key[0] == p) == m.t[p]
