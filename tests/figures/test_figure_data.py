"""What the figures show is what the certificate says."""

from __future__ import annotations

import math

import pytest

from fleetsieve.engines.frontier import Frontier
from fleetsieve.figures.capacity import capacity_rows
from fleetsieve.figures.demand import HOPED, KEPT, SURE, demand_rows
from fleetsieve.figures.gap import gap_rows
from fleetsieve.figures.grid import grid_rows
from fleetsieve.figures.rungs import ladder_rows, limited_metrics
from fleetsieve.figures.served import served_rows
from fleetsieve.figures.states import State, cell_state
from fleetsieve.instance import TAIL_METRICS, CellKey
from fleetsieve.runs.history import History, LoggedStep


def test_the_peaks_of_the_papers_first_table(paper):
    """Figure 1 (a): feasible requests/s per GPU by TP."""
    sure = {(row["class"], row["tp"]): row["sure"] for row in capacity_rows(paper)}
    told = {
        ("Chat", 2): 0.798,
        ("Chat", 4): 1.649,
        ("Chat", 8): 1.408,
        ("Code", 2): 0.56,
        ("Code", 4): 2.779,
        ("Code", 8): 1.392,
    }
    assert sure == pytest.approx({(name, f"TP{tp}"): value for (name, tp), value in told.items()}, abs=5e-4)


def test_the_most_that_is_possible_bounds_what_is_measured(four_classes):
    for row in capacity_rows(four_classes):
        assert row["most"] is None or row["most"] >= row["sure"] or row["hoped"] == "nothing more"


def test_the_papers_third_figure(paper):
    """Oracle: 0.7x 1.000 and 19.60, 1.0x 1.000 and 28.00, 1.3x 0.846 and 33.99."""
    rows = {(row["scale"], row["curve"]): row for row in demand_rows(paper, Frontier(), (0.7, 1.0, 1.3))}
    for scale, fulfilment, goodput in ((0.7, 1.0, 19.6), (1.0, 1.0, 28.0), (1.3, 0.846, 33.99)):
        sure = rows[scale, SURE]
        assert sure["fulfilment"] == pytest.approx(fulfilment, abs=5e-4)
        assert sure["goodput"] == pytest.approx(goodput, abs=5e-3)


def test_a_plan_anew_is_never_worse_than_the_plan_of_now(four_classes):
    rows = {(row["scale"], row["curve"]): row for row in demand_rows(four_classes, Frontier(), (0.5, 1.0, 1.5, 2.0))}
    for scale in (0.5, 1.0, 1.5, 2.0):
        kept, sure, hoped = (rows[scale, curve]["fulfilment"] for curve in (KEPT, SURE, HOPED))
        assert kept <= sure + four_classes.eta + 1e-9
        assert sure <= hoped + 1e-9
    assert rows[1.0, SURE]["fulfilment"] == pytest.approx(four_classes.lower.min_fulfilment)
    assert rows[1.0, KEPT]["goodput"] == pytest.approx(four_classes.lower.goodput_rps)


def test_every_cell_of_the_grid_has_its_state(four_classes):
    envelope = four_classes.envelope
    for workload in envelope.instance.classes:
        rows = grid_rows(four_classes, workload.name)
        assert len(rows) == 32
        assert sorted((row["arm"], row["rung"]) for row in rows) == [
            (f"TP{tp}", rung) for tp in (1, 2, 4, 8) for rung in range(1, 9)
        ]
    for cell in envelope.instance.cells:
        b, state = envelope[cell.key], cell_state(four_classes, cell.key)
        assert (state is State.PLANNED) == (cell.key in four_classes.conservative.replica_counts)
        assert b.committable == (state in (State.PLANNED, State.USABLE))
        assert b.possible == (state in (State.PLANNED, State.USABLE, State.OPEN, State.STRADDLES))
        assert b.measured == (state in (State.PLANNED, State.USABLE, State.MISSES, State.STRADDLES))


def test_the_ladder_shows_the_bounds(four_classes):
    envelope = four_classes.envelope
    for workload in envelope.instance.classes:
        for metric in limited_metrics(four_classes, workload.name):
            assert metric in TAIL_METRICS
            for row in ladder_rows(four_classes, workload.name, metric):
                key = CellKey(row["class"], int(row["tp"][2:]), row["load"])
                tail = envelope[key].tails_s[metric]
                assert (row["lo"] or 0.0) == tail.lo
                assert (math.inf if row["hi"] is None else row["hi"]) == tail.hi
                assert row["measured"] == envelope[key].measured


def test_what_is_served_and_the_floors(four_classes):
    rows = served_rows(four_classes.conservative)
    assert [row["served"] for row in rows] == [got.fulfilment for got in four_classes.conservative.classes]
    assert [row["floor"] is not None for row in rows] == [True, False, False, True]


def step(number, gap):
    named = dict(zip(("shortfall", "min_fulfilment", "goodput"), gap, strict=True))
    key = CellKey("chat", 2, "c8")
    return LoggedStep(number, key, "why", 1.0, "ok", "what", 100.0 * number, "undecided", "", named)


def test_the_gap_has_every_step_of_the_stages_in_use():
    gaps = [(0.0, 1.0, 0.5), (0.0, 0.2, None), (0.0, 0.0, 0.01)]
    steps = tuple(step(number, gap) for number, gap in enumerate(gaps, start=1))
    rows = gap_rows(History({}, steps, None))
    assert {row["stage"] for row in rows} == {"least fulfilment", "goodput"}
    assert [row["gap"] for row in rows if row["stage"] == "goodput"] == [0.5, None, 0.01]
    assert [row["spent"] for row in rows if row["stage"] == "goodput"] == [100.0, 200.0, 300.0]
    assert next(row for row in rows if row["gap"] is None)["shown"] == "not proven"
