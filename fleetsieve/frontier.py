"""The fast exact evaluator: the lexicographic fleet decision without a solver.

For each class, what k GPUs can serve at most is a step function of k (the class's frontier). On these steps
 - the least shortfall is 0 when the GPUs that the floors need fit, else a knapsack over GPUs;
 - the greatest min fulfilment is a search over the break points of the steps, since what a fulfilment r needs is the first
   step that reaches r, class by class;
 - the greatest goodput is a knapsack over GPUs on the steps that reach m* - η, and the later stages ride along as the
   tie-breaks of that knapsack. A shortfall limit that is neither 0 nor the least possible is a side constraint: then
   Pareto labels (GPUs, shortfall, goodput) take the knapsack's place.

A step that uses more GPUs and serves no more is in no lexicographic optimum (fewest GPUs comes before every later stage),
so the strictly rising steps are enough for all stages.

It accepts one GPU pool where counting GPUs is enough to place replicas; everything else is the MILP's. Results are equal to the
MILP's in all stages: a property test compares them on thousands of random instances.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from fleetsieve_models.placement import counting_is_enough
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, Name
from numpy.typing import NDArray

from fleetsieve.allocation import STAGES, TIE, Optimum, evaluate, tolerance
from fleetsieve.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Curve:
    """One class's steps: `served_rps[s]` is the most that `gpus[s]` GPUs serve; both strictly rise, from (0, 0).

    `place[s]` is the configuration's place in the fixed order of names (0 at step 0, which has none), `replicas[s]` its count;
    of configurations that tie at a step it is the one with the most spare capacity, then the fewest replicas, then the first.
    `loss[s]` is p_i max(0, δ_i - r_i).
    """

    demand: ClassDemand
    gpus: Ints
    served_rps: Floats
    fulfilment: Floats
    loss: Floats
    spare_rps: Floats
    replicas: Ints
    place: Ints
    options: Mapping[int, Configuration]

    def first(self, fulfilment: float) -> int:
        """The first step that reaches `fulfilment`; the number of steps when none does."""
        return int(np.searchsorted(self.fulfilment, fulfilment - TIE))

    def chosen(self, step: int) -> Configuration | None:
        """The configuration used at a step; None at step 0."""
        return self.options.get(int(self.place[step]))

    def without_loss(self) -> Curve:
        """The same steps for a decision that does not look at the floor."""
        return replace(self, loss=np.zeros(len(self.loss)))

    @property
    def counts(self) -> bool:
        """Whether the class takes part in the min fulfilment."""
        return self.demand.in_minimum and self.demand.demand_rps > 0.0

    @property
    def first_without_loss(self) -> int:
        """The first step that loses nothing of the floor; the number of steps when every one does."""
        return int(np.searchsorted(-self.loss, -TIE))


def curve(
    demand: ClassDemand, configurations: Sequence[Configuration], gpus: int, places: Sequence[int] | None = None
) -> Curve:
    """The steps of one class over 0..`gpus` GPUs; `places` are its configurations' places in the order of names (from 1)."""
    options = dict(zip(places or range(1, len(configurations) + 1), configurations, strict=True))
    rate = demand.demand_rps
    columns: list[tuple[Ints, Floats, Floats, Ints, Ints]] = []
    for place, q in options.items():
        most = gpus // q.gpus
        if rate > 0.0 and q.capacity_rps > 0.0 and most > 0:
            # One more replica than the demand needs only adds GPUs.
            most = min(most, int(min(rate / q.capacity_rps, 1e9)) + 1)
            n = np.arange(1, most + 1, dtype=np.int64)
            spare: Floats = np.multiply(n, q.capacity_rps, dtype=np.float64)
            columns.append((n * q.gpus, np.minimum(rate, spare), spare, n, np.full(most, place, dtype=np.int64)))
    zero = np.zeros(1, dtype=np.int64)
    columns.insert(0, (zero, np.zeros(1), np.zeros(1), zero, zero))
    used, served, spare, n, place_ = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    unit = tolerance(rate)
    order = np.lexsort((place_, n, -np.round(spare / unit), -np.round(served / unit), used))
    top = np.maximum.accumulate(served[order])
    rises = np.ones(len(order), dtype=bool)
    rises[1:] = served[order][1:] > top[:-1] + unit
    keep = order[rises]
    fulfilment = served[keep] / rate if rate > 0.0 else np.ones(1)
    floor = demand.floor if demand.floor is not None and rate > 0.0 else 0.0
    loss: Floats = np.multiply(np.maximum(0.0, floor - fulfilment), demand.priority, dtype=np.float64)
    return Curve(demand, used[keep], served[keep], fulfilment, loss, spare[keep], n[keep], place_[keep], options)


