"""What the gap holds and what it must not: fleets where any tighter hold would hide a regret, and data that reopen a gap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from fleetsieve_models.problem import FleetProblem

from fleetsieve.allocation import STAGES, Engine, Optimum
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Verdict, certify, verdict_sentence
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
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

ENGINES = pytest.mark.parametrize("engine", [Frontier(), Milp()], ids=lambda engine: engine.name)
NO_HOLDS: Mapping[str, float] = MappingProxyType({})
LIMITED = Slo(max_ttft_p99_s=1.0)


def chat(tp: int, load: str = "x", offered: float | None = None) -> Cell:
    return cell("chat", tp, load, offered)


def cell(name: str, tp: int, load: str = "x", offered: float | None = None) -> Cell:
    kind = LoadKind.CONCURRENCY if offered is None else LoadKind.RATE
    return Cell(CellKey(name, tp, load), tp, kind, offered)


def measured(of: Cell, rps: float, ttft_s: float = 0.5, **more: Status) -> Measurement:
    return Measurement(of.key, throughput_rps=Reading(rps), ttft_p99_s=Reading(ttft_s), **more)


def fleet(gpus: int, classes: list[WorkloadClass], *cells: Cell, eta: float | None = 0.0) -> Instance:
    return Instance(
        "drawn", Fleet((Pool("default", gpus),)), tuple(classes), cells, certificate=CertificateSettings(0.05, eta)
    )


def certificate_of(instance: Instance, *rows: Measurement, engine: Engine | None = None) -> Certificate:
    return certify(Envelope.of(instance, rows), engine or Frontier())


@ENGINES
def test_min_fulfilment_is_held_at_the_shortfall_of_the_conservative_plan(engine: Engine) -> None:
    """Chat TP6 could meet the floor and leave nothing for code; if it turns out useless, code TP2 x2 is the better plan.

    Held at S+ = 0 instead of S- = 0.6, MM+ would be 0 and the regret of 0.2 hidden.
    """
    narrow, wide, slow, fast = chat(4), chat(6, offered=10.0), cell("code", 2, "a"), cell("code", 2, "b", 1.0)
    classes = [WorkloadClass("chat", 10.0, LIMITED, floor_rps=10.0), WorkloadClass("code", 1.0, LIMITED)]
    found = certificate_of(
        fleet(6, classes, narrow, wide, slow, fast), measured(narrow, 4.0), measured(slow, 0.2), engine=engine
    )
    assert math.isclose(found.gap.shortfall, 0.6, rel_tol=1e-5)
    assert math.isclose(found.gap.min_fulfilment, 0.2, rel_tol=1e-5)


@ENGINES
def test_goodput_is_held_at_the_guaranteed_fulfilment(engine: Engine) -> None:
    """Two of chat TP1 and two of code could reach 0.2 each; if chat TP1 turns out useless, the faster TP3 serves all of chat.

    Held at MM+ = 0.2 instead of m* = 0.1, GP+ would be 3.2 and the regret of 5.5 requests/s hidden.
    """
    single, triple, faster = chat(1, offered=1.5), chat(3, "a"), chat(3, "b", offered=10.0)
    slow = cell("code", 1)
    classes = [WorkloadClass("chat", 10.0, LIMITED), WorkloadClass("code", 1.0, LIMITED)]
    found = certificate_of(
        fleet(4, classes, single, triple, faster, slow), measured(triple, 4.5), measured(slow, 0.1), engine=engine
    )
    assert math.isclose(found.lower.goodput_rps, 4.6)
    assert math.isclose(found.gap.min_fulfilment, 0.1, rel_tol=1e-5)
    assert found.upper.goodput_rps is not None
    assert math.isclose(found.upper.goodput_rps, 10.1, rel_tol=1e-5)
    assert math.isclose(found.gap.goodput, 0.5, rel_tol=1e-5)


@ENGINES
def test_goodput_forgets_the_fulfilment_when_shortfall_can_be_bought_with_it(engine: Engine) -> None:
    """Chat TP6 meets the floor with all GPUs: fulfilment 0 for code, below m* = 0.4, and the best plan all the same.

    With min fulfilment >= m* kept, GP+ would be 5 and the regret of 5 requests/s hidden.
    """
    narrow, wide, other = chat(4), chat(6, offered=10.0), cell("code", 2)
    classes = [WorkloadClass("chat", 10.0, LIMITED, floor_rps=10.0), WorkloadClass("code", 1.0, LIMITED)]
    found = certificate_of(
        fleet(6, classes, narrow, wide, other), measured(narrow, 4.0), measured(other, 1.0), engine=engine
    )
    assert math.isclose(found.lower.best_min_fulfilment, 0.4)
    assert found.upper.goodput_rps is not None
    assert math.isclose(found.upper.goodput_rps, 10.0, rel_tol=1e-5)
    assert math.isclose(found.gap.goodput, 5.0 / 11.0, rel_tol=1e-5)


def test_one_more_row_can_reopen_a_certificate() -> None:
    """Monotone capacity closes TP1; a row that contradicts it drops it for the arm, and the unmeasured cell is open again."""
    ladder = [cell("chat", 1, f"c{n}") for n in (1, 2, 4, 8)]
    ladder = [Cell(c.key, 1, LoadKind.CONCURRENCY, float(n)) for c, n in zip(ladder, (1, 2, 4, 8), strict=True)]
    instance = fleet(4, [WorkloadClass("chat", 40.0, LIMITED)], *ladder)
    rows = [measured(ladder[0], 1.0), measured(ladder[3], 5.0), measured(ladder[2], 4.9)]
    before = certificate_of(instance, *rows[:2])
    assert before.verdict is Verdict.FEASIBLE
    assert not before.envelope.contradictions

    surprise = measured(ladder[2], 6.0)
    after = certificate_of(instance, *rows[:2], surprise)
    assert {c.assumption for c in after.envelope.contradictions} >= {"capacity_monotone", "capacity_star"}
    assert after.verdict is Verdict.UNDECIDED
    assert after.gap.largest > before.gap.largest
    assert after.settling == (ladder[1].key,)


def test_a_class_without_a_committable_cell_keeps_the_verdict_open() -> None:
    """Its fulfilment cannot be hidden by a gap of 0: code may turn out unservable, then it leaves the minimum."""
    good, unknown = chat(1), cell("code", 1, offered=0.01)
    instance = fleet(2, [WorkloadClass("chat", 1.0, LIMITED), WorkloadClass("code", 1.0, LIMITED)], good, unknown)
    found = certificate_of(instance, measured(good, 1.0))
    assert found.gap.largest < 0.05
    assert found.verdict is Verdict.UNDECIDED
    assert found.open_classes == ("code",)
    closed = certificate_of(instance, measured(good, 1.0), measured(unknown, 0.01, ttft_s=9.0))
    assert closed.unservable == ("code",)
    assert closed.verdict is Verdict.FEASIBLE


@ENGINES
@pytest.mark.parametrize("priority", [1.0, 1e-6, 1e-8, 1e-9, 1e-12])
def test_no_priority_is_too_small_for_a_floor(engine: Engine, priority: float) -> None:
    """A floor that nothing meets is never certified feasible, however little its class counts."""
    only = chat(1)
    classes = [WorkloadClass("chat", 10.0, LIMITED, priority, floor_rps=9.0)]
    found = certificate_of(fleet(2, classes, only), measured(only, 1.0), engine=engine)
    assert found.verdict is not Verdict.FEASIBLE


@ENGINES
def test_a_floor_on_a_class_that_nothing_serves_is_infeasible(engine: Engine) -> None:
    only, bad = chat(1), cell("code", 1)
    classes = [WorkloadClass("chat", 1.0, LIMITED), WorkloadClass("code", 1.0, LIMITED, floor_rps=0.5)]
    found = certificate_of(
        fleet(2, classes, only, bad), measured(only, 1.0), measured(bad, 1.0, ttft_s=2.0), engine=engine
    )
    assert found.unservable == ("code",)
    assert found.verdict is Verdict.INFEASIBLE


def test_flakes_alone_never_prove_infeasible() -> None:
    only = chat(1)
    classes = [WorkloadClass("chat", 1.0, LIMITED, floor_rps=1.0)]
    flakes = [measured(only, 1.0, status=s) for s in (Status.TIMEOUT, Status.CRASHED, Status.REJECTED)]
    assert certificate_of(fleet(1, classes, only), *flakes).verdict is Verdict.UNDECIDED


@ENGINES
def test_a_class_that_demands_nothing_is_fulfilled(engine: Engine) -> None:
    only = chat(1)
    found = certificate_of(fleet(1, [WorkloadClass("chat", 0.0, LIMITED, floor_rps=1.0)], only), engine=engine)
    assert found.verdict is Verdict.FEASIBLE
    assert found.conservative.min_fulfilment == 1.0
    assert found.conservative.gpus_used == 0


class CutShort:
    """An engine whose solver ran out of time after `kept` stages of the conservative solve, with or without an incumbent."""

    name = "cut-short"

    def __init__(self, kept: int, incumbent: bool) -> None:
        self.kept, self.incumbent, self.calls = kept, incumbent, 0

    def optimise(
        self,
        problem: FleetProblem,
        stages: Sequence[str] = STAGES,
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = NO_HOLDS,
    ) -> Optimum:
        self.calls += 1
        whole = Frontier().optimise(problem, stages, eta=eta, holds=holds)
        if self.calls > 1:
            return whole
        values = dict(list(whole.values.items())[: self.kept])
        return Optimum(
            whole.allocation if self.incumbent else None, values, dict(values), proven=False, reason="time limit"
        )


@pytest.mark.parametrize(("kept", "incumbent"), [(0, False), (0, True), (1, True), (2, True)])
def test_a_conservative_solve_that_is_cut_short_still_gives_a_sound_certificate(kept: int, incumbent: bool) -> None:
    """Any plan is a plan: the gap is measured from the one in hand, at worst from the empty fleet."""
    only = chat(1)
    engine = CutShort(kept, incumbent)
    found = certificate_of(fleet(2, [WorkloadClass("chat", 2.0, LIMITED)], only), measured(only, 1.0), engine=engine)
    assert found.verdict is (Verdict.FEASIBLE if incumbent else Verdict.UNDECIDED)
    assert math.isclose(found.gap.largest, 0.0 if incumbent else 1.0)
    assert (found.blocking, found.reason) == (("", "") if incumbent else ("solver", "time limit"))


def test_an_optimistic_solve_that_is_cut_short_certifies_nothing() -> None:
    only = chat(1)

    class Late(CutShort):
        def optimise(self, *args: Any, **more: Any) -> Optimum:
            whole = Frontier().optimise(*args, **more)
            self.calls += 1
            return whole if self.calls == 1 else Optimum(None, {}, {}, proven=False, reason="time limit")

    found = certificate_of(
        fleet(2, [WorkloadClass("chat", 2.0, LIMITED)], only), measured(only, 1.0), engine=Late(0, False)
    )
    assert found.verdict is Verdict.UNDECIDED
    assert (found.blocking, found.reason) == ("solver", "time limit")
    assert found.gap.largest == math.inf


def test_a_verdict_names_the_loads_that_nobody_looked_above() -> None:
    """A plan on the highest load of an arm that still meets its SLO may hide capacity; so may a floor that is missed."""
    ladder = [Cell(CellKey("chat", 2, f"c{n}"), 2, LoadKind.CONCURRENCY, float(n)) for n in (64, 128)]
    rows = [measured(ladder[0], 2.0), measured(ladder[1], 3.0)]
    for floor, told in ((None, Verdict.FEASIBLE), (20.0, Verdict.INFEASIBLE)):
        found = certificate_of(fleet(4, [WorkloadClass("chat", 20.0, LIMITED, floor_rps=floor)], *ladder), *rows)
        assert found.verdict is told
        assert "chat TP2 c128 (c256 could serve at most 6.300 requests/s on a replica)" in verdict_sentence(found)
    closed = certificate_of(
        fleet(4, [WorkloadClass("chat", 20.0, LIMITED)], *ladder), rows[0], measured(ladder[1], 3.0, 2.0)
    )
    assert "No higher load" not in verdict_sentence(closed)
