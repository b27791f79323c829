"""The fleet decision by trying every plan, in exact arithmetic: what both engines must agree with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from fleetsieve_models.problem import FleetProblem, GpuPool
from strategies import Request

EXACT_DENOMINATOR = 10_000


def exact(value: float) -> Fraction:
    """The decimal that a drawn float stands for."""
    return Fraction(value).limit_denominator(EXACT_DENOMINATOR)


@dataclass(frozen=True)
class Choice:
    """One class's part of a plan: (place in the order of names, replicas), and what it adds to the stages."""

    place: int
    replicas: int
    pool: str
    size: int
    served: Fraction
    fulfilment: Fraction
    loss: Fraction
    spare: Fraction


def choices_of(problem: FleetProblem, index: int) -> list[Choice]:
    """Everything that one class can be given: nothing, or some replicas of one configuration."""
    c = problem.classes[index]
    demand, floor, priority = exact(c.demand_rps), exact(c.floor or 0.0), exact(c.priority)

    def choice(place: int, n: int, pool: str, size: int, capacity: Fraction) -> Choice:
        served = min(demand, n * capacity)
        fulfilment = served / demand if demand else Fraction(1)
        loss = priority * max(Fraction(0), floor - fulfilment) if c.floor is not None else Fraction(0)
        return Choice(place, n, pool, size, served, fulfilment, loss, n * capacity)

    own = [choice(0, 0, problem.pools[0].name, 1, Fraction(0))]
    for place, q in enumerate(problem.configurations, start=1):
        if q.class_name == c.name:
            gpus = next(p.gpus for p in problem.pools if p.name == q.pool)
            own += [choice(place, n, q.pool, q.gpus, exact(q.capacity_rps)) for n in range(1, gpus // q.gpus + 1)]
    return own


def touched(pool: GpuPool, sizes: tuple[int, ...]) -> int | None:
    """The fewest nodes that host the replicas, found by placing each on each node; None when nothing hosts them."""
    if sum(sizes) > pool.gpus:
        return None
    if pool.gpus_per_node is None:
        return 0
    nodes = [pool.gpus_per_node] * (pool.gpus // pool.gpus_per_node)
    nodes += [pool.gpus % pool.gpus_per_node] if pool.gpus % pool.gpus_per_node else []
    return _place(tuple(sizes), tuple(nodes), tuple(nodes))


@lru_cache(maxsize=100_000)
def _place(sizes: tuple[int, ...], free: tuple[int, ...], whole: tuple[int, ...]) -> int | None:
    if not sizes:
        return sum(left < all_ for left, all_ in zip(free, whole, strict=True))
    found = [
        _place(sizes[1:], (*free[:k], free[k] - sizes[0], *free[k + 1 :]), whole)
        for k in range(len(free))
        if free[k] >= sizes[0] and (free[k], whole[k]) not in zip(free[:k], whole[:k], strict=True)
    ]
    return min((count for count in found if count is not None), default=None)


def plans(problem: FleetProblem) -> Iterator[tuple[Choice, ...]]:
    """Every plan that fits the pools by counting."""
    own = [choices_of(problem, i) for i in range(len(problem.classes))]
    room = {p.name: p.gpus for p in problem.pools}

    def extend(i: int, chosen: tuple[Choice, ...], left: Mapping[str, int]) -> Iterator[tuple[Choice, ...]]:
        if i == len(own):
            yield chosen
            return
        for choice in own[i]:
            used = choice.size * choice.replicas
            if used <= left[choice.pool]:
                yield from extend(i + 1, (*chosen, choice), {**left, choice.pool: left[choice.pool] - used})

    return extend(0, (), room)


def values_of(problem: FleetProblem, plan: tuple[Choice, ...]) -> dict[str, Fraction] | None:
    """The value of every stage; None when no nodes host the plan."""
    nodes = 0
    for pool in problem.pools:
        sizes = sorted((c.size for c in plan if c.pool == pool.name for _ in range(c.replicas)), reverse=True)
        here = touched(pool, tuple(sizes))
        if here is None:
            return None
        nodes += here
    counted = [c.fulfilment for c, d in zip(plan, problem.classes, strict=True) if d.in_minimum]
    return {
        "shortfall": sum((c.loss for c in plan), Fraction(0)),
        "min_fulfilment": min(counted, default=Fraction(1)),
        "goodput": sum((c.served for c in plan), Fraction(0)),
        "gpus": Fraction(sum(c.size * c.replicas for c in plan)),
        "nodes": Fraction(nodes),
        "spare": sum((c.spare for c in plan), Fraction(0)),
        "replicas": Fraction(sum(c.replicas for c in plan)),
        "order": Fraction(sum(c.place * c.replicas for c in plan)),
    }


def best_values(request: Request) -> dict[str, float] | None:
    """The value of every requested stage at its end; None when no plan keeps the limits from outside."""
    rows = [v for plan in plans(request.problem) if (v := values_of(request.problem, plan)) is not None]
    eta, holds = exact(request.eta), {name: exact(limit) for name, limit in request.holds.items()}
    if "shortfall" in holds:
        rows = [v for v in rows if v["shortfall"] <= holds["shortfall"]]
    if "min_fulfilment" in holds:
        rows = [v for v in rows if v["min_fulfilment"] >= holds["min_fulfilment"]]
    if not rows:
        return None
    values = {}
    for stage in request.stages:
        if stage in ("min_fulfilment", "goodput", "spare"):
            best = max(v[stage] for v in rows)
            slack = eta if stage == "min_fulfilment" else 0
            rows = [v for v in rows if v[stage] >= best - slack]
        else:
            best = min(v[stage] for v in rows)
            rows = [v for v in rows if v[stage] <= best]
        values[stage] = float(best)
    return values