def least_shortfall(curves: Sequence[Curve], gpus: int, first: Sequence[int] | None = None) -> float:
    """The least Σ p_i max(0, δ_i - r_i) with `gpus` GPUs and class i at step `first[i]` or above; inf when none fits."""
    start = list(first) if first is not None else [0] * len(curves)
    if _gpus_at(curves, start) > gpus:
        return np.inf
    met = [max(s, c.first_without_loss) for s, c in zip(start, curves, strict=True)]
    if _gpus_at(curves, met) <= gpus:
        return 0.0
    least = np.zeros(gpus + 1)
    for c, s in zip(curves, start, strict=True):
        best = np.full(gpus + 1, np.inf)
        for used, loss in zip(c.gpus[s:], c.loss[s:], strict=True):
            np.minimum(best[used:], least[: gpus + 1 - used] + loss, out=best[used:])
        least = best
    return float(least[gpus])


def greatest_min_fulfilment(curves: Sequence[Curve], gpus: int, shortfall: float = np.inf) -> float:
    """The greatest min_i r_i with `gpus` GPUs and a shortfall of at most `shortfall`; 1 when no class counts.

    Returns -inf when no plan keeps the shortfall.
    """
    counted = [c for c in curves if c.counts]
    if not counted:
        return 1.0 if _keeps(curves, gpus, 0.0, shortfall) else -np.inf
    points = np.unique(np.concatenate([c.fulfilment for c in counted]))
    low, high = -1, len(points) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _keeps(curves, gpus, float(points[middle]), shortfall):
            low = middle
        else:
            high = middle - 1
    return float(points[low]) if low >= 0 else -np.inf


def greatest_goodput(
    curves: Sequence[Curve], gpus: int, min_fulfilment: float = 0.0, shortfall: float = np.inf
) -> float:
    """The greatest Σ x_i with `gpus` GPUs, every counted r_i >= `min_fulfilment` and at most `shortfall`; -inf if none."""
    start = _starts(curves, min_fulfilment, shortfall)
    if _gpus_at(curves, start) > gpus:
        return -np.inf
    # Only a class that can lose something needs labels under a side constraint; the others are a plain knapsack.
    limited = _limits(curves, shortfall)
    bound = [limited and float(c.loss[s]) > 0.0 for c, s in zip(curves, start, strict=True)]
    best = np.zeros(gpus + 1)
    for c, s, tight in zip(curves, start, bound, strict=True):
        if not tight:
            grown = np.full(gpus + 1, -np.inf)
            for used, served in zip(c.gpus[s:].tolist(), c.served_rps[s:].tolist(), strict=True):
                np.maximum(grown[used:], best[: gpus + 1 - used] + served, out=grown[used:])
            best = grown
    if limited:
        tight_curves = [c for c, tight in zip(curves, bound, strict=True) if tight]
        labels = _labels(
            tight_curves, gpus, [s for s, tight in zip(start, bound, strict=True) if tight], shortfall, best
        )
        return max((label.served + float(best[gpus - label.gpus]) for label in labels), default=-np.inf)
    return float(best[gpus])


def _gpus_at(curves: Sequence[Curve], steps: Sequence[int]) -> float:
    """GPUs that the classes use at these steps; inf when a class has no such step."""
    total = 0
    for c, s in zip(curves, steps, strict=True):
        if s >= len(c.gpus):
            return np.inf
        total += int(c.gpus[s])
    return total


def _limits(curves: Sequence[Curve], shortfall: float) -> bool:
    """Whether a shortfall limit is a side constraint: neither 0 (then floors are steps) nor beyond the worst."""
    return TIE < shortfall < sum(float(c.loss[0]) for c in curves) - TIE


