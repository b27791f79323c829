"""Random instances, and what a study of one must show: an independent solve agrees everywhere, and every break point is one."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from fleetsieve.allocation import Engine
from fleetsieve.answers.sensitivity import Axis, DemandAxis, EpsilonAxis, GpusAxis, SloAxis, Study
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.instance import (
    Cell,
    CellKey,
    CertificateSettings,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    Pool,
    Reading,
    Slo,
    Status,
    WorkloadClass,
)

LOADS = (4, 8, 16, 32, 64)
TAILS = {"ttft": 0.4, "e2e": 12.0, "tpot": 0.02}
"""The tail of TP1 at the lowest load, in seconds."""


def drawn(seed: int) -> tuple[Instance, tuple[Measurement, ...]]:
    """Two to four classes on 4 to 24 GPUs: measured cells as points or intervals, unmeasured and failed ones, floors."""
    draw = random.Random(seed)
    gpus = draw.choice([4, 8, 12, 16, 24])
    tps = [tp for tp in (1, 2, 4, 8) if tp <= gpus]
    known, loose = draw.choice([1.0, 1.0, 0.8, 0.5]), draw.random() < 0.5
    classes: list[WorkloadClass] = []
    cells: list[Cell] = []
    rows: list[Measurement] = []
    for i in range(draw.randint(2, 4)):
        name, peak = f"class{i}", draw.uniform(0.5, 4.0)
        demand = round(draw.uniform(0.3, 1.5) * peak * gpus / 4, 3)
        floor = round(draw.uniform(0.1, 0.5) * demand, 3) if draw.random() < 0.25 else None
        limits = {f"max_{m}_p99_s": at * draw.uniform(1.5, 5.0) for m, at in TAILS.items() if draw.random() < 0.6}
        success = 0.99 if draw.random() < 0.3 else None
        classes.append(
            WorkloadClass(name, demand, Slo(**limits, min_success=success), draw.choice([1.0, 2.0, 0.5]), floor)
        )
        for tp in draw.sample(tps, draw.randint(1, len(tps))):
            for load in LOADS[: draw.randint(2, 5)]:
                key = CellKey(name, tp, f"c{load}")
                cells.append(Cell(key, tp, LoadKind.CONCURRENCY, load))
                if draw.random() < known:
                    rows.append(_row(draw, key, peak * tp**0.9 * (load / 64) ** 0.6, load, loose=loose))
    settings = CertificateSettings(draw.choice([0.02, 0.05, 0.1]), draw.choice([None, None, 0.0, 0.03]))
    fleet = Fleet((Pool("default", gpus, draw.choice([None, 8])),), draw.choice([1.0, 1.0, 0.8]))
    return Instance(f"drawn-{seed}", fleet, tuple(classes), tuple(cells), certificate=settings), tuple(rows)


def small_seeds(count: int) -> list[int]:
    """The first seeds whose instances have few GPUs: quick to decide."""
    return [seed for seed in range(20 * count) if drawn(seed)[0].fleet.gpus <= 8][:count]


def _row(draw: random.Random, key: CellKey, capacity: float, load: int, *, loose: bool) -> Measurement:
    if draw.random() < 0.03:
        return Measurement(key, status=draw.choice([Status.CRASHED, Status.OOM, Status.FAILED_START]))

    def reading(value: float) -> Reading:
        value = float(f"{value:.4g}")
        if not loose or draw.random() < 0.4:
            return Reading(value)
        return Reading(lo=value * draw.uniform(0.9, 1.0), hi=value * draw.uniform(1.0, 1.1))

    tails = {
        m: reading(at * (load / 4) ** 0.4 / key.tp**0.4 * math.exp(draw.gauss(0.0, 0.15))) for m, at in TAILS.items()
    }
    return Measurement(
        key,
        throughput_rps=reading(capacity * math.exp(draw.gauss(0.0, 0.05))),
        success_rate=reading(draw.choice([1.0, 0.995, 0.97])) if not loose else Reading(draw.choice([1.0, 0.97])),
        ttft_p99_s=tails["ttft"],
        e2e_p99_s=tails["e2e"],
        tpot_p99_s=tails["tpot"],
    )


def solved(
    instance: Instance, rows: Sequence[Measurement], axis: Axis, value: float, engine: Engine | None = None
) -> tuple[object, ...]:
    """The decision at one value by a plain solve: the instance as it would stand in its files, everything derived anew."""
    if isinstance(axis, SloAxis):
        field = axis.metric if axis.metric == "min_success" else f"max_{axis.metric}"
        classes = tuple(
            replace(c, slo=replace(c.slo, **{field: value})) if c.name == axis.class_name else c
            for c in instance.classes
        )
        varied = replace(instance, classes=classes)
    elif isinstance(axis, DemandAxis):
        classes = tuple(
            replace(c, demand_rps=c.demand_rps * value) if axis.class_name in (None, c.name) else c
            for c in instance.classes
        )
        varied = replace(instance, classes=classes)
    elif isinstance(axis, GpusAxis):
        varied = replace(
            instance, fleet=replace(instance.fleet, pools=(replace(instance.fleet.pools[0], gpus=int(value)),))
        )
    else:
        assert isinstance(axis, EpsilonAxis)
        varied = replace(instance, certificate=replace(instance.certificate, epsilon=value))
    c = certify(Envelope.of(varied, rows), engine or Frontier())
    return str(c.verdict), dict(c.conservative.replica_counts), c.unservable


def told(study: Study, value: float) -> tuple[object, ...]:
    """The same of the study's stretch that holds the value."""
    stretch = study.stretch_at(value)
    assert stretch is not None
    assert stretch.decision.plan is not None
    return stretch.decision.verdict, dict(stretch.decision.plan.replica_counts), stretch.decision.envelope.unservable


