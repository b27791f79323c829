"""What a cell will probably show: the outcomes that a policy weighs. A belief never enters a certificate.

Per class and quantity a Bayesian linear regression on (1, log2 TP, log2 load) of the log of what was measured (capacity, and each
tail relative to its limit). Its prior states what every serving engine shows: capacity rises with load and TP, tails rise with load
and fall with TP; how much is learnt. What it expects is cut to the bounds that the envelope already proves.

Where a tool predicts the quantity, a second regression, of ln(measured / predicted), learns how the tool is biased. Which of the
two is believed is decided by how probable each finds what was measured (its evidence); before any measurement it is the tool. So a
wrong prediction is unlearnt within a few cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import ClassEnvelope
from fleetsieve.bounds.standing import lacks
from fleetsieve.bounds.statistics import KnownCell, Spread, imagine
from fleetsieve.instance import TAIL_METRICS, THROUGHPUT, Cell, CellKey, LoadKind, Status
from fleetsieve.interval import Interval
from fleetsieve.loop.predictions import Predictions

Floats = NDArray[np.float64]
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Prior:
    """Means and standard deviations of (intercept, per doubling of TP, per doubling of load), and the residual's."""

    mean: tuple[float, float, float]
    sd: tuple[float, float, float]
    residual: float


PRIORS: Mapping[str, Prior] = {
    "capacity": Prior((0.0, 0.4, 0.55), (1.0, 0.25, 0.2), 0.12),
    "ttft": Prior((-1.0, -0.3, 0.5), (1.0, 0.25, 0.25), 0.3),
    "e2e": Prior((-1.0, -0.4, 0.25), (1.0, 0.25, 0.15), 0.12),
    "tpot": Prior((-1.0, -0.4, 0.2), (1.0, 0.25, 0.12), 0.1),
}
"""Tails in the middle of the ladder are expected at 1/e of their limit: a first measurement that is too high rules out what is
above it, one that is too low has to be made again."""

