"""The values of the first three stages, from the curves alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsieve.allocation import TIE
from fleetsieve.engines.frontier.curves import Curve, Floats
from fleetsieve.engines.frontier.labels import first_best, pareto_labels
from fleetsieve.engines.frontier.steps import blocks, gpus_at, left_by, limits, starts, with_class


def least_shortfall(curves: Sequence[Curve], gpus: int, first: Sequence[int] | None = None) -> float:
    """The least Σ p_i max(0, δ_i - r_i) with `gpus` GPUs and class i at step `first[i]` or above; inf when none fits."""
    start = list(first) if first is not None else [0] * len(curves)
    if gpus_at(curves, start) > gpus:
        return np.inf
    met = [max(s, c.first_without_loss) for s, c in zip(start, curves, strict=True)]
    if gpus_at(curves, met) <= gpus:
        return 0.0
    least = np.zeros(gpus + 1)
    for c, s in zip(curves, start, strict=True):
        least = with_class(least, c.gpus[s:], c.loss[s:], maximise=False)
    return float(least[gpus])


def greatest_min_fulfilment(curves: Sequence[Curve], gpus: int, shortfall: float = np.inf) -> float:
    """The greatest min_i r_i with `gpus` GPUs and a shortfall of at most `shortfall`; 1 when no class counts.

    Returns -inf when no plan keeps the shortfall.
    """
    counted = [c for c in curves if c.counts]
    if not counted:
        return 1.0 if keeps(curves, gpus, 0.0, shortfall) else -np.inf
    points = np.unique(np.concatenate([c.fulfilment for c in counted]))
    if not limits(curves, shortfall):
        return _highest(curves, gpus, points, floors=shortfall <= TIE)
    low, high = -1, len(points) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if keeps(curves, gpus, float(points[middle]), shortfall):
            low = middle
        else:
            high = middle - 1
    return float(points[low]) if low >= 0 else -np.inf


def _highest(curves: Sequence[Curve], gpus: int, points: Floats, *, floors: bool) -> float:
    """The highest of the rising `points` that every counted class reaches within the GPUs (with its floor met, if `floors`)."""
    used = np.zeros(len(points))
    for c in curves:
        need = c.fulfilment.searchsorted(points - TIE) if c.counts else np.zeros(len(points), dtype=np.int64)
        if floors:
            need = np.maximum(need, c.first_without_loss)
        used += c.gpus_or_none[need]
    fitting = int(used.searchsorted(gpus, side="right"))
    return float(points[fitting - 1]) if fitting else -np.inf


def greatest_goodput(
    curves: Sequence[Curve], gpus: int, min_fulfilment: float = 0.0, shortfall: float = np.inf
) -> float:
    """The greatest Σ x_i with `gpus` GPUs, every counted r_i >= `min_fulfilment` and at most `shortfall`; -inf if none."""
    start = starts(curves, min_fulfilment, shortfall)
    if gpus_at(curves, start) > gpus:
        return -np.inf
    # Only a class that can lose something needs labels under a side constraint; the others are a plain knapsack.
    limited = limits(curves, shortfall)
    bound = [limited and float(c.loss[s]) > 0.0 for c, s in zip(curves, start, strict=True)]
    best = np.zeros(gpus + 1)
    for c, s, tight in zip(curves, start, bound, strict=True):
        if not tight:
            best = with_class(best, c.gpus[s:], c.served_rps[s:], maximise=True)
    if limited:
        tight_curves = [c for c, tight in zip(curves, bound, strict=True) if tight]
        tight_start = [s for s, tight in zip(start, bound, strict=True) if tight]
        greatest, loss = _greatest_served(tight_curves, gpus, tight_start, best)
        if loss <= shortfall + TIE:
            return greatest
        served, least = _served_losing_least(tight_curves, gpus, tight_start, best)
        if shortfall <= least:
            return served
        labels = pareto_labels(tight_curves, gpus, tight_start, shortfall, best)
        return max((label.served + float(best[gpus - label.gpus]) for label in labels), default=-np.inf)
    return float(best[gpus])


def _greatest_served(curves: Sequence[Curve], gpus: int, start: Sequence[int], rest: Floats) -> tuple[float, float]:
    """The most that the classes and the rest serve, whatever is lost, and the least that is lost then: within the limit it decides.

    `rest[k]` is what other classes can serve at most with k GPUs.
    """
    served, loss = np.zeros(gpus + 1), np.zeros(gpus + 1)
    for c, s in zip(curves, start, strict=True):
        reached, least = np.full(gpus + 1, -np.inf), np.full(gpus + 1, np.inf)
        for part in blocks(c.gpus[s:], gpus + 1):
            used = c.gpus[s:][part]
            offers = left_by(served, used, -np.inf) + c.served_rps[s:][part, None]
            losses = left_by(loss, used, np.inf) + c.loss[s:][part, None]
            best = np.maximum(reached, offers.max(axis=0))
            lost = np.where(offers == best, losses, np.inf).min(axis=0)
            least = np.where(reached == best, np.minimum(least, lost), lost)
            reached = best
        served, loss = reached, least
    total = served + rest[::-1]
    greatest = float(total.max())
    return greatest, float(loss[total == greatest].min())


def _served_losing_least(curves: Sequence[Curve], gpus: int, start: Sequence[int], rest: Floats) -> tuple[float, float]:
    """The most that the classes and the rest serve where least is lost, and that least: no lower limit can be kept."""
    best = [np.zeros(gpus + 1), np.zeros(gpus + 1)]
    for c, s in zip(curves, start, strict=True):
        grown = [np.full(gpus + 1, np.inf), np.full(gpus + 1, -np.inf)]
        added = (c.loss[s:], c.served_rps[s:])
        for part in blocks(c.gpus[s:], gpus + 1):
            used = c.gpus[s:][part]
            offers = [
                np.concatenate([here[None], left_by(column, used, none) + extra[part, None]])
                for here, column, extra, none in zip(grown, best, added, (np.inf, -np.inf), strict=True)
            ]
            row = first_best(offers)[None]
            grown = [np.take_along_axis(offer, row, axis=0)[0] for offer in offers]
        best = grown
    loss, served = best[0], best[1] + rest[::-1]
    least = float(loss.min())
    return float(served[loss <= least + TIE].max()), least


def keeps(curves: Sequence[Curve], gpus: int, min_fulfilment: float, shortfall: float) -> bool:
    """Whether some plan reaches the min fulfilment within the GPUs and the shortfall limit."""
    start = starts(curves, min_fulfilment, shortfall)
    if gpus_at(curves, start) > gpus:
        return False
    return not limits(curves, shortfall) or least_shortfall(curves, gpus, start) <= shortfall + TIE