def axes_of(instance: Instance, draw: random.Random) -> dict[str, Axis]:
    """One axis of each kind over an instance; ranges wide enough that most of what can change does."""
    c = draw.choice(instance.classes)
    metric, at = draw.choice(sorted(TAILS.items()))
    gpus = instance.fleet.gpus
    return {
        "slo": SloAxis(c.name, f"{metric}_p99_s", at * 0.3, at * 6.0),
        "success": SloAxis(c.name, "min_success", 0.9, 1.0),
        "demand": DemandAxis(c.name, 0.3, 3.0),
        "scale": DemandAxis(None, 0.3, 3.0),
        "epsilon": EpsilonAxis(0.001, 0.5),
        "gpus": GpusAxis(max(1, gpus // 2), gpus + 8),
    }


def faults(
    instance: Instance,
    rows: Sequence[Measurement],
    study: Study,
    draw: random.Random,
    count: int,
    engine: Engine | None = None,
) -> tuple[list[str], int]:
    """Where the study is wrong, and how many values were compared: `count` random ones, and both sides of each break point."""
    axis, wrong, near = study.axis, [], 0.0 if isinstance(study.axis, SloAxis) else 1e-6
    whole = isinstance(axis, GpusAxis)
    values = [
        draw.randint(int(axis.lo), int(axis.hi)) if whole else draw.uniform(axis.lo, axis.hi) for _ in range(count)
    ]
    # Closer to a break point than this the two sides tie for the engines.
    values = [v for v in values if whole or not any(abs(v - b) <= near * b for b in study.breaks)]
    both = [(value, told(study, value), solved(instance, rows, axis, value, engine)) for value in values]
    wrong += [f"{axis.name} at {value!r}: {said}, solved {found}" for value, said, found in both if said != found]
    for at in study.breaks:
        if whole:
            left, right = at - 1, at
        elif isinstance(axis, SloAxis):
            left, right = (math.nextafter(at, 0.0), at) if axis.rises else (at, math.nextafter(at, 1.0))
        else:
            left, right = max(axis.lo, at * (1.0 - near)), min(axis.hi, at * (1.0 + near))
        sides = [solved(instance, rows, axis, value, engine) for value in (left, right)]
        if sides[0] == sides[1]:
            wrong.append(f"{axis.name} at {at!r}: both sides are {sides[0]}")
    return wrong, len(values) + 2 * len(study.breaks)
