"""Small fleets to solve, and the same fleets solved by trying every plan."""

import itertools
import math
import random

from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool

from fleetsieve.allocation import MAXIMISED, STAGES, tolerance

PEAKS_PER_GPU = {"Chat": {2: 0.798, 4: 1.649, 8: 1.408}, "Code": {2: 0.560, 4: 2.779, 8: 1.392}}
DEMAND = {"Chat": 12.0, "Code": 16.0}


def fleet(demands, configurations, gpus=16, gpus_per_node=None, **classes):
    """A problem with one pool: {class: demand}, {name: (class, gpus, capacity)}, and per class more of ClassDemand."""
    return FleetProblem(
        tuple(ClassDemand(name, demand, **classes.get(name, {})) for name, demand in demands.items()),
        tuple(Configuration(name, *rest) for name, rest in configurations.items()),
        (GpuPool("default", gpus, gpus_per_node),),
    )


def paper_fleet(scale=1.0, degrees=(2, 4, 8), gpus=16, **classes):
    """The paper's two classes at their peaks, on nodes of 8."""
    cells = {f"{c} TP{tp}": (c, tp, PEAKS_PER_GPU[c][tp] * tp) for c in DEMAND for tp in degrees}
    return fleet({c: rate * scale for c, rate in DEMAND.items()}, cells, gpus, 8, **classes)


def random_fleet(seed):
    """A small problem with, by turns, floors, nodes that matter, a partial node, two pools, ties, idle classes."""
    draw = random.Random(seed)
    two_pools, ties = draw.random() < 0.3, draw.random() < 0.4
    node = draw.choice([None, None, 4, 5, 8])
    pools = [GpuPool("near", draw.randint(3, 9), node)]
    if two_pools:
        pools.append(GpuPool("far", draw.randint(1, 4), draw.choice([None, 2, 3])))
    classes, cells = [], []
    for i in range(draw.choice([1, 2, 2, 3])):
        name = f"class{i}"
        demand = 0.0 if draw.random() < 0.08 else (draw.randint(1, 8) if ties else draw.uniform(0.5, 8.0))
        floor = draw.choice([None, None, draw.uniform(0.0, 1.0), 1.0])
        classes.append(ClassDemand(name, demand, draw.choice([1.0, 1.0, 2.5]), floor, draw.random() > 0.1))
        for k in range(draw.randint(0, 3)):
            capacity = draw.randint(0, 5) if ties else draw.uniform(0.0, 5.0)
            cells.append(
                Configuration((name, k), name, draw.choice([1, 2, 3, 4]), float(capacity), draw.choice(pools).name)
            )
    draw.shuffle(cells)
    return FleetProblem(tuple(classes), tuple(cells), tuple(pools))


def every_plan(problem, most=None):
    """Every plan as a tuple with one (configuration, replicas) or None per class; `most` limits the replicas."""
    gpus = {p.name: p.gpus for p in problem.pools}
    options = []
    for c in problem.classes:
        own = [None]
        for q in problem.configurations:
            if q.class_name == c.name and q.capacity_rps > 0 and c.demand_rps > 0:
                limit = gpus[q.pool] // q.gpus if most is None else most(c, q)
                own += [(q, n) for n in range(1, limit + 1)]
        options.append(own)
    return [plan for plan in itertools.product(*options) if _nodes(problem, plan) is not None]


def figures(problem, plan):
    """The values of all stages, computed here from scratch."""
    rate = [use[0].capacity_rps * use[1] if use else 0.0 for use in plan]
    served = [min(c.demand_rps, r) for c, r in zip(problem.classes, rate, strict=True)]
    share = [x / c.demand_rps if c.demand_rps else 1.0 for c, x in zip(problem.classes, served, strict=True)]
    counted = [r for c, r in zip(problem.classes, share, strict=True) if c.in_minimum]
    used = [use for use in plan if use]
    place = {q.name: k for k, q in enumerate(problem.configurations, start=1)}
    lost = [
        c.priority * max(0.0, c.floor - r) for c, r in zip(problem.classes, share, strict=True) if c.floor is not None
    ]
    return {
        "shortfall": math.fsum(lost),
        "min_fulfilment": min(counted, default=1.0),
        "goodput": math.fsum(served),
        "gpus": sum(q.gpus * n for q, n in used),
        "nodes": _nodes(problem, plan),
        "spare": math.fsum(rate),
        "replicas": sum(n for _, n in used),
        "order": sum(place[q.name] * n for q, n in used),
    }


def by_enumeration(problem, plans, stages=STAGES, eta=0.0, holds=None):
    """The best value of each stage and the plans left after the last; no values where no plan is within the holds."""
    left = [(plan, figures(problem, plan)) for plan in plans]
    for stage, limit in (holds or {}).items():
        left = [
            (p, v) for p, v in left if (v[stage] <= limit + 1e-9 if stage == "shortfall" else v[stage] >= limit - 1e-9)
        ]
    values = {}
    for stage in stages if left else ():
        sign = -1.0 if stage in MAXIMISED else 1.0
        best = min(sign * v[stage] for _, v in left)
        values[stage] = sign * best
        allowed = best + tolerance(best) + (eta if stage == "min_fulfilment" else 0.0)
        left = [(p, v) for p, v in left if sign * v[stage] <= allowed]
    return values, [p for p, _ in left]


def counts(plan):
    return {q.name: n for q, n in (use for use in plan if use)}


def _nodes(problem, plan):
    """The fewest nodes that host a plan, by trying; None when it does not fit."""
    total = 0
    for pool in problem.pools:
        sizes = sorted(
            (q.gpus for q, n in (u for u in plan if u) if q.pool == pool.name for _ in range(n)), reverse=True
        )
        if sum(sizes) > pool.gpus:
            return None
        if pool.gpus_per_node is None:
            continue
        full, rest = divmod(pool.gpus, pool.gpus_per_node)
        bins = [pool.gpus_per_node] * full + [rest] * (rest > 0)
        used = [u for r in range(len(bins) + 1) for u in set(itertools.combinations(bins, r)) if _fits(u, tuple(sizes))]
        if not used:
            return None
        total += len(used[0])
    return total


def _fits(bins, sizes):
    if not sizes:
        return True
    first, rest = sizes[0], sizes[1:]
    return any(_fits((*bins[:k], room - first, *bins[k + 1 :]), rest) for k, room in enumerate(bins) if room >= first)
