"""The numbers of one fleet decision: what every formulation takes, and nothing else.

A problem is one realisation: each usable configuration has one capacity. Which cells are usable, and whether a capacity
is a lower or an upper bound, was decided before; a formulation neither knows nor asks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

Name = Hashable

STAGES = ("shortfall", "min_fulfilment", "goodput", "gpus", "nodes", "spare", "replicas", "order")
"""The stages of the lexicographic objective, first to last; all but min_fulfilment, goodput and spare are minimised."""

NOTHING = 1e-12
"""A replica that serves no more than this part of its class's demand serves nothing."""


@dataclass(frozen=True, slots=True)
class ClassDemand:
    """Class i: demand λ_i >= 0 in requests/s, priority p_i > 0, critical floor δ_i in [0, 1] (None: not critical).

    `in_minimum` False takes an unservable class out of the min fulfilment of stage 2.
    """

    name: str
    demand_rps: float
    priority: float = 1.0
    floor: float | None = None
    in_minimum: bool = True


@dataclass(frozen=True, slots=True)
class Configuration:
    """Configuration q of one class: g_q GPUs per replica on `pool`, capacity c_q >= 0 in requests/s per replica."""

    name: Name
    class_name: str
    gpus: int
    capacity_rps: float
    pool: str = "default"


@dataclass(frozen=True, slots=True)
class GpuPool:
    """G GPUs in nodes of `gpus_per_node` (None: any free GPUs make a replica), at a price per GPU and hour."""

    name: str
    gpus: int
    gpus_per_node: int | None = None
    price_per_gpu_h: float = 0.0

    @property
    def largest_replica(self) -> int:
        """GPUs of the largest replica that the pool can hold."""
        return self.gpus if self.gpus_per_node is None else min(self.gpus, self.gpus_per_node)


@dataclass(frozen=True)
class FleetProblem:
    """Classes, their usable configurations and the GPU pools.

    The order of `configurations` is the fixed order of names that breaks the last ties.

    Raises:
        ValueError: for a number that is not finite, negative where it may not be, or a name that leads nowhere:
            a solver would drop a NaN without a word.
    """

    classes: tuple[ClassDemand, ...]
    configurations: tuple[Configuration, ...]
    pools: tuple[GpuPool, ...]

    def __repr__(self) -> str:
        counts = {"classes": self.classes, "configurations": self.configurations, "pools": self.pools}
        return f"FleetProblem({', '.join(f'{what}: {len(found)}' for what, found in counts.items())})"

    def __post_init__(self) -> None:
        for c in self.classes:
            _finite(f"demand_rps of class {c.name}", c.demand_rps)
            _finite(f"priority of class {c.name}", c.priority)
            if c.floor is not None and not 0.0 <= c.floor <= 1.0:
                raise ValueError(f"floor of class {c.name} is {c.floor}, not a fraction in [0, 1]")
        for p in self.pools:
            _finite(f"price_per_gpu_h of pool {p.name}", p.price_per_gpu_h)
            if p.gpus < 0 or (p.gpus_per_node is not None and p.gpus_per_node < 1):
                raise ValueError(f"pool {p.name} has {p.gpus} GPUs in nodes of {p.gpus_per_node}")
        classes, pools = {c.name for c in self.classes}, {p.name for p in self.pools}
        for q in self.configurations:
            _finite(f"capacity_rps of {q.name}", q.capacity_rps)
            if q.gpus < 1:
                raise ValueError(f"{q.name} has {q.gpus} GPUs per replica, not at least 1")
            if q.class_name not in classes or q.pool not in pools:
                raise ValueError(f"{q.name} names class {q.class_name!r} or pool {q.pool!r}, which the problem lacks")
        if len({q.name for q in self.configurations}) != len(self.configurations):
            raise ValueError("two configurations share one name")

    @cached_property
    def configurations_of(self) -> dict[str, tuple[Configuration, ...]]:
        """Q_i: the configurations of each class that serve anything and fit the fleet, in the fixed order."""
        least = {c.name: NOTHING * c.demand_rps for c in self.classes}
        own: dict[str, list[Configuration]] = {c.name: [] for c in self.classes}
        largest = {p.name: p.largest_replica for p in self.pools}
        for q in self.configurations:
            if q.capacity_rps > least[q.class_name] and q.gpus <= largest[q.pool]:
                own[q.class_name].append(q)
        return {name: tuple(qs) for name, qs in own.items()}

    @cached_property
    def pool_by_name(self) -> dict[str, GpuPool]:
        """Each pool under its name."""
        return {p.name: p for p in self.pools}

    @cached_property
    def total_demand_rps(self) -> float:
        """Σ_i λ_i."""
        return math.fsum(c.demand_rps for c in self.classes)

    def max_replicas(self, q: Configuration) -> int:
        """M_q = floor(G / g_q) over the pool of q (per node where the pool has nodes), never a bigger M."""
        pool = self.pool_by_name[q.pool]
        if pool.gpus_per_node is None:
            return pool.gpus // q.gpus
        full, rest = divmod(pool.gpus, pool.gpus_per_node)
        return full * (pool.gpus_per_node // q.gpus) + rest // q.gpus


def _finite(what: str, value: float) -> None:
    if not math.isfinite(value) or value < 0.0:
        raise ValueError(f"{what} is {value}, not a finite number >= 0")
