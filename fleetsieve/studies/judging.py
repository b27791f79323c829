"""A certificate held against the truth: is what it promises so?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleetsieve_models.problem import Name

from fleetsieve.allocation import TIE, Allocation, Engine, evaluate, floors_met
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.brief import brief
from fleetsieve.certificate import Certificate, Verdict
from fleetsieve.engines import choosing as engines
from fleetsieve.errors import SolveFailed
from fleetsieve.instance import CellKey, Instance, Measurement

FAULTS = {
    "slo": "a committed configuration truly violates its SLO",
    "floor": "a floor is truly not met",
    "regret": "the plan is truly worse than the best by more than epsilon",
    "infeasible": "every floor can truly be met",
}
"""Ways in which a certificate is wrong; the first three are of certified-feasible."""


@dataclass(frozen=True)
class Judgement:
    """`fault` is one of FAULTS, "" where the certificate is right or undecided.

    `regret` is the largest stage regret of the plan (fractions), None where a committed configuration violates its SLO.
    """

    fault: str
    regret: float | None


@dataclass(frozen=True)
class Truth:
    """The whole true table: its bounds, which are points, and the best plan of the cells that truly meet their SLO."""

    envelope: Envelope
    best: Allocation

    def __repr__(self) -> str:
        return brief(self)

    @classmethod
    def of(cls, instance: Instance, table: Iterable[Measurement]) -> Truth:
        """The truth of an instance; `table` holds one row a cell, taken as exact.

        Raises:
            SolveFailed: when the engine gives no best plan.
        """
        envelope = Envelope.of(instance, table)
        best = engine_of(envelope).optimise(envelope.conservative).allocation
        if best is None:
            raise SolveFailed(f"{instance.name}: the whole table has no best plan", "an empty fleet always has one")
        return cls(envelope, best)

    def judge(self, certificate: Certificate) -> Judgement:
        """Whether a certificate is right, and the true regret of its plan whatever its verdict."""
        counts = certificate.conservative.replica_counts
        if any(isinstance(key, CellKey) and not self.envelope[key].committable for key in counts):
            return Judgement("slo" if certificate.verdict is Verdict.FEASIBLE else self._hopeless(certificate), None)
        actual = evaluate(self.envelope.conservative, counts)
        regret = self._regret(actual)
        if certificate.verdict is not Verdict.FEASIBLE:
            return Judgement(self._hopeless(certificate), regret)
        return Judgement(
            "floor" if not floors_met(actual) else "regret" if regret > certificate.epsilon + TIE else "", regret
        )

    def regret(self, replicas: Mapping[Name, int]) -> float:
        """The largest stage regret of a plan whose configurations truly meet their SLOs."""
        return self._regret(evaluate(self.envelope.conservative, replicas))

    def _regret(self, actual: Allocation) -> float:
        total = actual.problem.total_demand_rps
        return max(
            0.0,
            actual.shortfall - self.best.shortfall,
            self.best.min_fulfilment - actual.min_fulfilment,
            (self.best.goodput_rps - actual.goodput_rps) / total if total > 0.0 else 0.0,
        )

    def _hopeless(self, certificate: Certificate) -> str:
        met = floors_met(self.best)
        return "infeasible" if certificate.verdict is Verdict.INFEASIBLE and met else ""


def engine_of(envelope: Envelope) -> Engine:
    """The engine that fits every problem of the instance: before anything is measured every configuration is possible."""
    return engines.engine_for(Envelope.of(envelope.instance).optimistic)
