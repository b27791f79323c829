"""What one class gets from k GPUs: a step function of k, and the configuration behind each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem
from numpy.typing import NDArray

from fleetsieve.allocation import TIE, tolerance

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
        return int(self.fulfilment.searchsorted(fulfilment - TIE))

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

    @cached_property
    def gpus_or_none(self) -> Floats:
        """GPUs of each step, and inf for the step that is not there."""
        return np.append(self.gpus.astype(np.float64), np.inf)

    @cached_property
    def first_without_loss(self) -> int:
        """The first step that loses nothing of the floor; the number of steps when every one does."""
        return int((-self.loss).searchsorted(-TIE))


def curve(
    demand: ClassDemand, configurations: Sequence[Configuration], gpus: int, places: Sequence[int] | None = None
) -> Curve:
    """The steps of one class over 0..`gpus` GPUs; `places` are its configurations' places in the order of names (from 1)."""
    options = dict(zip(places or range(1, len(configurations) + 1), configurations, strict=True))
    rate = demand.demand_rps
    unit = tolerance(rate)
    columns: list[tuple[Ints, Floats, Floats, Ints, Ints]] = []
    for place, q in _unbeaten(options, unit):
        max_replicas = gpus // q.gpus
        if rate > 0.0 and q.capacity_rps > 0.0 and max_replicas > 0:
            max_replicas = min(max_replicas, _replicas_in_full(rate, q))
            n = np.arange(1, max_replicas + 1, dtype=np.int64)
            spare: Floats = np.multiply(n, q.capacity_rps, dtype=np.float64)
            columns.append(
                (n * q.gpus, np.minimum(rate, spare), spare, n, np.full(max_replicas, place, dtype=np.int64))
            )
    zero = np.zeros(1, dtype=np.int64)
    columns.insert(0, (zero, np.zeros(1), np.zeros(1), zero, zero))
    used, served, spare, n, place_ = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.lexsort((place_, n, -np.round(spare / unit), -np.round(served / unit), used))
    top = np.maximum.accumulate(served[order])
    rises = np.ones(len(order), dtype=bool)
    rises[1:] = served[order][1:] > top[:-1] + unit
    keep = order[rises]
    fulfilment = served[keep] / rate if rate > 0.0 else np.ones(1)
    floor = demand.floor if demand.floor is not None and rate > 0.0 else 0.0
    loss: Floats = np.multiply(np.maximum(0.0, floor - fulfilment), demand.priority, dtype=np.float64)
    return Curve(demand, used[keep], served[keep], fulfilment, loss, spare[keep], n[keep], place_[keep], options)


def _unbeaten(options: Mapping[int, Configuration], unit: float) -> list[tuple[int, Configuration]]:
    """The configurations without those that lose to another one of their size at as many replicas.

    It serves more, or as much and comes first: cells of which nothing is known yet are many and all alike.
    """
    best_rps: dict[int, float] = {}
    first: dict[tuple[int, float], int] = {}
    for place, q in options.items():
        best_rps[q.gpus] = max(best_rps.get(q.gpus, 0.0), q.capacity_rps)
        first.setdefault((q.gpus, q.capacity_rps), place)
    return [(place, options[place]) for (gpus, rate), place in first.items() if rate >= best_rps[gpus] - 2.0 * unit]


def gpus_that_matter(problem: FleetProblem) -> int:
    """The most GPUs that any plan can use: those of its pool, or what it takes to serve every class in full by its worst cell."""
    demand = {c.name: c.demand_rps for c in problem.classes}
    needs = (
        max((q.gpus * _replicas_in_full(demand[name], q) for q in configurations), default=0)
        for name, configurations in problem.configurations_of.items()
    )
    return min(problem.pools[0].gpus, sum(needs))


def _replicas_in_full(rate_rps: float, q: Configuration) -> int:
    """The replicas that serve a class in full, or one more: more of them only add GPUs."""
    return int(min(rate_rps / q.capacity_rps, 1e15)) + 1 if rate_rps > 0.0 else 0


def problem_curves(problem: FleetProblem) -> list[Curve]:
    """The curve of each class of a problem with one pool, in the order of its classes."""
    gpus = problem.pools[0].gpus
    places = {q.name: place for place, q in enumerate(problem.configurations, start=1)}
    return [
        curve(c, problem.configurations_of[c.name], gpus, [places[q.name] for q in problem.configurations_of[c.name]])
        for c in problem.classes
    ]