def _starts(curves: Sequence[Curve], min_fulfilment: float, shortfall: float) -> list[int]:
    """The first step of each class that the min fulfilment, and a shortfall limit of 0, allow."""
    floors = shortfall <= TIE
    starts = []
    for c in curves:
        need = c.first(min_fulfilment) if c.counts else 0
        starts.append(max(need, c.first_without_loss) if floors else need)
    return starts


def _keeps(curves: Sequence[Curve], gpus: int, min_fulfilment: float, shortfall: float) -> bool:
    """Whether some plan reaches the min fulfilment within the GPUs and the shortfall limit."""
    start = _starts(curves, min_fulfilment, shortfall)
    if _gpus_at(curves, start) > gpus:
        return False
    return not _limits(curves, shortfall) or least_shortfall(curves, gpus, start) <= shortfall + TIE


@dataclass(frozen=True, slots=True)
class _Label:
    """A partial plan: what it uses, loses and serves, its tie-breaks, and the step of each class so far."""

    gpus: int
    loss: float
    served: float
    rank: tuple[float, int, int]
    steps: tuple[int, ...]


MANY_LABELS = 2000
"""From this many partial plans of a class on, bounding them by a good whole plan is worth the time it takes to find one."""


def _labels(
    curves: Sequence[Curve], gpus: int, start: Sequence[int], shortfall: float, rest: Floats | None = None
) -> list[_Label]:
    """The Pareto labels (GPUs, shortfall, goodput) of all plans from `start` up within the shortfall limit.

    A partial plan is dropped when no completion keeps the limit, when another one beats it, or when even the most that the
    other classes can serve leaves it below a whole plan in hand. `rest[k]` is what classes outside `curves` can serve at most with
    k GPUs.
    """
    least, most = _completions(curves, gpus, start, rest)
    labels, target = [_Label(0, 0.0, 0.0, (0.0, 0, 0), ())], -np.inf
    for i, (c, s) in enumerate(zip(curves, start, strict=True)):
        grown: list[_Label] = []
        for label in labels:
            for step in range(s, len(c.gpus)):
                used, loss = label.gpus + int(c.gpus[step]), label.loss + float(c.loss[step])
                if used > gpus:
                    break
                if loss + least[i + 1][gpus - used] <= shortfall + TIE:
                    grown.append(_extended(label, c, step, used, loss))
        if len(grown) > MANY_LABELS:
            if target == -np.inf:
                good = _good_plan(curves, gpus, start, shortfall, most[-1])
                target = good - 2.0 * tolerance(good) if good > -np.inf else 0.0
            grown = [g for g in grown if g.served + most[i + 1][gpus - g.gpus] >= target]
        labels = _unbeaten(grown)
    return labels


def _unbeaten(labels: list[_Label]) -> list[_Label]:
    """The labels that no other one beats: by no more GPUs, no more lost, no less served and, if all that ties, the better rank."""
    kept: list[_Label] = []
    # What is kept, as a staircase: the more is lost, the more is served. All of it uses no more GPUs than what comes.
    losses: list[float] = []
    stairs: list[_Label] = []
    for label in sorted(labels, key=lambda g: (g.gpus, g.loss, -g.served, g.rank, g.steps)):
        place = bisect_right(losses, label.loss + TIE)
        if place:
            best = stairs[place - 1]
            ties = best.gpus == label.gpus and best.served <= label.served + TIE
            if best.served >= label.served - TIE and (not ties or best.rank <= label.rank):
                continue
        kept.append(label)
        low = bisect_left(losses, label.loss)
        high = low
        while high < len(stairs) and stairs[high].served <= label.served:
            high += 1
        if low == 0 or stairs[low - 1].served < label.served:
            losses[low:high], stairs[low:high] = [label.loss], [label]
    return kept


