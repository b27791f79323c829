"""Policies compared on tables whose truth is known: what each spends until the certificate, and what its plan is worth on the way.

The protocol is the paper's: the same start (nothing measured), candidates, sets, allocator and stop for every policy. A policy with
a seed runs once per order; another one would make the same run each time, so it runs once. Every task follows from its instance,
policy and seed alone: results are the same with any number of processes, and finished ones are never made again (`Store`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from fleetsieve.brief import brief, counted, summary
from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.extensions import source_digest
from fleetsieve.instance import CellKey, Instance, Measurement
from fleetsieve.loop.cost import grid_cost_gpu_s, row_cost_gpu_s
from fleetsieve.loop.policies import policy_named
from fleetsieve.loop.sieve import Sieve
from fleetsieve.loop.steps import OneByOne, steps
from fleetsieve.probes import Replay
from fleetsieve.studies.clairvoyant import clairvoyant
from fleetsieve.studies.judging import Truth, engine_of
from fleetsieve.studies.processes import shared, workers

CLAIRVOYANT = "clairvoyant"
"""The task that is no policy: the floor of an instance."""


@dataclass(frozen=True)
class Case:
    """One instance with its whole table; `digest` distinguishes it from others in stored results."""

    name: str
    instance: Instance
    table: tuple[Measurement, ...]

    def __repr__(self) -> str:
        return brief(self)

    def __getstate__(self) -> dict[str, object]:
        """What pickling keeps: the fields; a process derives the rest for itself."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what the runs depend on."""
        table = ", ".join(map(_spelled, self.table)) + ("," if len(self.table) == 1 else "")
        return hashlib.sha256(f"({_spelled(self.instance)}, ({table}))".encode()).hexdigest()

    @cached_property
    def truth(self) -> Truth:
        """What plans are held against: each cell at its first measurement."""
        return Truth.of(self.instance, self.first_looks)

    @cached_property
    def first_looks(self) -> tuple[Measurement, ...]:
        """The first measurement of each cell of the table."""
        probe = Replay(self.table)
        return tuple(probe.measure(key, 0) for key in sorted(probe.looks))

    @cached_property
    def grid_gpu_s(self) -> float:
        """GPU-seconds of the full grid."""
        known = {row.key for row in self.table}
        return grid_cost_gpu_s(self.instance, [c for c in self.instance.cells if c.key in known and not c.excluded])


def _spelled(value: Instance | Measurement) -> str:
    """All fields of a value as text: what it prints of itself is a summary, in which different ones may look alike."""
    shown = ", ".join(f"{f.name}={getattr(value, f.name)!r}" for f in fields(value) if f.repr)
    return f"{type(value).__name__}({shown})"


@dataclass(frozen=True)
class Run:
    """One run of a policy: GPU-seconds in all and per class, its verdict, how that is wrong ("" if it is not), its plan's regret.

    `curve` holds (GPU-seconds spent, largest stage regret of the committed plan) at the start and after each step; `cells` what was
    measured, in order.
    """

    policy: str
    seed: int
    spent_gpu_s: float
    class_gpu_s: Mapping[str, float]
    verdict: str
    fault: str
    regret: float
    curve: tuple[tuple[float, float], ...]
    cells: tuple[CellKey, ...]

    def __repr__(self) -> str:
        return brief(self)

    def auc(self, grid_gpu_s: float) -> float:
        """The mean regret over the GPU-seconds of the full grid: the area under the curve, divided by its width."""
        ends = [spent for spent, _ in self.curve[1:]] + [max(grid_gpu_s, self.spent_gpu_s)]
        area = sum(regret * (end - spent) for (spent, regret), end in zip(self.curve, ends, strict=True))
        return area / ends[-1] if ends[-1] > 0.0 else 0.0


@dataclass(frozen=True)
class FloorFound:
    """The clairvoyant floor of an instance, in GPU-seconds; no upper bound (None) where no set of cells is known to certify."""

    lower_gpu_s: float
    upper_gpu_s: float | None
    exact: bool
    reason: str


@dataclass(frozen=True)
class Task:
    """A chunk of work: one policy on one case with these seeds; `policy` CLAIRVOYANT is the floor."""

    case: int
    policy: str
    seeds: tuple[int, ...]


