"""What one cell's interval needs to know of the whole grid: its share of the error, and the spread between runs.

α of one side of one cell = (1 - confidence) / (sides in use), and the k-th measurement of the cell spends α x 6 / (π² k²) of it:
these shares sum to α, so that looking again until it fits is not free. With family = "grid" the sides of all cells share one
error; with "cell" those of one cell do.

The spread σ is the standard deviation of ln(one run / long-run value), per metric: declared in `[noise]`, or else pooled over the
cells that were measured more than once, when that has at least LEAST_DOF degrees of freedom. What measurements with per-request
records scatter by their own finite number of requests is no spread between runs: it is taken off (as in a one-way analysis of
variance with random effects), for their intervals have it already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleetsieve.bounds.statistics.intervals import batch_rates_rps, normal_quantile, p99_error, rate_error, t_quantile
from fleetsieve.instance import (
    NOISE_KEYS,
    TAIL_METRICS,
    THROUGHPUT,
    CellKey,
    Instance,
    Measurement,
    Reading,
    Slo,
    Status,
)
from fleetsieve.rule_sets import CURRENT, RULE_SETS, RuleSet, rule_set

REFERENCE_SPREAD: Mapping[str, float] = {"ttft_p99": 0.12, "e2e_p99": 0.035, "tpot_p99": 0.03, "throughput": 0.01}
"""σ that public repeats show: 90th percentiles of two-run spreads over 40 repeated cells (InferenceMAX, October 2025)."""

LEAST_DOF = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """σ of ln(one run / long-run value); `dof` its degrees of freedom when it was estimated, None when declared."""

    sigma: float
    dof: int | None = None

    def half_width(self, alpha: float, looks: int) -> float:
        """How far, in ln, the mean of `looks` runs is from the long-run value, with an error of `alpha` on each side."""
        quantile = normal_quantile(alpha) if self.dof is None else t_quantile(alpha, self.dof)
        return quantile * self.sigma / math.sqrt(looks)


@dataclass(frozen=True)
class Rules:
    """`alpha` is the error of one side of one cell over all measurements; `spreads` holds the spreads that are known and above 0.

    `rule_set` states what a row means.
    """

    alpha: float = 0.05
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    max_looks: int = 16
    rule_set: RuleSet = RULE_SETS[CURRENT]

    @classmethod
    def of(cls, instance: Instance, rows: Iterable[Measurement] = ()) -> Rules:
        """The rules of an instance given all its measured rows."""
        spreads = {}
        by_cell: dict[CellKey, list[Measurement]] = {}
        for row in rows:
            if row.status is Status.OK:
                by_cell.setdefault(row.key, []).append(row)
        repeated = [looks for looks in by_cell.values() if len(looks) > 1]
        for quantity, key in NOISE_KEYS.items():
            declared = instance.noise.get(key)
            spread = Spread(declared) if declared is not None else _pooled(repeated, quantity)
            if spread is not None and spread.sigma > 0.0:
                spreads[quantity] = spread
        settings = instance.certificate
        alpha = (1.0 - settings.confidence) / shares(instance)
        return cls(alpha, spreads, instance.measure.max_looks, rule_set(settings.rule_set))

    def spent(self, look: int) -> float:
        """The error that one side of a cell may spend on its `look`-th measurement, from 1.

        >>> round(sum(Rules(0.05).spent(k) for k in range(1, 2000)), 4)
        0.05
        """
        return self.alpha * 6.0 / (math.pi * look) ** 2


def shares(instance: Instance) -> int:
    """Among how many one-sided bounds the error is shared: those in use of all cells, or of the cell with most of them.

    A cell has two sides for its capacity, for each tail that its SLO limits, and for success where that has a floor: the upper
    ends guard commitments, the lower ones the claim that nothing else is better. Excluded cells have none.
    """
    sides = {c.name: sides_in_use(c.slo) for c in instance.classes}
    used = [sides[cell.key.class_name] for cell in instance.cells if not cell.excluded]
    return max(1, sum(used) if instance.certificate.family == "grid" else max(used, default=1))


def sides_in_use(slo: Slo) -> int:
    """One-sided bounds of one cell that a decision reads."""
    limited = sum(slo.limit_s(metric) is not None for metric in TAIL_METRICS)
    return 2 * (1 + limited + (slo.min_success is not None))


def _pooled(repeated: Iterable[list[Measurement]], quantity: str) -> Spread | None:
    """The spread over the cells that were measured several times; None with fewer than LEAST_DOF degrees of freedom."""
    squares, within, dof = 0.0, 0.0, 0
    for looks in repeated:
        logs = [
            (math.log(value), row)
            for row in looks
            if (value := reading(row, quantity).value) is not None and value > 0.0
        ]
        if len(logs) > 1:
            mean = math.fsum(log for log, _ in logs) / len(logs)
            squares += math.fsum((log - mean) ** 2 for log, _ in logs)
            within += math.fsum(_within_run(row, quantity) ** 2 for _, row in logs) * (1.0 - 1.0 / len(logs))
            dof += len(logs) - 1
    return Spread(math.sqrt(max(0.0, squares - within) / dof), dof) if dof >= LEAST_DOF else None


def _within_run(row: Measurement, quantity: str) -> float:
    """The standard error in ln that the requests of one measurement account for; 0 where it has no records, or too few to know."""
    if row.records is None:
        return 0.0
    if quantity == THROUGHPUT:
        return rate_error(batch_rates_rps(row.records)) or 0.0
    return p99_error(row.records.latencies_s(quantity)) or 0.0


def reading(row: Measurement, quantity: str) -> Reading:
    """The reading of a row for "ttft", "e2e", "tpot" or "throughput"."""
    return row.throughput_rps if quantity == THROUGHPUT else row.tail(quantity)