def _completions(
    curves: Sequence[Curve], gpus: int, start: Sequence[int], rest: Floats | None
) -> tuple[list[list[float]], list[list[float]]]:
    """For i = 0..n and k GPUs: the least that classes i, i + 1, ... lose with k GPUs, and the most they and the rest serve."""
    least = [np.zeros(gpus + 1)]
    most = [np.zeros(gpus + 1) if rest is None else rest]
    for c, s in zip(reversed(curves), reversed(start), strict=True):
        loss, served = np.full(gpus + 1, np.inf), np.full(gpus + 1, -np.inf)
        for step in range(s, len(c.gpus)):
            used = int(c.gpus[step])
            if used > gpus:
                break
            np.minimum(loss[used:], least[-1][: gpus + 1 - used] + c.loss[step], out=loss[used:])
            np.maximum(served[used:], most[-1][: gpus + 1 - used] + c.served_rps[step], out=served[used:])
        least.append(loss)
        most.append(served)
    return [column.tolist() for column in reversed(least)], [column.tolist() for column in reversed(most)]


def _good_plan(
    curves: Sequence[Curve], gpus: int, start: Sequence[int], shortfall: float, rest: Sequence[float], rounds: int = 12
) -> float:
    """What a good plan within the shortfall limit serves, found by pricing the shortfall; -inf when none was found."""
    found, low, high = -np.inf, 0.0, np.inf
    scale = math.fsum(float(c.served_rps[-1]) for c in curves)
    price = scale / max(shortfall, TIE)
    for _ in range(rounds):
        value, loss = np.array(rest, dtype=np.float64), np.zeros(gpus + 1)
        for c, s in zip(curves, start, strict=True):
            grown, lost = np.full(gpus + 1, -np.inf), np.full(gpus + 1, np.inf)
            for step in range(s, len(c.gpus)):
                used = int(c.gpus[step])
                if used > gpus:
                    break
                offer = value[: gpus + 1 - used] + (c.served_rps[step] - price * c.loss[step])
                better = offer > grown[used:]
                grown[used:][better] = offer[better]
                lost[used:][better] = (loss[: gpus + 1 - used] + c.loss[step])[better]
            value, loss = grown, lost
        if loss[gpus] <= shortfall:
            found, high = max(found, float(value[gpus] + price * loss[gpus])), price
        else:
            low = price
        price = (low + high) / 2 if high < np.inf else 4.0 * price
    return found


def _extended(label: _Label, c: Curve, step: int, used: int, loss: float) -> _Label:
    spare, replicas, order = label.rank
    n = int(c.replicas[step])
    rank = (spare - float(c.spare_rps[step]), replicas + n, order + n * int(c.place[step]))
    return _Label(used, loss, label.served + float(c.served_rps[step]), rank, (*label.steps, step))


def _knapsack(curves: Sequence[Curve], gpus: int, start: Sequence[int]) -> list[_Label]:
    """For each number of GPUs, the lexicographically best plan that uses exactly that many.

    The order is (least lost, most served, most spare, fewest replicas, first by name): all are sums over the classes, so
    the best plan of all classes is made of best plans of the first ones.
    """
    worst = (np.inf, -np.inf, -np.inf, np.inf, np.inf)
    best = [np.full(gpus + 1, value) for value in worst]
    for column in best:
        column[0] = 0.0
    choices: list[Ints] = []
    for c, s in zip(curves, start, strict=True):
        grown = [np.full(gpus + 1, value) for value in worst]
        choice = np.full(gpus + 1, -1, dtype=np.int64)
        for step in range(s, len(c.gpus)):
            used, n = int(c.gpus[step]), int(c.replicas[step])
            if used > gpus:
                break
            added = (c.loss[step], c.served_rps[step], c.spare_rps[step], n, n * int(c.place[step]))
            offer = [column[: gpus + 1 - used] + extra for column, extra in zip(best, added, strict=True)]
            here = [column[used:] for column in grown]
            better = _better(offer, here)
            for column, new in zip(here, offer, strict=True):
                column[better] = new[better]
            choice[used:][better] = step
        best = grown
        choices.append(choice)
    labels = []
    for total in np.flatnonzero(np.isfinite(best[0])).tolist():
        steps, left = [], total
        for c, choice in zip(reversed(curves), reversed(choices), strict=True):
            steps.append(int(choice[left]))
            left -= int(c.gpus[steps[-1]])
        loss, served, spare, replicas, order = (float(column[total]) for column in best)
        labels.append(_Label(total, loss, served, (-spare, int(replicas), int(order)), tuple(reversed(steps))))
    return labels


