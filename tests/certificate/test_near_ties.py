"""A floor and what a fleet serves may differ by rounding alone: one tolerance decides, in both engines, and always."""

from __future__ import annotations

import math
import random

import pytest
from draws import draws

from fleetsieve.allocation import ROUNDED, Engine, evaluate, floors_met
from fleetsieve.answers.shortage import why_infeasible
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Verdict, certify, verdict_sentence
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.instance import Cell, CellKey, Fleet, Instance, LoadKind, Measurement, Pool, Reading, WorkloadClass

ENGINES = (Frontier(), Milp())
Cells = dict[tuple[str, int], float]


def decided(gpus: int, classes: tuple[WorkloadClass, ...], cells: Cells, engine: Engine) -> Certificate:
    """The verdict on cells that were all measured exactly: (class, TP) -> requests/s of a replica."""
    keys = {CellKey(name, tp, "r"): rate for (name, tp), rate in cells.items()}
    instance = Instance(
        "near",
        Fleet((Pool("default", gpus),)),
        classes,
        tuple(Cell(key, key.tp, LoadKind.CONCURRENCY, None) for key in keys),
    )
    rows = [Measurement(key, throughput_rps=Reading(rate), success_rate=Reading(1.0)) for key, rate in keys.items()]
    return certify(Envelope.of(instance, rows), engine)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@pytest.mark.parametrize(
    ("rate", "verdict"),
    [
        (3.3333333333333335, Verdict.FEASIBLE),
        (3.333333, Verdict.FEASIBLE),
        (3.33333, Verdict.FEASIBLE),
        (3.333329, Verdict.INFEASIBLE),
        (3.33333 * (1.0 - 2e-8), Verdict.INFEASIBLE),
        (3.3333, Verdict.INFEASIBLE),
    ],
)
@pytest.mark.parametrize("priority", [1.0, 1e-6, 1e6])
def test_three_replicas_of_a_third_of_the_floor(engine: Engine, rate: float, verdict: Verdict, priority: float) -> None:
    chat = WorkloadClass("chat", 12.0, priority=priority, floor_rps=10.0)
    c = decided(3, (chat,), {("chat", 1): rate}, engine)
    assert c.verdict is verdict
    told = "counts as met: figures in files are rounded; chat serves" in verdict_sentence(c)
    assert told == (verdict is Verdict.FEASIBLE and rate < 3.33333333)
    assert (why_infeasible(c) == "short by 1 GPU; chat lacks 0.00010 requests/s") == (rate == 3.3333)


def near_tie(seed: int) -> tuple[int, tuple[WorkloadClass, ...], Cells]:
    """One to three classes on few GPUs, whose floors are a number of replicas up to a millionth or so."""
    draw = random.Random(seed)
    classes, cells = [], {}
    for i in range(draw.choice([1, 1, 2, 3])):
        name = f"class{i}"
        for tp in draw.sample([1, 2, 4], draw.choice([1, 2])):
            cells[name, tp] = round(draw.uniform(0.5, 5.0), draw.choice([1, 3, 6]))
        tp = draw.choice([tp for own, tp in cells if own == name])
        reached = draw.randint(1, 4) * cells[name, tp]
        off = draw.choice([0.0, 1.0, -1.0]) * draw.choice([1e-10, 1e-8, 3e-7, 1e-6, 1.05e-6, 1e-5])
        classes.append(
            WorkloadClass(
                name,
                reached * draw.choice([1.0, 1.3, 3.0]),
                priority=draw.choice([1.0, 1.0, 0.01, 20.0]),
                floor_rps=reached * (1.0 + off),
            )
        )
    return draw.randint(1, 8), tuple(classes), cells


def can_keep_all(gpus: int, classes: tuple[WorkloadClass, ...], cells: Cells) -> bool:
    """By arithmetic: each class takes the fewest GPUs of a configuration that keep its floor, up to rounding."""
    needs = []
    for own in classes:
        floor = min(own.floor_rps or 0.0, own.demand_rps) * (1.0 - ROUNDED)
        needs.append(min(tp * math.ceil(floor / rate - 1e-9) for (name, tp), rate in cells.items() if name == own.name))
    return sum(needs) <= gpus


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_cells_measured_exactly_are_never_undecided(engine: Engine) -> None:
    verdicts = set()
    for seed in range(draws(300)):
        drawn = near_tie(seed)
        c = decided(*drawn, engine)
        assert c.blocking in ("", "goodput", "min_fulfilment"), seed
        assert (c.verdict is Verdict.INFEASIBLE) == (not can_keep_all(*drawn)), seed
        assert c.verdict is not Verdict.UNDECIDED, seed
        if c.verdict is Verdict.FEASIBLE:
            assert floors_met(evaluate(c.conservative.problem, c.conservative.replica_counts)), seed
        verdicts.add(c.verdict)
    assert verdicts == {Verdict.FEASIBLE, Verdict.INFEASIBLE}