BIASES: Mapping[str, Prior] = {
    "capacity": Prior((0.0, 0.0, 0.0), (0.4, 0.15, 0.1), 0.1),
    "ttft": Prior((0.0, 0.0, 0.0), (1.5, 0.3, 0.3), 0.4),
    "e2e": Prior((0.0, 0.0, 0.0), (0.4, 0.15, 0.1), 0.12),
    "tpot": Prior((0.0, 0.0, 0.0), (0.4, 0.15, 0.1), 0.1),
}
"""How far a tool's predictions may be off, in ln: tools predict means rather than tails, and TTFT worst."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Posterior mean and covariance of the three coefficients, and the deviation of a cell around the regression."""

    mean: Floats
    covariance: Floats
    residual: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that a measurement may show, and its probability."""

    probability: float
    known: KnownCell


class ClassBelief:
    """The belief about one class given its envelope."""

    def __init__(
        self, class_envelope: ClassEnvelope, capacity_hint_rps: float, predicted: Predictions | None = None
    ) -> None:
        """`capacity_hint_rps` > 0 centres the prior of capacity where nothing was measured; `predicted` is what a tool states."""
        self._class_envelope = class_envelope
        cells = [cell for arm in class_envelope.view.arms.values() for cell in arm]
        self._tp = _middle([float(c.key.tp) for c in cells])
        self._load = _middle([c.offered for c in cells if c.offered])
        self._limits = {
            m: limit for m in TAIL_METRICS if (limit := class_envelope.view.workload.slo.limit_s(m)) is not None
        }
        self._hint = capacity_hint_rps
        self._fits: dict[str, Fit] = {}
        self._trusted: dict[str, tuple[Fit, Mapping[CellKey, float]]] = {}
        for quantity in ("capacity", *self._limits):
            measured = self._measured(cells, quantity)
            self._fits[quantity] = self._fit(PRIORS[quantity], measured)
            predictions = self._predicted(cells, quantity, predicted) if predicted else {}
            if predictions and (fit := self._trust(quantity, measured, predictions)) is not None:
                self._trusted[quantity] = fit, predictions

    def _features(self, cell: Cell) -> Floats:
        load = math.log2(cell.offered / self._load) if cell.offered else 0.0
        return np.array([1.0, math.log2(cell.key.tp / self._tp), load])

    def _scale(self, quantity: str) -> float:
        return self._hint if quantity == "capacity" else self._limits[quantity]

    def _measured(self, cells: Sequence[Cell], quantity: str) -> list[tuple[Cell, float]]:
        """The measured cells and ln(quantity / scale)."""
        found = []
        for cell in cells:
            known = self._class_envelope.view.known.get(cell.key)
            interval = (known.capacity_rps if quantity == "capacity" else known.tail_s(quantity)) if known else None
            if interval is not None and interval.lo > 0.0 and math.isfinite(interval.hi):
                found.append((cell, math.log(math.sqrt(interval.lo * interval.hi) / self._scale(quantity))))
        return found

    def _predicted(self, cells: Sequence[Cell], quantity: str, predicted: Predictions) -> dict[CellKey, float]:
        """ln(prediction / scale) of the cells that have one."""
        values = {c.key: predicted[c.key].value(quantity) for c in cells if c.key in predicted}
        return {key: math.log(value / self._scale(quantity)) for key, value in values.items() if value is not None}

    def _fit(self, prior: Prior, measured: Sequence[tuple[Cell, float]]) -> Fit:
        """The regression given what was measured."""
        precision = np.diag(1.0 / np.square(prior.sd))
        weighted = precision @ np.array(prior.mean)
        for cell, y in measured:
            x = self._features(cell)
            precision += np.outer(x, x) / prior.residual**2
            weighted += x * (y / prior.residual**2)
        covariance: Floats = np.linalg.inv(precision).astype(np.float64)
        return Fit(covariance @ weighted, covariance, prior.residual)

    def _trust(
        self, quantity: str, measured: Sequence[tuple[Cell, float]], predictions: Mapping[CellKey, float]
    ) -> Fit | None:
        """The regression on ln(measured / predicted); None when what was measured is less probable with it than without it."""
        both = [(cell, y) for cell, y in measured if cell.key in predictions]
        off = [(cell, y - predictions[cell.key]) for cell, y in both]
        if both and self._evidence(BIASES[quantity], off) < self._evidence(PRIORS[quantity], both):
            return None
        return self._fit(BIASES[quantity], off)

    def _evidence(self, prior: Prior, measured: Sequence[tuple[Cell, float]]) -> float:
        """The log density of what was measured before it was, up to a constant that depends on the number of cells alone."""
        features = np.array([self._features(cell) for cell, _ in measured])
        distance = np.array([y for _, y in measured]) - features @ np.array(prior.mean)
        covariance = (features * np.square(prior.sd)) @ features.T + prior.residual**2 * np.eye(len(measured))
        _, logarithm = np.linalg.slogdet(covariance)
        return -0.5 * float(logarithm + distance @ np.linalg.solve(covariance, distance))

    def predict(self, cell: Cell, quantity: str) -> tuple[float, float]:
        """Mean and standard deviation of ln(quantity / scale); the scale is the limit, or the capacity hint."""
        fit, interval = self._trusted.get(quantity, (None, {}))
        centre = interval.get(cell.key)
        if fit is None or centre is None:
            fit, centre = self._fits[quantity], 0.0
        x = self._features(cell)
        return centre + float(x @ fit.mean), math.sqrt(float(x @ fit.covariance @ x) + fit.residual**2)

    def _tail(self, b: CellBounds, metric: str) -> tuple[float, float, float]:
        """Chance that the tail meets its limit, and its median (seconds) if it does and if it does not."""
        limit = self._limits[metric]
        known = self._class_envelope.view.known.get(b.cell.key)
        if known is not None and (interval := known.tail_s(metric)) is not None and interval.is_point:
            return (1.0 if interval.hi <= limit else 0.0), interval.lo, interval.hi
        mean, sd = self.predict(b.cell, metric)
        floor = b.tails_s[metric].lo
        low = NORMAL.cdf((math.log(floor / limit) - mean) / sd) if floor > 0.0 else 0.0
        middle = NORMAL.cdf(-mean / sd)
        meets = min(1.0, max(0.0, (middle - low) / (1.0 - low))) if low < 1.0 else 0.0
        inside = limit * math.exp(mean + sd * _quantile((low + max(middle, low)) / 2))
        outside = limit * math.exp(mean + sd * _quantile((max(middle, low) + 1.0) / 2))
        return meets, min(max(inside, floor), limit), max(outside, limit * 1.0001, floor)

    def outcomes(self, b: CellBounds, quantiles: Sequence[float] = (0.15, 0.5, 0.85)) -> list[Outcome]:
        """What a measurement of the cell may show: it meets its SLO or not, times capacity at `quantiles` of the belief.

        Another look at a measured cell will probably show what was measured, as far off as runs differ.
        """
        known = self._class_envelope.view.known.get(b.cell.key)
        if known is not None and known.measured and not lacks(known, self._class_envelope.view.workload.slo):
            return self._repeated(b, known, quantiles)
        tails = {metric: self._tail(b, metric) for metric in self._limits}
        meets = math.prod(p for p, _, _ in tails.values())
        good = {metric: inside for metric, (_, inside, _) in tails.items()}
        bad = dict(good)
        if tails:
            worst = min(tails, key=lambda metric: tails[metric][0])
            bad[worst] = tails[worst][2]
        capacities = self._capacities(b, quantiles)
        outcomes = [Outcome(meets * weight, self._imagined(known, b.cell, value, good)) for value, weight in capacities]
        middle = capacities[len(capacities) // 2][0]
        outcomes.append(Outcome(1.0 - meets, self._imagined(known, b.cell, middle, bad)))
        return [outcome for outcome in outcomes if outcome.probability > 1e-6]

    def _repeated(self, b: CellBounds, known: KnownCell, quantiles: Sequence[float]) -> list[Outcome]:
        """One more look at a measured cell: slow or fast as a whole, since a bad run has worse tails and serves less."""
        spreads = self._class_envelope.view.rules.spreads
        looks = known.count(Status.OK)
        outcomes = []
        for quantile, weight in zip(quantiles, _weights(quantiles), strict=True):
            tails = {m: _shifted(b.tails_s[m], spreads.get(m), looks, quantile) for m in self._limits}
            capacity = _shifted(b.capacity_rps, spreads.get(THROUGHPUT), looks, 1.0 - quantile)
            success = (b.success.lo + b.success.hi) / 2.0
            imagined = imagine(
                known, b.cell, self._class_envelope.view.rules, capacity_rps=capacity, tails_s=tails, success=success
            )
            outcomes.append(Outcome(weight, imagined))
        return outcomes

    def _imagined(self, known: KnownCell | None, cell: Cell, capacity: float, tails: Mapping[str, float]) -> KnownCell:
        return imagine(known, cell, self._class_envelope.view.rules, capacity_rps=capacity, tails_s=tails)

    def _capacities(self, b: CellBounds, quantiles: Sequence[float]) -> list[tuple[float, float]]:
        """What the capacity may be (requests/s) and how probable it is; an open loop in its SLO serves what it is offered."""
        top = b.capacity_rps.hi
        if b.cell.load_kind is LoadKind.RATE and b.cell.offered is not None:
            return [(min(b.cell.offered, top), 1.0)]
        mean, sd = self.predict(b.cell, "capacity")
        share = NORMAL.cdf((math.log(top / self._hint) - mean) / sd) if math.isfinite(top) and top > 0.0 else 1.0
        values = [self._hint * math.exp(mean + sd * _quantile(share * q)) for q in quantiles]
        return [
            (min(value, top) if top > 0.0 else 0.0, w) for value, w in zip(values, _weights(quantiles), strict=True)
        ]


def _quantile(p: float) -> float:
    return NORMAL.inv_cdf(min(max(p, 1e-9), 1.0 - 1e-9))


def _weights(quantiles: Sequence[float]) -> list[float]:
    """The probability mass nearest to each quantile."""
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(quantiles)), 1.0]
    return [high - low for low, high in pairwise(edges)]


def _middle(values: Sequence[float]) -> float:
    """The geometric mean; 1 when there is nothing to average."""
    return math.exp(math.fsum(math.log(v) for v in values) / len(values)) if values else 1.0


def _shifted(interval: Interval, spread: Spread | None, looks: int, quantile: float) -> float:
    """What another measurement shows of a quantity known to lie in `interval`, at a quantile of the spread between runs."""
    if interval.lo <= 0.0 or math.isinf(interval.hi):
        return interval.lo
    middle = math.log(interval.lo * interval.hi) / 2.0
    sigma = (
        spread.sigma * math.sqrt(1.0 + 1.0 / looks) if spread is not None else math.log(interval.hi / interval.lo) / 6.0
    )
    return math.exp(middle + sigma * _quantile(quantile))
