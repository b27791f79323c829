"""The noise study: how often certificates are wrong when measurements scatter, and what the honesty of intervals costs.

A table is the truth. A trial replays it with drawn measurements and holds the certificate against the truth. Two treatments of
the very same draws: "intervals" knows the spread (or the requests), turns looks into intervals and may look again; "points" takes
the one measurement of a cell as exact. A trial follows from (seed, its number) alone, so the same call gives the same counts with
any number of processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from statistics import fmean

from fleetsieve.allocation import Engine
from fleetsieve.bounds.statistics.points import point_row
from fleetsieve.certificate import Verdict
from fleetsieve.errors import UsageError
from fleetsieve.instance import NOISE_KEYS, CellKey, Instance, Measurement, Status
from fleetsieve.loop.policies import policy_named
from fleetsieve.loop.sieve import Sieve
from fleetsieve.loop.steps import OneByOne, steps
from fleetsieve.probes import Probe, Replay
from fleetsieve.probes.noisy import Noisy, long_run
from fleetsieve.probes.resampled import Resampled
from fleetsieve.studies.judging import Truth, engine_of
from fleetsieve.studies.processes import shared, workers

INTERVALS, POINTS = "intervals", "points"
TREATMENTS = (INTERVALS, POINTS)
ORDERS = 20
"""Orders over which the cost of the exact table is averaged where the policy has a seed."""


@dataclass(frozen=True)
class TrialOutcome:
    """What one trial gave: its verdict, how it is wrong ("" where it is not), and what it took."""

    verdict: Verdict
    fault: str
    regret: float | None
    spent_gpu_s: float
    looks: int
    cells: int


@dataclass(frozen=True)
class Setting:
    """What every trial of one treatment shares.

    `table` is what measurements are drawn from, one row a cell: long-run values with `spread`, the σ per quantity; or rows with
    records, which are resampled, where `spread` is None.
    """

    instance: Instance
    table: tuple[Measurement, ...]
    spread: Mapping[str, float] | None
    treatment: str = INTERVALS
    policy: str = "decision-gap"
    seed: int = 0
    truth_table: tuple[Measurement, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.treatment not in TREATMENTS:
            raise UsageError(f"unknown treatment {self.treatment!r}", f"known: {', '.join(TREATMENTS)}")
        exact = tuple(point_row(row, row.records) if row.records is not None else row for row in self.table)
        object.__setattr__(self, "truth_table", exact)

    def __getstate__(self) -> dict[str, object]:
        """What pickling keeps: the fields; a process derives the rest for itself."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def exact(self) -> Instance:
        """The instance without any noise: that of the truth, and what the points treatment believes."""
        return replace(self.instance, noise={})

    @cached_property
    def believed(self) -> Instance:
        """The instance as the sieve of a trial sees it."""
        if self.treatment == POINTS or self.spread is None:
            return self.exact
        return replace(self.instance, noise={NOISE_KEYS[quantity]: sigma for quantity, sigma in self.spread.items()})

    @cached_property
    def truth(self) -> Truth:
        """What certificates are held against."""
        return Truth.of(self.exact, self.truth_table)

    @cached_property
    def engine(self) -> Engine:
        """The frontier where it accepts the instance, else the MILP."""
        return engine_of(self.truth.envelope)

    def probe(self, trial: int) -> Probe:
        """What measures in one trial."""
        looks = self.instance.measure.max_looks if self.treatment == INTERVALS else 1
        if self.spread is not None:
            return Noisy(self.table, self.spread, seed=self.seed, trial=trial, looks=looks)
        kept = self.treatment == INTERVALS
        return Resampled(self.table, seed=self.seed, trial=trial, looks=looks, with_records=kept)

    def run(self, trial: int) -> TrialOutcome:
        """One trial, from nothing measured to its certificate."""
        return self._outcome(self._finished(self.believed, self.probe(trial), trial))

    def exact_cost_gpu_s(self, trials: int) -> float:
        """GPU-seconds of the replay of the truth itself; the mean over the first orders where the policy has a seed."""
        orders = min(trials, ORDERS) if policy_named(self.policy).seeded else 1
        probe = Replay(self.truth_table)
        return fmean(self._finished(self.exact, probe, order).spent_gpu_s for order in range(orders))

    def _finished(self, instance: Instance, probe: Probe, order: int) -> Sieve:
        sieve = Sieve.start(
            instance, policy=policy_named(self.policy), engine=self.engine, seed=self.seed + order, looks=probe.looks
        )
        for step in steps(sieve, OneByOne(probe.measure)):
            sieve = step.sieve
        return sieve

    def _outcome(self, sieve: Sieve) -> TrialOutcome:
        judged = self.truth.judge(sieve.certificate)
        cells = len({row.key for row in sieve.measurements})
        looks = len(sieve.measurements)
        return TrialOutcome(sieve.certificate.verdict, judged.fault, judged.regret, sieve.spent_gpu_s, looks, cells)


