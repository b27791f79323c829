"""Tables with measurements that are not what they say: random fleets whose truth is known, and how often a certificate is wrong.

    python benchmarks/spoiled_tables.py [--tables 2000] [--unseen] [--json]

A quarter of the rows is spoiled: a loop that was not held, many failed requests, a look without a success, a client that was too
slow, requests without a record; of some tables no server ever started. A certificate is wrong when it is certified-infeasible and
some plan meets every floor, when it commits a cell that misses its SLO, or when another plan is better by more than ε. Rule set 1
is that of version 0.1.0.

A loop that was half held, of which a row has the p99 alone, may be consistent with its load: no rule tells it from an honest row.
Such rows are left out, and counted apart with --unseen.

Closed loop: N requests in flight take W(N) = W0 (1 + N / K) each, so c(N) = N / W(N). Open loop: at a rate below μ a replica keeps
up, above it does not.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool

from fleetsieve.allocation import Allocation, evaluate
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.statistics.counting import HELD_LOOP
from fleetsieve.certificate import Certificate, Verdict, certify, under
from fleetsieve.engines.frontier import Frontier
from fleetsieve.instance import (
    Cell,
    CellKey,
    CertificateSettings,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    MeasureSettings,
    Pool,
    Reading,
    Slo,
    Status,
    WorkloadClass,
)
from fleetsieve.records import RequestRecords
from fleetsieve.rule_sets import RULE_SETS

WINDOW_S = 300.0
HONEST, FAILED, NO_SERVER = "honest", "failed", "no server started"
NEVER_STARTED = 0.05
"""The share of tables of which no server ever started, by a fault of the configuration."""

SPOILED = ("loop not held", "many failed", "none succeeded", "client too slow", "without a record")


@dataclass(frozen=True)
class Spoiled:
    """An instance, its rows, what each row is, and the truth: the capacity of every cell and whether it meets its SLO."""

    instance: Instance
    rows: tuple[Measurement, ...]
    kinds: Mapping[CellKey, str]
    capacity_rps: Mapping[CellKey, float]
    usable: Mapping[CellKey, bool]

    def certificate(self, rule_set: int) -> Certificate:
        """What the rows certify under a rule set."""
        return certify(Envelope.of(under(self.instance, rule_set), self.rows), Frontier())

    def wrong(self, found: Certificate) -> str:
        """What is wrong with a certificate by the truth; "" where nothing is."""
        problem = self._true_problem()
        if found.verdict is Verdict.INFEASIBLE:
            best = Frontier().optimise(problem, ("shortfall",))
            return "" if best.values["shortfall"] > 1e-9 else "infeasible, and a plan meets every floor"
        for key in found.conservative.replica_counts:
            if isinstance(key, CellKey) and not self.usable[key]:
                return f"{key} is committed, and it misses its SLO"
        if found.verdict is Verdict.FEASIBLE:
            return self._regret(found, problem)
        return ""

    def _regret(self, found: Certificate, problem: FleetProblem) -> str:
        best = Frontier().optimise(problem, eta=0.0).allocation
        assert best is not None
        got: Allocation = evaluate(problem, found.conservative.replica_counts)
        worse = (
            best.min_fulfilment - got.min_fulfilment,
            (best.goodput_rps - got.goodput_rps) / problem.total_demand_rps,
        )
        return f"the plan is worse by {max(worse):.3g}" if max(worse) > found.epsilon + 1e-6 else ""

    def _true_problem(self) -> FleetProblem:
        servable = {key.class_name for key, meets in self.usable.items() if meets}
        demands = [
            ClassDemand(c.name, c.demand_rps, c.priority, c.floor_fulfilment, c.name in servable)
            for c in self.instance.classes
        ]
        configurations = [
            Configuration(key, key.class_name, cell.gpus, self.capacity_rps[key], key.pool)
            for key, cell in sorted(self.instance.cell_by_key.items())
            if self.usable[key]
        ]
        pools = [GpuPool(p.name, p.gpus) for p in self.instance.fleet.pools]
        return FleetProblem(tuple(demands), tuple(configurations), tuple(pools))


@dataclass(frozen=True)
class _Arm:
    """How a replica of one class at one degree behaves."""

    closed: bool
    base_s: float
    room: float
    slowest: float

    def capacity_rps(self, load: float) -> float:
        return load / self.mean_s(load) if self.closed else min(load, self.room)

    def mean_s(self, load: float) -> float:
        if self.closed:
            return self.base_s * (1.0 + load / self.room)
        return self.base_s / (1.0 - load / self.room) if load < 0.95 * self.room else WINDOW_S

    def p99_s(self, load: float) -> float:
        return self.slowest * self.mean_s(load)


def spoiled_table(seed: int, *, unseen: bool = False) -> Spoiled:
    """The table with this seed; `unseen`: also loops that were not held of which no figure tells."""
    rng = random.Random(seed)
    gpus = rng.choice([4, 8, 16])
    classes, cells, rows = [], [], []
    kinds: dict[CellKey, str] = {}
    capacity: dict[CellKey, float] = {}
    usable: dict[CellKey, bool] = {}
    for i in range(rng.randint(1, 2)):
        name, closed, least = f"class{i}", rng.random() < 0.6, rng.choice([None, None, 0.9])
        limit_s = rng.uniform(4.0, 20.0)
        best = 0.0
        for tp in rng.sample([1, 2, 4], rng.randint(1, 3)):
            room = rng.uniform(8, 60) if closed else rng.uniform(2, 12) * tp**0.8
            arm = _Arm(closed, rng.uniform(0.3, 2.0), room, rng.uniform(1.2, 3.0))
            loads = sorted(rng.sample([4, 8, 16, 32, 64] if closed else [1, 2, 3, 5, 8], rng.randint(2, 4)))
            for load in loads:
                kind = LoadKind.CONCURRENCY if closed else LoadKind.RATE
                cell = Cell(CellKey(name, tp, f"{'c' if closed else 'r'}{load}"), tp, kind, float(load))
                cells.append(cell)
                capacity[cell.key], usable[cell.key] = arm.capacity_rps(load), arm.p99_s(load) <= limit_s
                if rng.random() < 0.7:
                    kinds[cell.key] = _kind(rng, closed)
                    row, true_rps, meets = _row(rng, cell, arm, kinds[cell.key], least, unseen)
                    rows.append(row)
                    capacity[cell.key], usable[cell.key] = true_rps, usable[cell.key] and meets
                if usable[cell.key]:
                    best = max(best, capacity[cell.key] * (gpus // tp))
        demand = max(1.0, rng.uniform(0.3, 1.3) * best)
        floor = rng.uniform(0.3, 1.0) * demand if rng.random() < 0.8 else None
        classes.append(WorkloadClass(name, demand, Slo(max_e2e_p99_s=limit_s, min_success=least), floor_rps=floor))
    rng.shuffle(rows)
    if rng.random() < NEVER_STARTED:
        rows = [Measurement(row.key, status=Status.FAILED_START) for row in rows]
        kinds = dict.fromkeys(kinds, NO_SERVER)
    instance = Instance(
        f"spoiled-{seed}", Fleet((Pool("default", gpus),)), tuple(classes), tuple(cells),
        certificate=CertificateSettings(family="cell"), measure=MeasureSettings(window_s=WINDOW_S),
    )  # fmt: skip
    return Spoiled(instance, tuple(rows), kinds, capacity, usable)


def _kind(rng: random.Random, closed: bool) -> str:
    if rng.random() < 0.6:
        return HONEST
    choices = [kind for kind in SPOILED if kind != ("client too slow" if closed else "loop not held")]
    return rng.choice([*choices, FAILED])


def _row(
    rng: random.Random, cell: Cell, arm: _Arm, kind: str, least: float | None, unseen: bool
) -> tuple[Measurement, float, bool]:
    """A row, the cell's true capacity in requests/s, and whether its requests succeed as often as its class asks."""
    load = cell.offered or 1.0
    true = arm.capacity_rps(load)
    if kind == FAILED:
        status = rng.choice([Status.TIMEOUT, Status.CRASHED, Status.REJECTED, Status.OOM])
        return Measurement(cell.key, status=status), true, True
    if kind == "none succeeded":
        row = _points(cell, 0.0, arm.p99_s(load), 0.0)
        return row, true, True
    if kind == "many failed":
        success = rng.uniform(0.05, 0.88)
        served = true * success * rng.uniform(0.1, 1.0)
        return _points(cell, served, arm.p99_s(load), success), served, least is None
    if kind == "loop not held":
        held = load * rng.uniform(0.02, 0.5)
        row = _points(cell, arm.capacity_rps(held), arm.p99_s(held))
        if rng.random() < 0.5:
            row = replace(row, e2e_p50_s=0.9 * arm.mean_s(held))
        told_s = arm.p99_s(held) if row.e2e_p50_s is None else (row.e2e_p50_s + arm.p99_s(held)) / 2.0
        seen = arm.capacity_rps(held) * told_s < HELD_LOOP * load
        return (row if seen or unseen else _recorded(cell, arm, held, load)), true, True
    if kind == "client too slow":
        sent = load * rng.uniform(0.1, 0.7)
        if rng.random() < 0.5 and arm.p99_s(sent) < 0.4 * WINDOW_S * (1.0 - sent / load):
            return _points(cell, arm.capacity_rps(sent), arm.p99_s(sent)), true, True
        return _recorded(cell, arm, sent, load), true, True
    if kind == "without a record":
        row = _recorded(cell, arm, load, load)
        assert row.records is not None
        share = rng.uniform(0.2, 0.6)
        return _losing(row, share, rng.randrange(10**6)), true * (1.0 - share), least is None
    if rng.random() < 0.5:
        return _recorded(cell, arm, load, load), true, True
    return _points(cell, true, arm.p99_s(load)), true, True