def _better(offer: Sequence[Floats], here: Sequence[Floats]) -> NDArray[np.bool_]:
    """Where `offer` comes before `here` in the order (loss, -served, -spare, replicas, order), ties within TIE."""
    better = np.zeros(len(offer[0]), dtype=bool)
    tied = np.isfinite(offer[0])
    for new, old, sign in zip(offer, here, (1, -1, -1, 1, 1), strict=True):
        with np.errstate(invalid="ignore"):
            ahead = sign * (old - new)
        margin = TIE * np.maximum(1.0, np.abs(new, where=np.isfinite(new), out=np.zeros_like(new)))
        better |= tied & (ahead > margin)
        tied &= np.abs(ahead) <= margin
    return better


class Frontier:
    """The engine that needs no solver (see `allocation.Engine`)."""

    name = "frontier"

    @staticmethod
    def accepts(problem: FleetProblem) -> bool:
        """Whether the problem is this engine's: one pool, and counting GPUs is enough to place replicas."""
        if len(problem.pools) != 1:
            return False
        return counting_is_enough(problem.pools[0], [q.gpus for qs in problem.configurations_of.values() for q in qs])

    def optimise(
        self,
        problem: FleetProblem,
        stages: Sequence[str] = STAGES,
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = MappingProxyType({}),
    ) -> Optimum:
        """Solve the stages in order, each with the earlier ones held (see `allocation.Engine.optimise`).

        Raises:
            UsageError: when the problem has several pools, or nodes that make placement matter.
        """
        if not self.accepts(problem):
            raise UsageError("the frontier takes one GPU pool where counting GPUs is enough; use the MILP engine")
        gpus = problem.pools[0].gpus
        curves = problem_curves(problem)
        shortfall, least_fulfilment = holds.get("shortfall", np.inf), holds.get("min_fulfilment", 0.0)
        values: dict[str, float] = {}
        start = _starts(curves, least_fulfilment, np.inf)
        if "shortfall" in stages:
            least = least_shortfall(curves, gpus, start)
            if least > shortfall + TIE:
                return _none("no plan keeps the shortfall limit")
            values["shortfall"] = shortfall = least
        if not _keeps(curves, gpus, least_fulfilment, shortfall):
            return _none("no plan keeps the limits")
        if "min_fulfilment" in stages:
            values["min_fulfilment"] = greatest_min_fulfilment(curves, gpus, shortfall)
            least_fulfilment = max(least_fulfilment, values["min_fulfilment"] - eta)
        start = _starts(curves, least_fulfilment, shortfall)
        if "shortfall" in stages or not _limits(curves, shortfall):
            own = curves if "shortfall" in stages else [c.without_loss() for c in curves]
            plans = _knapsack(own, gpus, start)
        else:
            plans = _labels(curves, gpus, start, shortfall)
        plans = [plan for plan in plans if plan.loss <= shortfall + TIE]
        most = max(plan.served for plan in plans)
        best = min((p for p in plans if p.served >= most - tolerance(most)), key=lambda p: (p.gpus, p.rank))
        allocation = evaluate(problem, _replicas(curves, best.steps))
        values |= {stage: allocation.value(stage) for stage in stages if stage not in values}
        proven = {stage: values[stage] for stage in stages}
        return Optimum(allocation=allocation, values=proven, bounds=dict(proven), proven=True)


def problem_curves(problem: FleetProblem) -> list[Curve]:
    """The curve of each class of a problem with one pool, in the order of its classes."""
    gpus = problem.pools[0].gpus
    places = {q.name: place for place, q in enumerate(problem.configurations, start=1)}
    return [
        curve(c, problem.configurations_of[c.name], gpus, [places[q.name] for q in problem.configurations_of[c.name]])
        for c in problem.classes
    ]


def _none(reason: str) -> Optimum:
    return Optimum(allocation=None, values={}, bounds={}, proven=True, infeasible=True, reason=reason)


def _replicas(curves: Sequence[Curve], steps: Sequence[int]) -> dict[Name, int]:
    chosen: dict[Name, int] = {}
    for c, step in zip(curves, steps, strict=True):
        q = c.chosen(step)
        if q is not None:
            chosen[q.name] = int(c.replicas[step])
    return chosen
