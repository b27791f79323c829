"""What is said of a cell is so: by what it is bounded, what removes it, and that a "no" can change nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fleetsieve.answers.diagnosis import Knowledge, account, account_document, cell_accounts
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.standing import standings
from fleetsieve.certificate import Verdict, certify, verdict_sentence
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.instance import NOTHING_READ, TAIL_METRICS, Status
from fleetsieve.loop.policies import DecisionGap
from fleetsieve.loop.sieve import Sieve

STAGES = ("shortfall", "min_fulfilment", "goodput")


def best(envelope, eta):
    found = Frontier().optimise(envelope.conservative, STAGES, eta=eta).allocation
    return [found.value(stage) for stage in STAGES]


def test_every_cell_has_an_account_in_the_order_of_the_instance(states):
    for sieve in states:
        told = account(sieve).cells
        assert [cell.key for cell in told] == [cell.key for cell in sieve.instance.cells]
        measured = {row.key for row in sieve.measurements}
        assert {cell.key for cell in told if cell.known is Knowledge.MEASURED} == measured


@pytest.mark.slow
def test_what_removes_a_cell_is_what_rules_it_out(states):
    for cell in (cell for sieve in states for cell in account(sieve).cells):
        assert bool(cell.removed_by) == cell.why.startswith("ruled out")


@pytest.mark.slow
def test_a_bound_follows_from_the_cells_that_are_named():
    """With the rows of those cells alone the bound is the same; with none it is weaker."""
    read = read_instance("sim-four-class-64gpu")
    rows = random.Random(3).sample(read.measurements, 40)
    envelope = Envelope.of(read.instance, rows)
    named = 0
    for cell in cell_accounts(certify(envelope, Frontier()), standings(envelope)):
        for bound in cell.bounds:
            if not bound.assumption:
                assert not bound.cells
                continue
            behind = Envelope.of(read.instance, [row for row in rows if row.key in bound.cells])
            assert end(behind, cell.key, bound.quantity) == end(envelope, cell.key, bound.quantity)
            if bound.cells:
                assert end(Envelope.of(read.instance), cell.key, bound.quantity) < end(behind, cell.key, bound.quantity)
                named += 1
    assert named > 50


def end(envelope, key, quantity):
    b = envelope[key]
    return b.tails_s[quantity].lo if quantity in TAIL_METRICS else -b.capacity_rps.hi


@pytest.mark.slow
def test_a_cell_that_cannot_change_the_decision_never_does(states):
    """Whatever the other cells that are left turn out to be, adding this one at its best moves no stage of the plan."""
    draw = random.Random(5)
    dominated = 0
    for sieve in states:
        told = account(sieve)
        if told.certificate.verdict is not Verdict.UNDECIDED:
            continue
        waiting = set(told.waiting)
        useless = [cell.key for cell in told.cells if not cell.can_change and cell.key in waiting]
        for key in useless:
            dominated += 1
            for _ in range(4):
                others = {other for other in waiting - {key} if draw.random() < 0.5}
                base = sieve.envelope.hoped(others)
                assert best(base.hoped({key}), 0.0) == pytest.approx(best(base, 0.0), abs=1e-9)
    assert dominated > 10


@pytest.mark.slow
def test_a_cell_that_the_policy_asks_for_can_change_the_decision(states):
    for sieve in states[:-1]:
        told = account(sieve)
        asked = told.next.experiment.key
        assert asked == sieve.ask().key
        assert next(cell for cell in told.cells if cell.key == asked).can_change
        assert told.next.at_worst.gap.total >= 0.0


def test_the_last_question_settles_the_verdict(states):
    told = account(states[-2])
    assert told.next.at_worst.verdict is Verdict.FEASIBLE
    assert account(states[-1]).next is None
    assert account(states[-1]).ended == "the verdict is certified-feasible"


def test_a_settled_verdict_leaves_nothing_to_change(states):
    assert not any(cell.can_change for cell in account(states[-1]).cells)


def test_a_planned_cell_is_said_to_be_planned(states):
    c = states[-1].certificate
    planned = {
        cell.key: cell.planned_replicas for cell in cell_accounts(c, states[-1].standings) if cell.planned_replicas
    }
    assert planned == dict(c.conservative.replica_counts)


def test_the_operators_veto_comes_first(states):
    sieve = states[0]
    cells = tuple(replace(cell, excluded=cell.key.tp == 8) for cell in sieve.instance.cells)
    told = account(replace(sieve, instance=replace(sieve.instance, cells=cells)))
    assert {cell.why for cell in told.cells if cell.key.tp == 8} == {"excluded by the operator"}


def test_the_document_has_no_infinity(states):
    import json

    for sieve in (states[0], states[-1]):
        json.dumps(account_document(account(sieve)), allow_nan=False)


def test_what_could_settle_it_does_when_all_of_it_is_as_good_as_its_bounds_allow(states):
    """The claim is tried on imagined outcomes, and no cell is named that cannot change the decision."""
    settled = 0
    for sieve in states:
        told = account(sieve)
        changing = {cell.key for cell in told.cells if cell.can_change}
        assert set(told.settling) <= changing
        if told.could_settle:
            ends = (sieve.envelope.hoped(told.settling), sieve.envelope.without(told.settling))
            assert {certify(end, Frontier()).verdict for end in ends} != {Verdict.UNDECIDED}
            settled += 1
    assert settled > 0


def test_failed_cells_that_stay_possible_are_told_with_what_follows_without_them():
    read = read_instance("sim-chat-code-16gpu")
    rows = [
        replace(row, seed=look, status=Status.CRASHED, throughput_rps=NOTHING_READ)
        if (row.key.class_name, row.key.tp) == ("chat", 4) and row.key.load in ("r8", "r11")
        else row
        for row in read.measurements
        for look in ((0, 1) if row.key.tp == 4 and row.key.load in ("r8", "r11") else (0,))
    ]
    told = account(Sieve.start(read.instance, policy=DecisionGap(), engine=Frontier(), looks={}).tell(*rows))
    assert [str(key) for key in told.failed] == ["chat TP4 r8", "chat TP4 r11"]
    assert told.certificate.verdict is Verdict.UNDECIDED
    assert told.without_failed is not None
    assert told.without_failed.verdict is Verdict.FEASIBLE
    assert (told.settling, told.next) == ((), None)
    assert "chat TP4 r11, which failed and is not tried again" in verdict_sentence(told.certificate)
