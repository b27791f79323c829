"""What a comparison states: means with bootstrap intervals, savings, regrets, and ratios to the clairvoyant floor."""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fleetsieve.studies.compare import Results, Run

RANDOM = "random"
RESAMPLES = 2000
Interval95 = tuple[float, float]


def interval95(statistic: Callable[..., Any], *samples: ArrayLike, paired: bool = False, seed: int = 0) -> Interval95:
    """The 95 % bootstrap interval of a statistic: BCa, or percentile where BCa is degenerate; a point where nothing varies.

    `statistic(*samples, axis)` is vectorised, as in scipy.stats.bootstrap; several samples are resampled independently, or
    together when they are `paired`.
    """
    from scipy import stats

    arrays = [np.asarray(sample, dtype=np.float64) for sample in samples]
    varying = [array for array in arrays if len(array) > 1 and np.ptp(array) > 0.0]
    if not varying:
        value = float(statistic(*arrays, axis=-1))
        return value, value
    # A sample of one cannot be resampled: it enters as it is.
    fixed = [array if not paired and (len(array) < 2 or np.ptp(array) == 0.0) else None for array in arrays]
    varying = arrays if paired else varying

    def of_varying(*resampled: Any, axis: int = -1) -> Any:
        given = iter(resampled)
        return statistic(*(next(given) if array is None else np.atleast_1d(array.mean()) for array in fixed), axis=axis)

    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = stats.bootstrap(
                varying,
                of_varying,
                paired=paired,
                n_resamples=RESAMPLES,
                method=method,
                rng=np.random.default_rng(seed),
            ).confidence_interval
        if math.isfinite(found.low) and math.isfinite(found.high):
            break
    return float(found.low), float(found.high)


def mean_of(sample: Any, axis: int = -1) -> Any:
    """The mean, as a statistic for `interval95`."""
    return np.mean(sample, axis=axis)


def saving(spent_gpu_s: Any, random: Any, axis: int = -1) -> Any:
    """The share of the mean of `random` that the mean of `spent_gpu_s` saves, as a statistic for `interval95`."""
    return 1.0 - np.mean(spent_gpu_s, axis=axis) / np.mean(random, axis=axis)


@dataclass(frozen=True)
class Summary:
    """One policy on one instance; GPU-seconds are means over orders, intervals are 95 % bootstrap ones.

    What compares with random is None without random among the policies; the ratio is None without a floor above 0.
    """

    policy: str
    orders: int
    mean_gpu_s: float
    ci95_gpu_s: Interval95
    class_gpu_s: Mapping[str, float]
    saving_vs_random: float | None
    ci95_saving: Interval95 | None
    beats_random_share: float | None
    ratio_to_clairvoyant: float | None
    max_regret: float
    regret_auc: float
    wrong_certificates: int
    undecided: int
    above_grid: int
    fewest_cells: int


def policy_summary(results: Results, policy: str) -> Summary:
    """What one policy did on one instance."""
    runs = results.runs[policy]
    spent = [run.spent_gpu_s for run in runs]
    mean = float(np.mean(spent))
    grid = results.case.grid_gpu_s
    random = [run.spent_gpu_s for run in results.runs.get(RANDOM, ())]
    floor = results.floor
    bound = None if floor is None else floor.upper_gpu_s if floor.exact else floor.lower_gpu_s
    return Summary(
        policy=policy,
        orders=len(runs),
        mean_gpu_s=mean,
        ci95_gpu_s=interval95(mean_of, spent),
        class_gpu_s={name: float(np.mean([run.class_gpu_s[name] for run in runs])) for name in runs[0].class_gpu_s},
        saving_vs_random=float(saving(spent, random)) if random and np.mean(random) > 0.0 else None,
        ci95_saving=interval95(saving, spent, random) if random and np.mean(random) > 0.0 else None,
        beats_random_share=_beaten(spent, random) if random else None,
        ratio_to_clairvoyant=mean / bound if bound else None,
        max_regret=max(run.regret for run in runs),
        regret_auc=float(np.mean([run.auc(grid) for run in runs])),
        wrong_certificates=sum(run.fault != "" for run in runs),
        undecided=sum(run.verdict == "undecided" for run in runs),
        above_grid=sum(run.spent_gpu_s > grid * (1.0 + 1e-9) for run in runs),
        fewest_cells=min(len(run.cells) for run in runs),
    )


def _beaten(spent: Sequence[float], random: Sequence[float]) -> float:
    """The share of (run, random draw) pairs in which the run spent less."""
    spent_gpu_s, draws = np.asarray(spent)[:, None], np.asarray(random)[None, :]
    return float(np.mean(spent_gpu_s < draws))


def document(found: Sequence[Results], *, seed: int) -> dict[str, Any]:
    """A whole comparison as JSON values."""
    return {"seed": seed, "instances": [_instance(results) for results in found]}


def _instance(results: Results) -> dict[str, Any]:
    return {
        "instance": results.case.name,
        "full_grid_gpu_s": results.case.grid_gpu_s,
        "clairvoyant": asdict(results.floor) if results.floor is not None else None,
        "policies": [_policy(policy_summary(results, policy)) for policy in results.runs],
    }


def _policy(s: Summary) -> dict[str, Any]:
    return {
        "policy": s.policy,
        "orders": s.orders,
        "mean_gpu_s": s.mean_gpu_s,
        "ci95_gpu_s": list(s.ci95_gpu_s),
        "class_gpu_s": dict(s.class_gpu_s),
        "saving_vs_random": s.saving_vs_random,
        "ci95_saving": list(s.ci95_saving) if s.ci95_saving is not None else None,
        "beats_random_share": s.beats_random_share,
        "ratio_to_clairvoyant": s.ratio_to_clairvoyant,
        "max_regret": s.max_regret,
        "regret_auc": s.regret_auc,
        "wrong_certificates": s.wrong_certificates,
        "undecided": s.undecided,
    }


def csv_text(found: Sequence[Results]) -> str:
    """One line a run, in the order of instances, policies and seeds, below a header.

    The last columns are each class's GPU-seconds, `gpu_s:CLASS`; a class that an instance does not have is empty in its lines.
    """
    classes = dict.fromkeys(f"gpu_s:{c.name}" for results in found for c in results.case.instance.classes)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*CSV_COLUMNS, *classes], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_csv_rows(found))
    return text.getvalue()


CSV_COLUMNS = (
    "instance", "policy", "seed", "spent_gpu_s", "verdict", "fault", "regret", "regret_auc", "cells",
)  # fmt: skip


def _csv_rows(found: Sequence[Results]) -> list[dict[str, object]]:
    return [
        {
            "instance": results.case.name,
            "policy": run.policy,
            "seed": run.seed,
            "spent_gpu_s": run.spent_gpu_s,
            "verdict": run.verdict,
            "fault": run.fault,
            "regret": run.regret,
            "regret_auc": run.auc(results.case.grid_gpu_s),
            "cells": len(run.cells),
            **{f"gpu_s:{name}": spent for name, spent in run.class_gpu_s.items()},
        }
        for results in found
        for runs in results.runs.values()
        for run in runs
    ]


def regret_at(run: Run, spent_gpu_s: Sequence[float]) -> list[float]:
    """The regret of a run's plan when it had spent each of these GPU-seconds."""
    at = np.searchsorted([spent for spent, _ in run.curve], spent_gpu_s, side="right") - 1
    return [run.curve[int(place)][1] for place in at]