SEEDS_PER_TASK = 10
FLOOR_LIMIT_S = 60.0


def replayed(case: Case, policy: str, seed: int) -> Run:
    """One replay from nothing measured to its end."""
    instance, probe = case.instance, Replay(case.table)
    engine = engine_of(case.truth.envelope)
    sieve = Sieve.start(instance, policy=policy_named(policy), engine=engine, seed=seed, looks=probe.looks)
    curve = [(0.0, _regret(case, sieve))]
    by_class = dict.fromkeys((c.name for c in instance.classes), 0.0)
    for step in steps(sieve, OneByOne(probe.measure)):
        by_class[step.row.key.class_name] += row_cost_gpu_s(instance, step.row, sieve.running)
        sieve = step.sieve
        curve.append((sieve.spent_gpu_s, _regret(case, sieve)))
    judged = case.truth.judge(sieve.certificate)
    cells = tuple(row.key for row in sieve.measurements)
    verdict = str(sieve.certificate.verdict)
    return Run(policy, seed, sieve.spent_gpu_s, by_class, verdict, judged.fault, curve[-1][1], tuple(curve), cells)


def _regret(case: Case, sieve: Sieve) -> float:
    """The largest stage regret of the committed plan; 1 where it commits what truly violates its SLO."""
    regret = case.truth.judge(sieve.certificate).regret
    return 1.0 if regret is None else regret


def tasks(cases: Sequence[Case], policies: Sequence[str], orders: int, seed: int, *, floor: bool) -> list[Task]:
    """All work of a comparison, in a fixed order.

    Raises:
        UsageError: when there is nothing to compare, a policy is not known, or a number is out of range.
    """
    if not cases or not policies or orders < 1 or seed < 0:
        raise UsageError(
            f"{len(cases)} instances, {len(policies)} policies, {orders} orders, seed {seed}: nothing to compare"
        )
    work = []
    for place, _ in enumerate(cases):
        for policy in policies:
            seeds = tuple(range(seed, seed + orders)) if policy_named(policy).seeded else (seed,)
            work += [Task(place, policy, seeds[i : i + SEEDS_PER_TASK]) for i in range(0, len(seeds), SEEDS_PER_TASK)]
        if floor:
            work.append(Task(place, CLAIRVOYANT, ()))
    return work


def _done(case: Case, task: Task, time_limit_s: float) -> list[dict[str, Any]]:
    """The results of one task, as JSON values."""
    if task.policy == CLAIRVOYANT:
        engine = engine_of(case.truth.envelope)
        found = clairvoyant(case.instance, case.table, engine=engine, time_limit_s=time_limit_s)
        upper = found.upper_gpu_s if math.isfinite(found.upper_gpu_s) else None  # JSON has no infinity
        return [asdict(FloorFound(found.lower_gpu_s, upper, found.exact, found.reason))]
    return [_kept(replayed(case, task.policy, seed)) for seed in task.seeds]


