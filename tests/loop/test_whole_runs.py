"""Runs to the end on random fleets: a verdict is reached, at the latest when every cell is known, and it is right."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Situation as Known
from strategies import Truth, rates

from fleetsieve.allocation import evaluate
from fleetsieve.bounds.assumptions import DEFAULTS
from fleetsieve.certificate import Verdict
from fleetsieve.engines.frontier import Frontier
from fleetsieve.errors import UsageError
from fleetsieve.instance import Cell, CellKey, Fleet, Instance, LoadKind, Measurement, Pool, Reading, Slo, WorkloadClass
from fleetsieve.loop.policies import POLICIES, Random, policy_named
from fleetsieve.loop.sieve import Sieve

LIMIT_S = 1.0


@st.composite
def fleets(draw: st.DrawFn, assumptions: Mapping[str, Mapping[str, bool]]) -> Known:
    """A fleet and its whole table of point values, whatever they say of the assumptions."""
    classes, cells, capacity, usable = [], [], {}, {}
    for i in range(draw(st.integers(1, 3))):
        demand = draw(rates(100, 1500))
        floor = draw(st.none() | st.integers(1, 20).map(lambda t, demand=demand: t / 20 * demand))
        classes.append(WorkloadClass(f"class{i}", demand, Slo(LIMIT_S), floor_rps=floor))
        for tp in (1, 2, 4)[: draw(st.integers(1, 3))]:
            for n in (4, 8, 16)[: draw(st.integers(1, 3))]:
                cell = Cell(CellKey(f"class{i}", tp, f"c{n}"), tp, LoadKind.CONCURRENCY, float(n))
                cells.append(cell)
                capacity[cell.key], usable[cell.key] = draw(rates(1, 500)), draw(st.booleans())
    rows = tuple(
        Measurement(key, throughput_rps=Reading(c), ttft_p99_s=Reading(0.5 if usable[key] else 2.0))
        for key, c in capacity.items()
    )
    pool = Pool("default", draw(st.integers(1, 16)))
    instance = Instance("drawn", Fleet((pool,)), tuple(classes), tuple(cells), assumptions=assumptions)
    return Known(instance, rows, Truth(capacity, usable))


def run(known: Known, policy: str) -> Sieve:
    table = {row.key: row for row in known.rows}
    sieve = Sieve.start(known.instance, policy=policy_named(policy), engine=Frontier(), looks=dict.fromkeys(table, 1))
    while not sieve.finished:
        sieve = sieve.tell(table[sieve.ask().key])
    return sieve


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("assumed", [False, True], ids=["nothing assumed", "defaults"])
def test_a_run_ends_in_a_verdict(policy: str, assumed: bool) -> None:
    """Without assumptions the verdict is right; with assumptions that the table contradicts it is still a verdict."""
    verdicts = set()

    @settings(max_examples=60)
    @given(fleets({} if assumed else {name: {"enabled": False} for name in DEFAULTS}))
    def check(known: Known) -> None:
        sieve = run(known, policy)
        found = sieve.certificate
        verdicts.add(found.verdict)
        assert found.verdict is not Verdict.UNDECIDED
        if assumed:
            return
        truth = known.true_problem(counted=known.truly_servable)
        best = Frontier().optimise(truth, eta=0.0).allocation
        assert best is not None
        if found.verdict is Verdict.INFEASIBLE:
            assert best.shortfall > 0.0
            return
        plan = evaluate(truth, found.conservative.replica_counts)
        assert math.isclose(plan.shortfall, 0.0, abs_tol=1e-9)
        assert best.min_fulfilment - plan.min_fulfilment <= found.epsilon + 1e-9
        assert (best.goodput_rps - plan.goodput_rps) / truth.total_demand_rps <= found.epsilon + 1e-9

    check()
    assert verdicts == {Verdict.FEASIBLE, Verdict.INFEASIBLE}


def test_a_negative_seed_is_refused() -> None:
    instance = Instance("empty", Fleet((Pool("default", 1),)), (), ())
    with pytest.raises(UsageError, match="-1"):
        Sieve.start(instance, policy=Random(), engine=Frontier(), seed=-1)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fleet_that_asks_for_nothing_is_certified_at_once(policy: str) -> None:
    for classes in ((), (WorkloadClass("chat", 0.0),)):
        cells = tuple(Cell(CellKey(c.name, 1, "c1"), 1) for c in classes)
        instance = Instance("idle", Fleet((Pool("default", 1),)), classes, cells)
        sieve = Sieve.start(instance, policy=policy_named(policy), engine=Frontier())
        assert sieve.finished
        assert sieve.certificate.verdict is Verdict.FEASIBLE
