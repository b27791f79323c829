"""The GPUs of a fleet and the nodes that host its replicas: equation (3)."""

# mypy: allow-untyped-decorators
from __future__ import annotations

from collections.abc import Mapping

import pyomo.environ as pyo
from fleetsieve_models.placement import counting_is_enough, nodes_of, rooms, slots
from fleetsieve_models.problem import FleetProblem, GpuPool
from fleetsieve_models.selection import Expr


def add_fleet(m: pyo.ConcreteModel, problem: FleetProblem, have: Mapping[str, GpuPool] | None = None) -> None:
    """Add the GPUs and nodes of each pool p to a model that has a selection.

        Σ_{q on p} g_q n_q <= G_p + e_p                                           (3)
        Σ_{q on p} g_q n_q <= P_p t_p                       where counting GPUs is enough
        Σ_{q on p} w_gq n_q <= Σ_π a_gπ z_π,  Σ_π z_π = t_p  for each size g, where it is not (see `placement`)

    The G_p are those of `problem`, without any e_p; or, when `have` gives the pools as they are, those of `have`, and
    e_p is a variable `more_gpus`: more GPUs (whole nodes where counting is not enough), at most up to the pools of
    `problem`. Adds `POOLS` and `NODE_POOLS` (only pools that a configuration uses) and `t`, the nodes touched.
    """
    on: dict[str, list[int]] = {p.name: [] for p in problem.pools}
    for k in m.CONFIGURATIONS:
        on[problem.configurations[k].pool].append(k)
    pools = {p.name: p for p in problem.pools if on[p.name]}
    base = {p: pool if have is None else have[p] for p, pool in pools.items()}
    sizes = {p: sorted({m.g[q] for q in on[p]}) for p in pools}
    noded = [p for p in pools if pools[p].gpus_per_node is not None]
    counted = [p for p in noded if counting_is_enough(pools[p], sizes[p])]
    placed = [p for p in noded if p not in counted]
    m.POOLS = pyo.Set(initialize=list(pools))
    m.NODE_POOLS = pyo.Set(initialize=noded)

    def most_nodes(m: pyo.ConcreteModel, p: str) -> tuple[int, int]:
        full, rest = nodes_of(pools[p])
        return 0, full + (rest > 0)

    m.t = pyo.Var(m.NODE_POOLS, domain=pyo.NonNegativeIntegers, bounds=most_nodes)
    more_gpus = dict.fromkeys(pools, 0)
    more_nodes = dict.fromkeys(placed, 0)
    if have is not None:
        m.more_gpus = pyo.Var(
            m.POOLS, domain=pyo.NonNegativeIntegers, bounds=lambda m, p: (0, pools[p].gpus - base[p].gpus)
        )
        m.more_nodes = pyo.Var(placed, domain=pyo.NonNegativeIntegers)

        @m.Constraint(placed)
        def whole_nodes(m: pyo.ConcreteModel, p: str) -> Expr:
            return m.more_gpus[p] == pools[p].gpus_per_node * m.more_nodes[p]

        more_gpus, more_nodes = m.more_gpus, m.more_nodes

    @m.Constraint(m.POOLS)
    def gpus_of_pool(m: pyo.ConcreteModel, p: str) -> Expr:
        return sum(m.g[q] * m.n[q] for q in on[p]) <= base[p].gpus + more_gpus[p]

    @m.Constraint(counted)
    def nodes_by_counting(m: pyo.ConcreteModel, p: str) -> Expr:
        return sum(m.g[q] * m.n[q] for q in on[p]) <= pools[p].gpus_per_node * m.t[p]

    if not placed:
        return
    kinds = {(p, kind): free for p in placed for kind, free in _kinds_of_nodes(base[p]).items()}
    a = {
        (*kind, k): room for kind, (free, _) in kinds.items() for k, room in enumerate(rooms(free, sizes[kind[0]]))
    }  # fmt: skip
    m.PATTERNS = pyo.Set(initialize=list(a), dimen=3)
    m.z = pyo.Var(m.PATTERNS, domain=pyo.NonNegativeIntegers)

    @m.Constraint([(p, g) for p in placed for g in sizes[p]])
    def placed_on_nodes(m: pyo.ConcreteModel, p: str, g: int) -> Expr:
        w = {q: slots(m.g[q], g, sizes[p]) for q in on[p]}
        room = sum(a[key][g] * m.z[key] for key in m.PATTERNS if key[0] == p and a[key][g])
        return sum(w[q] * m.n[q] for q in on[p] if w[q]) <= room

    @m.Constraint(sorted({key[:2] for key in a}))
    def nodes_there_are(m: pyo.ConcreteModel, p: str, kind: str) -> Expr:
        more = more_nodes[p] if kind == "full" else 0
        return sum(m.z[key] for key in m.PATTERNS if key[:2] == (p, kind)) <= kinds[p, kind][1] + more

    @m.Constraint(placed)
    def nodes_by_pattern(m: pyo.ConcreteModel, p: str) -> Expr:
        return sum(m.z[key] for key in m.PATTERNS if key[0] == p) == m.t[p]


def _kinds_of_nodes(pool: GpuPool) -> dict[str, tuple[int, int]]:
    """The kinds of nodes of a pool: the GPUs of one, and how many there are."""
    full, rest = nodes_of(pool)
    return {"full": (pool.gpus_per_node or 0, full), "partial": (rest, 1 if rest else 0)}