class Store:
    """Results by task; with a file, each finished task is a line of it, and a later comparison takes what is there."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what `path` holds already; a torn last line (of a kill) is left out.

        Raises:
            FleetSieveError: when the file cannot be read, or a line of it is no result.
        """
        self._path = path
        self._known: dict[str, list[dict[str, Any]]] = {}
        if path is None or not path.exists():
            return
        try:
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            for line in whole.splitlines():
                entry = json.loads(line)
                self._known[entry["task"]] = entry["results"]
            if whole != text:
                path.write_text(whole, encoding="utf-8")
        except OSError as error:
            raise FleetSieveError(f"cannot read {path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise FleetSieveError(
                f"{path} holds no results of a comparison: {error}", "choose another --out"
            ) from error

    def get(self, name: str) -> list[dict[str, Any]] | None:
        """The results of a task; None when it was not done."""
        return self._known.get(name)

    def has(self, case: Case, policies: Sequence[str], *, orders: int, floor: bool, seed: int = 0) -> bool:
        """Whether every task of a comparison on one case was done (the floor with the usual time limit)."""
        work = tasks([case], policies, orders, seed, floor=floor)
        return all(_name(case, task, FLOOR_LIMIT_S) in self._known for task in work)

    def put(self, name: str, results: list[dict[str, Any]]) -> None:
        """Keep the results of a task."""
        self._known[name] = results
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(
                        json.dumps({"task": name, "results": results}, ensure_ascii=False, allow_nan=False) + "\n"
                    )
            except OSError as error:
                raise FleetSieveError(f"cannot write {self._path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Results:
    """What was found on one case: the runs of each policy by seed, and the floor (None when it was not asked for)."""

    case: Case
    runs: Mapping[str, tuple[Run, ...]]
    floor: FloorFound | None

    def __repr__(self) -> str:
        means = [
            f"{name}: {fmean(run.spent_gpu_s for run in runs):,.0f} GPU-seconds on average of {counted(len(runs), 'run')}"
            for name, runs in self.runs.items()
        ]
        return summary(f"Results on {self.case.name}, of a grid of {self.case.grid_gpu_s:,.0f} GPU-seconds", means)


def compare(
    cases: Sequence[Case],
    policies: Sequence[str],
    *,
    orders: int = 200,
    seed: int = 0,
    jobs: int = 1,
    floor: bool = True,
    floor_limit_s: float = FLOOR_LIMIT_S,
    store: Store | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Results]:
    """Run every policy on every case and give the results case by case.

    `policies` are names, of bundled ones or from outside (`module:Class`). One that is seeded runs `orders` times, with the seeds
    from `seed` on; any other one runs once. `floor`: also the cheapest set of cells that certifies, sought for at most
    `floor_limit_s` seconds. `jobs` is the number of processes, `store` keeps finished work, `progress(done, total)` counts tasks.

    Raises:
        UsageError: see `tasks`.
        FleetSieveError: when a process died, or the store cannot be written.
    """
    store = store if store is not None else Store()
    work = tasks(cases, policies, orders, seed, floor=floor)
    names = [_name(cases[task.case], task, floor_limit_s) for task in work]
    waiting = [(task, name) for task, name in zip(work, names, strict=True) if store.get(name) is None]
    done = len(work) - len(waiting)
    if progress is not None:
        progress(done, len(work))
    for name, results in _made(cases, waiting, jobs, floor_limit_s):
        store.put(name, results)
        done += 1
        if progress is not None:
            progress(done, len(work))
    found: list[Results] = []
    for place, case in enumerate(cases):
        runs: dict[str, tuple[Run, ...]] = {}
        bound = None
        for task, name in zip(work, names, strict=True):
            if task.case == place:
                kept = store.get(name) or []
                if task.policy == CLAIRVOYANT:
                    bound = FloorFound(**kept[0])
                else:
                    runs[task.policy] = (*runs.get(task.policy, ()), *map(_run_of, kept))
        found.append(Results(case, runs, bound))
    return found


def _name(case: Case, task: Task, floor_limit_s: float) -> str:
    """By which a store knows a task: what its results depend on, the source of a policy from outside among it."""
    if task.policy == CLAIRVOYANT:
        return f"{case.digest} {task.policy} {task.seeds} {floor_limit_s:g} s"
    source = source_digest(policy_named(task.policy))
    return f"{case.digest} {task.policy} {task.seeds}" + (f" {source}" if source else "")


def _kept(run: Run) -> dict[str, Any]:
    """What is kept of a run; `_run_of` reads it."""
    return {**asdict(run), "cells": [key.parts for key in run.cells]}


def _run_of(kept: Mapping[str, Any]) -> Run:
    curve = tuple((spent, regret) for spent, regret in kept["curve"])
    return Run(**{**kept, "curve": curve, "cells": tuple(CellKey(*key) for key in kept["cells"])})


def _made(
    cases: Sequence[Case], waiting: Iterable[tuple[Task, str]], jobs: int, limit_s: float
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if jobs == 1:
        for task, name in waiting:
            yield name, _done(cases[task.case], task, limit_s)
        return
    with workers(jobs, tuple(cases), "try fewer --jobs; finished work in --out is taken by --resume") as pool:
        futures = {pool.submit(_work, task, limit_s): name for task, name in waiting}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _work(task: Task, limit_s: float) -> list[dict[str, Any]]:
    return _done(shared()[task.case], task, limit_s)
