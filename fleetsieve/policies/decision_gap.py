"""`decision-gap`: the cell that is expected to shrink the gap between the two decisions most per GPU-second.

    score(e) = E[Γ - Γ' | e] / cost(e),     Γ = 0 if certified, else the stage gaps + Σ_arms φ_a
    φ_a = 1 / (λ_i K) Σ_{k=1..K} max(0, F_a+(k) - F_i-(k)),     K = G - #classes + 1,     F(k) = max_q min(λ_i, c_q floor(k / g_q))

F_a+ runs over the cells of arm a that are not ruled out, at upper capacities; F_i- over the committable cells of class i: φ_a is
how much arm a could still add, averaged over the GPUs that the class may get. The gaps alone are zero for most candidates (two
cells must be resolved together), so φ gives the plateau a slope.

The expectation runs over the outcomes of the belief, each propagated through the assumptions before Γ is computed again. Scoring
uses the frontier; several pools are scored as one, and placement on nodes is ignored: that is a guess about usefulness, never a
bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from fleetsieve_models.problem import Configuration
from numpy.typing import NDArray

from fleetsieve.allocation import TIE
from fleetsieve.belief import ClassBelief
from fleetsieve.certificate.gap import frontier_gap
from fleetsieve.envelope import ClassEnvelope, Envelope, class_configurations, class_demand
from fleetsieve.frontier import Curve, curve
from fleetsieve.instance import ArmKey, CellKey
from fleetsieve.policies.protocol import Choice, Situation


@dataclass(frozen=True)
class _Part:
    """What one class contributes to Γ."""

    low: Curve
    high: Curve
    potential: float
    open: bool


@dataclass(frozen=True)
class DecisionGap:
    """The default policy; `quantiles` are those of the capacity belief that stand for its spread."""

    quantiles: tuple[float, ...] = (0.15, 0.5, 0.85)
    name: str = "decision-gap"

    def choose(self, situation: Situation) -> Choice:
        """The candidate with the greatest score; ties go to the cheaper, then to the first by name."""
        scorer = _Scorer(situation.envelope, situation.certificate.eta, situation.certificate.epsilon)
        beliefs = {name: scorer.belief(name) for name in {key.class_name for key in situation.candidates}}
        scores = {}
        for key in situation.candidates:
            outcomes = beliefs[key.class_name].outcomes(situation.envelope[key], self.quantiles)
            gain = math.fsum(
                o.probability * (scorer.now - scorer.after(situation.envelope.with_known(o.known), key))
                for o in outcomes
            )
            scores[key] = gain / situation.cost_gpu_s[key] if situation.cost_gpu_s[key] > 0.0 else gain
        key = min(situation.candidates, key=lambda k: (-_settled(scores[k]), situation.cost_gpu_s[k], k))
        share = scores[key] * situation.cost_gpu_s[key] / scorer.now if scorer.now > 0.0 else 0.0
        return Choice(key, f"expected to close {share:.0%} of what is open", scores)


def _settled(score: float) -> float:
    """A score to nine digits: what is below is noise of the order of summation, and must not break ties."""
    return float(f"{score:.9g}")


class _Scorer:
    """Γ now, and after one class has changed."""

    def __init__(self, envelope: Envelope, eta: float, epsilon: float) -> None:
        self._instance, self._eta, self._epsilon = envelope.instance, eta, epsilon
        self._gpus = envelope.instance.fleet.gpus
        self._most = max(1, self._gpus - len(envelope.classes) + 1)
        self._envelope = envelope
        self._parts = {name: self._part(own) for name, own in envelope.classes.items()}
        self.now = self._gamma(self._parts)

    def belief(self, name: str) -> ClassBelief:
        """The belief about one class, centred where an equal share of the GPUs would just serve its demand."""
        own = self._envelope.classes[name]
        share = self._gpus / len(self._envelope.classes)
        gpus = [cell.gpus for cells in own.view.arms.values() for cell in cells]
        hint = own.view.workload.demand_rps / share * (sum(gpus) / len(gpus))
        return ClassBelief(own, hint if hint > 0.0 else 1.0)

    def after(self, envelope: Envelope, key: CellKey) -> float:
        """Γ when the class of `key` is as in `envelope`."""
        return self._gamma({**self._parts, key.class_name: self._part(envelope.classes[key.class_name])})

    def _gamma(self, parts: Mapping[str, _Part]) -> float:
        gap, shortfall = frontier_gap(
            [p.low for p in parts.values()], [p.high for p in parts.values()], self._gpus, self._eta
        )
        is_open = any(p.open for p in parts.values())
        if not is_open and shortfall <= TIE and gap.largest <= self._epsilon:
            return 0.0
        return gap.shortfall + gap.min_fulfilment + gap.goodput + math.fsum(p.potential for p in parts.values())

    def _part(self, own: ClassEnvelope) -> _Part:
        workload = own.view.workload
        lower = class_configurations(self._instance, own, lower=True)
        upper = class_configurations(self._instance, own, lower=False)
        demand = class_demand(own)
        potential = 0.0
        if workload.demand_rps > 0.0:
            reached = self._reach(lower, workload.demand_rps)
            arms: dict[ArmKey, list[Configuration]] = {}
            for q in upper:
                key = q.name
                assert isinstance(key, CellKey)
                arms.setdefault(own.bounds[key].cell.arm, []).append(q)
            for configurations in arms.values():
                more = np.maximum(0.0, self._reach(configurations, workload.demand_rps) - reached)
                potential += float(more.sum()) / (workload.demand_rps * self._most)
        return _Part(curve(demand, lower, self._gpus), curve(demand, upper, self._gpus), potential, own.open)

    def _reach(self, configurations: Sequence[Configuration], demand_rps: float) -> NDArray[np.float64]:
        """F(k) for k = 1..K."""
        k = np.arange(1, self._most + 1)
        best = np.zeros(self._most)
        per_size: dict[int, float] = {}
        for q in configurations:
            per_size[q.gpus] = max(per_size.get(q.gpus, 0.0), q.capacity_rps)
        for gpus, capacity in per_size.items():
            np.maximum(best, np.minimum(demand_rps, capacity * (k // gpus)), out=best)
        return best
