"""By how much floors are missed, from the curves alone: the GPUs that are short, and who lacks what on those that there are.

A class needs the fewest GPUs of any of its configurations that reach its floor. On the GPUs there are, the least that is lacked is
a knapsack over the classes' steps; of the plans that lack least the classes choose in their order, each the least that it can lack
while the rest can still keep the total.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from fleetsieve_models.placement import counting_is_enough
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem

from fleetsieve.allocation import ROUNDED, TIE, Shortage, lacking_rps, tolerance
from fleetsieve.engines.frontier.curves import Curve, Floats, curve
from fleetsieve.engines.frontier.engine import Frontier
from fleetsieve.engines.frontier.steps import with_class
from fleetsieve.errors import UsageError


def counting_places_all(problem: FleetProblem) -> bool:
    """Whether counting GPUs is enough to place replicas in a fleet of one pool, on however many GPUs."""
    if len(problem.pools) != 1:
        return False
    from fleetsieve_models.selection import enlarged  # it imports Pyomo, which takes a second

    large = enlarged(problem)
    return counting_is_enough(
        large.pools[0], [q.gpus for configurations in large.configurations_of.values() for q in configurations]
    )


def knows_shortage(problem: FleetProblem) -> bool:
    """Whether `least_shortage` takes the problem: the frontier does, and counting is enough on more GPUs too."""
    return Frontier.accepts(problem) and counting_places_all(problem)


def frontier_shortage(problem: FleetProblem) -> Shortage:
    """As `solving.optimise_shortage`, for what the frontier accepts.

    Raises:
        UsageError: for a problem that it does not.
    """
    from fleetsieve_models.selection import enlarged, served_classes

    if not knows_shortage(problem):
        raise UsageError("the frontier does not know what the floors of this fleet need; ask the MILP")
    large = enlarged(problem)
    served = {c.name for c in served_classes(large)}
    critical = [c for c in problem.classes if c.floor is not None and c.floor > 0.0 and c.demand_rps > 0.0]
    unservable = tuple(c.name for c in critical if c.name not in served)
    of_floor = {_to_its_floor(c): large.configurations_of[c.name] for c in critical if c.name in served}
    if not of_floor:
        return Shortage({}, {}, unservable)
    (pool,) = problem.pools
    more = sum(min(_gpus_for(floor, q) for q in cells) for floor, cells in of_floor.items()) - pool.gpus
    curves = [curve(floor, cells, pool.gpus) for floor, cells in of_floor.items()]
    served_rps = {
        c.demand.name: float(c.served_rps[step])
        for c, step in zip(curves, _lacking_least(curves, pool.gpus), strict=True)
    }
    return Shortage({pool.name: more} if more > 0 else {}, lacking_rps(critical, served_rps), unservable)


def _to_its_floor(c: ClassDemand) -> ClassDemand:
    """A class that demands its floor and no more; what it loses counts in requests/s, times its priority."""
    rate = (c.floor or 0.0) * c.demand_rps
    return ClassDemand(c.name, rate, c.priority * rate, 1.0, c.in_minimum)


def _gpus_for(floor: ClassDemand, q: Configuration) -> int:
    """The GPUs of the fewest replicas that serve what counts as the floor."""
    from fleetsieve_models.selection import replicas_for

    return q.gpus * replicas_for(floor.demand_rps * (1.0 - ROUNDED - TIE), q.capacity_rps)


def _lacking_least(curves: Sequence[Curve], gpus: int) -> list[int]:
    """The step of each class in the plan that loses least; see above for which of several."""
    rest: list[Floats] = [np.zeros(gpus + 1)]
    for c in reversed(curves):
        rest.append(with_class(rest[-1], c.gpus, c.loss, maximise=False))
    rest.reverse()
    left, total, steps = gpus, float(rest[0][gpus]), []
    for c, others in zip(curves, rest[1:], strict=True):
        slack = 10.0 * tolerance(total)
        fitting = [s for s, used in enumerate(c.gpus.tolist()) if used <= left]
        keep = [s for s in fitting if float(c.loss[s]) + float(others[left - int(c.gpus[s])]) <= total + slack]
        least = min(float(c.loss[s]) for s in keep)
        steps.append(next(s for s in keep if float(c.loss[s]) <= least + tolerance(least)))
        left, total = left - int(c.gpus[steps[-1]]), total - float(c.loss[steps[-1]])
    return steps
