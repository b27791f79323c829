"""`constrained-bo`: constrained Bayesian optimisation with an independent model per arm.

    score(e) = E[max(0, ln(c_e / g_e) - best_i)] x P(e meets its SLO)

best_i is the best ln(requests/s per GPU) that class i has measured within its SLO. Our reading: the paper gives this baseline one
line. GPU-seconds only break ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

from fleetsieve.bounds.envelope import ClassEnvelope
from fleetsieve.bounds.statistics import KnownCell
from fleetsieve.instance import TAIL_METRICS, Cell, CellKey
from fleetsieve.interval import Interval
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.policies.protocol import Choice, Situation, best
from fleetsieve.loop.policies.surrogate import predictions

CAPACITY_DEVIATION = 1.0
TAIL_DEVIATION = 1.0
"""Prior standard deviations in ln: an unmeasured arm may be off by a factor of e."""

STANDARD = NormalDist()


@dataclass(frozen=True)
class ConstrainedBo:
    """The optimiser of one class at a time that knows nothing of the fleet."""

    name: str = "constrained-bo"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The candidate with the greatest expected feasible improvement; ties go to the cheaper, then to the first by name."""
        look = Lookahead(situation.envelope, situation.certificate.eta, situation.certificate.epsilon)
        scores: dict[CellKey, float] = {}
        candidates = set(situation.candidates)
        for name in sorted({key.class_name for key in candidates}):
            class_envelope = situation.envelope.classes[name]
            hint = math.log(look.hint_rps(name))
            for cells in class_envelope.view.arms.values():
                asked = [cell for cell in cells if cell.key in candidates]
                if asked:
                    scores |= _arm_scores(class_envelope, cells, asked, hint)
        key = best(scores, situation.cost_gpu_s)
        return Choice(key, f"expected improvement of feasible capacity per GPU: {scores[key]:.3g} in ln", scores)


def _arm_scores(
    class_envelope: ClassEnvelope, cells: Sequence[Cell], asked: Sequence[Cell], hint: float
) -> dict[CellKey, float]:
    rates = [
        b.capacity_rps.lo / b.cell.gpus
        for b in class_envelope.bounds.values()
        if b.committable and b.capacity_rps.lo > 0.0
    ]
    incumbent = math.log(max(rates)) if rates else hint - math.log(sum(c.gpus for c in cells) / len(cells)) - 1.0
    mean, deviation = _model(class_envelope, cells, asked, lambda known: known.capacity_rps, hint, CAPACITY_DEVIATION)
    feasible = [1.0] * len(asked)
    for metric in TAIL_METRICS:
        limit = class_envelope.view.workload.slo.limit_s(metric)
        if limit is not None:
            tails = _model(class_envelope, cells, asked, partial(_tail_s, metric), math.log(limit), TAIL_DEVIATION)
            meets = [STANDARD.cdf((math.log(limit) - m) / s) for m, s in zip(*tails, strict=True)]
            feasible = [p * q for p, q in zip(feasible, meets, strict=True)]
    return {
        cell.key: p * _expected_improvement(m - math.log(cell.gpus), s, incumbent)
        for cell, m, s, p in zip(asked, mean, deviation, feasible, strict=True)
    }


def _tail_s(metric: str, known: KnownCell) -> Interval | None:
    return known.tail_s(metric)


def _model(
    class_envelope: ClassEnvelope,
    cells: Sequence[Cell],
    asked: Sequence[Cell],
    quantity: Callable[[KnownCell], Interval | None],
    prior: float,
    scale: float,
) -> tuple[list[float], list[float]]:
    """Mean and deviation of the ln of one quantity at the cells asked, from the measured cells of the arm alone."""
    points = []
    for cell in cells:
        known = class_envelope.view.known.get(cell.key)
        interval = quantity(known) if known is not None else None
        if interval is not None and interval.lo > 0.0 and math.isfinite(interval.hi):
            points.append((cell, math.log(interval.lo * interval.hi) / 2.0))
    mean, deviation = predictions([c for c, _ in points], [v for _, v in points], asked, scale)
    return ((mean + (0.0 if points else prior)).tolist(), [max(d, 1e-9) for d in deviation.tolist()])


def _expected_improvement(mean: float, deviation: float, incumbent: float) -> float:
    z = (mean - incumbent) / deviation
    return deviation * (z * STANDARD.cdf(z) + STANDARD.pdf(z))
