"""Whole plans from the curves: the best for each number of GPUs, and the Pareto ones under a shortfall limit."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsieve.allocation import TIE, tolerance
from fleetsieve.engines.frontier.curves import Curve, Floats, Ints
from fleetsieve.engines.frontier.steps import blocks, left_by, with_class


@dataclass(frozen=True, slots=True)
class Label:
    """A partial plan: what it uses, loses and serves, its tie-breaks, and the step of each class so far."""

    gpus: int
    loss: float
    served: float
    rank: tuple[float, int, int]
    steps: tuple[int, ...]


MANY_LABELS = 2000
"""From this many partial plans of a class on, bounding them by a good whole plan is worth the time it takes to find one."""


def pareto_labels(
    curves: Sequence[Curve], gpus: int, start: Sequence[int], shortfall: float, rest: Floats | None = None
) -> list[Label]:
    """The Pareto labels (GPUs, shortfall, goodput) of all plans from `start` up within the shortfall limit.

    A partial plan is dropped when no completion keeps the limit, when another one beats it, or when even the most that the
    other classes can serve leaves it below a whole plan in hand. `rest[k]` is what classes outside `curves` can serve at most with
    k GPUs.
    """
    least_loss, greatest_served = _completions(curves, gpus, start, rest)
    labels, target = [Label(0, 0.0, 0.0, (0.0, 0, 0), ())], -np.inf
    for i, (c, s) in enumerate(zip(curves, start, strict=True)):
        grown: list[Label] = []
        for label in labels:
            for step in range(s, len(c.gpus)):
                used, loss = label.gpus + int(c.gpus[step]), label.loss + float(c.loss[step])
                if used > gpus:
                    break
                if loss + least_loss[i + 1][gpus - used] <= shortfall + TIE:
                    grown.append(_extended(label, c, step, used, loss))
        if len(grown) > MANY_LABELS:
            if target == -np.inf:
                good = _good_plan(curves, gpus, start, shortfall, greatest_served[-1])
                target = good - 2.0 * tolerance(good) if good > -np.inf else 0.0
            grown = [g for g in grown if g.served + greatest_served[i + 1][gpus - g.gpus] >= target]
        labels = _unbeaten(grown)
    return labels


def _unbeaten(labels: list[Label]) -> list[Label]:
    """The labels that no other one beats: by no more GPUs, no more lost, no less served and, if all that ties, the better rank."""
    kept: list[Label] = []
    # What is kept, as a staircase: the more is lost, the more is served. All of it uses no more GPUs than what comes.
    losses: list[float] = []
    stairs: list[Label] = []
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
    least_loss = [np.zeros(gpus + 1)]
    greatest_served = [np.zeros(gpus + 1) if rest is None else rest]
    for c, s in zip(reversed(curves), reversed(start), strict=True):
        least_loss.append(with_class(least_loss[-1], c.gpus[s:], c.loss[s:], maximise=False))
        greatest_served.append(with_class(greatest_served[-1], c.gpus[s:], c.served_rps[s:], maximise=True))
    return [column.tolist() for column in reversed(least_loss)], [
        column.tolist() for column in reversed(greatest_served)
    ]


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


def _extended(label: Label, c: Curve, step: int, used: int, loss: float) -> Label:
    spare, replicas, order = label.rank
    n = int(c.replicas[step])
    rank = (spare - float(c.spare_rps[step]), replicas + n, order + n * int(c.place[step]))
    return Label(used, loss, label.served + float(c.served_rps[step]), rank, (*label.steps, step))


def knapsack(curves: Sequence[Curve], gpus: int, start: Sequence[int]) -> list[Label]:
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
        used = c.gpus[s:]
        added = (c.loss, c.served_rps, c.spare_rps, c.replicas, c.replicas * c.place)
        for part in blocks(used, gpus + 1):
            offers = [
                np.concatenate([here[None], left_by(column, used[part], value) + extra[s:][part, None]])
                for column, here, extra, value in zip(best, grown, added, worst, strict=True)
            ]
            row = first_best(offers)
            grown = [np.take_along_axis(offer, row[None], axis=0)[0] for offer in offers]
            choice = np.where(row > 0, s + part.start + row - 1, choice)
        best = grown
        choices.append(choice)
    labels = []
    for total in np.flatnonzero(np.isfinite(best[0])).tolist():
        steps, left = [], total
        for c, choice in zip(reversed(curves), reversed(choices), strict=True):
            steps.append(int(choice[left]))
            left -= int(c.gpus[steps[-1]])
        loss, served, spare, replicas, order = (float(column[total]) for column in best)
        labels.append(Label(total, loss, served, (-spare, int(replicas), int(order)), tuple(reversed(steps))))
    return labels


def first_best(offers: Sequence[Floats]) -> Ints:
    """For each number of GPUs the first row that is best in the order (loss, -served, -spare, replicas, order), ties within TIE.

    Takes the first of these columns, or all.
    """
    tied = np.isfinite(offers[0])
    for offer, sign in zip(offers, (1, -1, -1, 1, 1), strict=False):
        cost = np.where(tied, sign * offer, np.inf)
        least = cost.min(axis=0)
        margin = TIE * np.maximum(1.0, np.abs(least, where=np.isfinite(least), out=np.zeros_like(least)))
        tied &= cost <= least + margin
    first: Ints = np.argmax(tied, axis=0)
    return first