def settings(
    instance: Instance,
    table: Iterable[Measurement],
    spread: Mapping[str, float] | None,
    *,
    treatments: Sequence[str] = TREATMENTS,
    policy: str = "decision-gap",
    seed: int = 0,
) -> tuple[Setting, ...]:
    """One setting a treatment, on the long-run values of `table`; or, where `spread` is None, on the records of its rows.

    Raises:
        UsageError: when nothing was measured, a cell has no records to draw from, the seed is negative, or a name is unknown.
    """
    if seed < 0:
        raise UsageError(f"a seed of {seed} is below 0")
    policy_named(policy)
    rows = long_run(table) if spread is not None else with_records(table)
    if not rows:
        raise UsageError(f"{instance.name} has no measured table: nothing is true of it", "measure it, or simulate it")
    return tuple(Setting(instance, rows, spread, treatment, policy, seed) for treatment in treatments)


def with_records(table: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One row a cell to draw requests from: its first row with records, else its last one.

    Raises:
        UsageError: when a cell succeeded, and no row of it has records.
    """
    chosen: dict[CellKey, Measurement] = {}
    for row in table:
        if row.key not in chosen or chosen[row.key].records is None:
            chosen[row.key] = row
    bare = [row.key for row in chosen.values() if row.status is Status.OK and row.records is None]
    if bare:
        raise UsageError(
            f"{len(bare)} of {len(chosen)} measured cells have no per-request records, {bare[0]} first",
            "records stand in DIR/records; without them, give the noise as --noise reference or METRIC=SIGMA,...",
        )
    return tuple(chosen.values())


def trials(
    chosen: Sequence[Setting],
    count: int,
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[tuple[TrialOutcome, ...], ...]:
    """`count` trials of every setting, in order of their numbers, over `jobs` processes.

    `progress(done, total)` is called after each trial.

    Raises:
        UsageError: when `count` or `jobs` is below 1.
    """
    if count < 1 or jobs < 1:
        raise UsageError(f"{count} trials over {jobs} processes: both must be 1 or more")
    tasks = [(place, trial) for trial in range(count) for place in range(len(chosen))]
    outcomes: list[list[TrialOutcome]] = [[] for _ in chosen]
    for done, ((place, _), outcome) in enumerate(zip(tasks, _outcomes(chosen, tasks, jobs), strict=True), start=1):
        outcomes[place].append(outcome)
        if progress is not None:
            progress(done, len(tasks))
    return tuple(tuple(of_setting) for of_setting in outcomes)


def _outcomes(chosen: Sequence[Setting], tasks: Sequence[tuple[int, int]], jobs: int) -> Iterator[TrialOutcome]:
    if jobs == 1:
        yield from (chosen[place].run(trial) for place, trial in tasks)
        return
    chunk = max(1, min(5, len(tasks) // (4 * jobs)))
    with workers(jobs, tuple(chosen)) as pool:
        yield from pool.map(_run, tasks, chunksize=chunk)


def _run(task: tuple[int, int]) -> TrialOutcome:
    place, trial = task
    setting: Setting = shared()[place]
    return setting.run(trial)


def spread_of(text: str, reference: Mapping[str, float]) -> dict[str, float]:
    """σ per quantity as written: `reference`, a multiple of it such as `2x`, or `ttft=0.12,throughput=0.01`.

    `reference` maps the keys of `[noise]` to σ. A quantity that is not named has no spread.

    Raises:
        UsageError: when the text is none of these; what would be right is named.
    """
    right = f"reference, a multiple of it (2x), records, or QUANTITY=SIGMA,... with {', '.join(NOISE_KEYS)}"
    factor = 1.0 if text == "reference" else _number(text[:-1]) if text.endswith("x") else None
    if factor is not None:
        return {quantity: reference[key] * factor for quantity, key in NOISE_KEYS.items()}
    spread: dict[str, float] = {}
    for part in text.split(","):
        quantity, _, number = part.partition("=")
        sigma = _number(number)
        if quantity not in NOISE_KEYS or sigma is None or quantity in spread:
            raise UsageError(f"--noise {text!r}: {part!r} is no spread", right)
        spread[quantity] = sigma
    return spread


def _number(text: str) -> float | None:
    """A finite number >= 0, else None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0.0 else None
