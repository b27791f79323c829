"""What the plans of rules without a certificate are truly worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleetsieve_models.problem import Name

from fleetsieve.instance import CellKey
from fleetsieve.studies.compare import Case
from fleetsieve.studies.decision_rules import DecisionRule
from fleetsieve.studies.judging import engine_of


@dataclass(frozen=True)
class Verdictless:
    """A rule's plan against the truth: what it cost, the cells in it that miss their SLO, and its regret (None with such cells)."""

    name: str
    cost_gpu_s: float
    missing_slo: tuple[CellKey, ...]
    regret: float | None

    @property
    def sentence(self) -> str:
        """The same in words."""
        spent = f"{self.cost_gpu_s / 1e3:,.1f} thousand GPU-seconds"
        if self.missing_slo:
            return f"{spent}; commits {', '.join(map(str, self.missing_slo))}, which misses its SLO"
        return f"{spent}; keeps every SLO, regret {self.regret or 0.0:z.3f}"

    @property
    def document(self) -> dict[str, Any]:
        """The same as JSON values."""
        missing = [str(key) for key in self.missing_slo]
        return {"rule": self.name, "cost_gpu_s": self.cost_gpu_s, "missing_slo": missing, "regret": self.regret}


def rule_result(case: Case, rule: DecisionRule) -> Verdictless:
    """A rule's plan on a case."""
    decided = rule.decide(case.instance, case.first_looks, engine_of(case.truth.envelope))
    missing = tuple(key for key in sorted(decided.replicas) if not case.truth.envelope[key].committable)
    replicas: dict[Name, int] = {key: count for key, count in decided.replicas.items()}  # noqa: C416
    regret = None if missing else case.truth.regret(replicas)
    return Verdictless(rule.name, decided.cost_gpu_s, missing, regret)
