"""The results of a noise study over its trials: counts, rates with exact intervals, costs; for JSON and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fleetsieve.bounds.statistics.intervals import success_interval
from fleetsieve.certificate import Verdict
from fleetsieve.interval import Interval
from fleetsieve.studies.calibrate import TrialOutcome
from fleetsieve.studies.judging import FAULTS

SIDE = 0.025
"""The error of each side of the 95 % intervals of the rates."""


@dataclass(frozen=True)
class Rate:
    """How often something happened in `trials` trials."""

    count: int
    trials: int

    @property
    def share(self) -> float:
        """The share of the trials."""
        return self.count / self.trials

    @property
    def ci95(self) -> Interval:
        """Clopper and Pearson's 95 % interval of the probability behind it."""
        return success_interval(self.count, self.trials, SIDE)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {"count": self.count, "rate": self.share, "ci95": [self.ci95.lo, self.ci95.hi]}


@dataclass(frozen=True)
class Counts:
    """The trials of one treatment. `wrong_feasible` and `wrong_infeasible` count certificates, not trials that were undecided."""

    treatment: str
    trials: int
    verdicts: Counter[Verdict]
    faults: Counter[str]
    mean_gpu_s: float
    mean_looks: float
    mean_cells: float
    largest_regret: float | None
    exact_gpu_s: float

    @classmethod
    def of(cls, treatment: str, outcomes: Sequence[TrialOutcome], exact_gpu_s: float) -> Counts:
        """The counts of one treatment; `exact_gpu_s` is what the replay of the truth itself costs."""
        certified = [o.regret for o in outcomes if o.verdict is Verdict.FEASIBLE and o.regret is not None]
        return cls(
            treatment=treatment,
            trials=len(outcomes),
            verdicts=Counter(o.verdict for o in outcomes),
            faults=Counter(o.fault for o in outcomes if o.fault),
            mean_gpu_s=fmean(o.spent_gpu_s for o in outcomes),
            mean_looks=fmean(o.looks for o in outcomes),
            mean_cells=fmean(o.cells for o in outcomes),
            largest_regret=max(certified, default=None),
            exact_gpu_s=exact_gpu_s,
        )

    @property
    def wrong_feasible(self) -> Rate:
        """Certified-feasible, and what that promises is not so."""
        return Rate(self.faults.total() - self.faults["infeasible"], self.trials)

    @property
    def wrong_infeasible(self) -> Rate:
        """Certified-infeasible, and every floor can be met."""
        return Rate(self.faults["infeasible"], self.trials)

    @property
    def wrong(self) -> Rate:
        """Wrong certificates of either kind."""
        return Rate(self.faults.total(), self.trials)

    @property
    def undecided(self) -> Rate:
        """Trials that ended without a certificate."""
        return Rate(self.verdicts[Verdict.UNDECIDED], self.trials)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "treatment": self.treatment,
            "trials": self.trials,
            "verdicts": {str(verdict): self.verdicts[verdict] for verdict in Verdict},
            "wrong": self.wrong.document(),
            "wrong_certified_feasible": self.wrong_feasible.document(),
            "wrong_certified_infeasible": self.wrong_infeasible.document(),
            "undecided": self.undecided.document(),
            "faults": {fault: self.faults[fault] for fault in FAULTS},
            "largest_certified_regret": self.largest_regret,
            "mean_gpu_s": self.mean_gpu_s,
            "ratio_to_exact": self.mean_gpu_s / self.exact_gpu_s if self.exact_gpu_s > 0.0 else None,
            "mean_looks": self.mean_looks,
            "mean_cells": self.mean_cells,
        }


def calibration_document(
    instance: str, noise: Any, policy: str, seed: int, nominal: float, counts: Iterable[Counts]
) -> dict[str, Any]:
    """The whole study as JSON values; `noise` is σ per quantity, or "records"; `nominal` is 1 - confidence."""
    listed = list(counts)
    return {
        "instance": instance,
        "noise": noise,
        "policy": policy,
        "seed": seed,
        "nominal_rate": nominal,
        "exact_gpu_s": listed[0].exact_gpu_s if listed else None,
        "treatments": [counted.document() for counted in listed],
    }