def _points(cell: Cell, served_rps: float, p99_s: float, success: float = 1.0) -> Measurement:
    return Measurement(
        cell.key,
        throughput_rps=Reading(served_rps),
        success_rate=Reading(success),
        e2e_p99_s=Reading(p99_s),
        window_s=WINDOW_S,
    )


def _recorded(cell: Cell, arm: _Arm, load: float, stated: float) -> Measurement:
    """The requests of a look at `load` on a cell of `stated`: their latencies are the quantiles of one law, in a fixed shuffle."""
    rate = arm.capacity_rps(load) if arm.closed else load
    lead_s = arm.p99_s(load) if arm.closed else 0.0
    count = max(2, math.ceil(rate * (WINDOW_S + lead_s)))
    sent = np.linspace(-lead_s, WINDOW_S, count, endpoint=False)
    mean, p99 = arm.mean_s(load), arm.p99_s(load)
    quantiles = (np.arange(count) * 0.6180339887 + 0.5) % 1.0
    slow = quantiles > 0.98
    e2e = np.where(slow, p99 * (0.5 + 0.5 * (quantiles - 0.98) / 0.01), (mean - 0.02 * p99) / 0.98)
    due = None if arm.closed else sent * (load / stated)
    nothing = np.full(count, np.nan)
    records = RequestRecords(sent, nothing, np.maximum(e2e, 1e-3), nothing, np.ones(count, bool), WINDOW_S, due)
    return Measurement(cell.key, requests=records.sent, window_s=WINDOW_S, records=records)


def _losing(row: Measurement, share: float, seed: int) -> Measurement:
    """The row without the records of this share of its requests: they failed, and left nothing."""
    records = row.records
    assert records is not None
    kept = np.random.default_rng(seed).random(len(records.e2e_s)) >= share
    columns = [records.sent_at_s, records.ttft_s, records.e2e_s, records.tpot_s, records.ok]
    due = None if records.scheduled_at_s is None else records.scheduled_at_s[kept]
    left = RequestRecords(*(column[kept] for column in columns), records.window_s, due)
    return Measurement(row.key, requests=row.requests, window_s=row.window_s, records=left)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    counts: dict[int, Counter[str]] = {number: Counter() for number in RULE_SETS}
    for seed in range(asked.tables):
        table = spoiled_table(seed, unseen=asked.unseen)
        for number, count in counts.items():
            found = table.certificate(number)
            count[str(found.verdict)] += 1
            count["wrong"] += bool(table.wrong(found))
    if asked.json:
        print(json.dumps({"tables": asked.tables, "rule_sets": counts}))
        return
    for number, count in counts.items():
        told = ", ".join(
            f"{name} {count[name]}" for name in ("certified-feasible", "undecided", "certified-infeasible", "wrong")
        )
        print(f"rule set {number}: {told} of {asked.tables}")


if __name__ == "__main__":
    main()
