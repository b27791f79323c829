"""What a page says beyond the certificate is computed, and true: held against brute force on the bundled instances."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetsieve.answers.diagnosis import account
from fleetsieve.answers.what_if import with_demands, with_floors, with_gpus
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Verdict, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.instance import NOTHING_READ, Status
from fleetsieve.loop.policies import DecisionGap
from fleetsieve.loop.sieve import Sieve
from fleetsieve.report.banner import _confidence, lead
from fleetsieve.report.failing import failed_line, failures, lost_gpu_s, undecided_by_failures
from fleetsieve.report.headroom import (
    fewer_gpus,
    largest_floors,
    margins,
    room,
    to_serve_all,
    utilisations,
    why_short,
    with_fewer,
)
from fleetsieve.report.moves import moves
from fleetsieve.report.rounding import gap_part, points, rate, share


@pytest.fixture(scope="module")
def table():
    return read_instance("sim-chat-code-16gpu")


@pytest.fixture(scope="module")
def too_much(table):
    """Floors that the fleet cannot keep."""
    return with_floors(with_demands(table.instance, {"chat": 60.0, "code": 60.0}), {"chat": 40.0, "code": 40.0})


def certified(instance, rows=()):
    return certify(Envelope.of(instance, rows), Frontier())


def test_the_gpus_that_meet_all_demand_do_and_no_fewer(table):
    (told,) = to_serve_all(certified(table.instance, table.measurements))
    assert told == "20 GPUs meet all demand with the cells measured so far, and no fewer can."
    met = {n: certified(with_gpus(table.instance, n), table.measurements).conservative.min_fulfilment for n in (19, 20)}
    assert met[19] < 1.0
    assert met[20] == 1.0


def test_a_served_demand_asks_for_no_more_gpus(table):
    assert to_serve_all(certified(with_gpus(table.instance, 24), table.measurements)) == []


def test_a_node_less_is_told_as_it_would_be_decided(table):
    left = fewer_gpus(table.instance)
    c = certified(with_gpus(table.instance, left), table.measurements)
    assert left == 8
    told = with_fewer(table)
    assert told.startswith("With one node fewer (8 GPUs) the plan would serve ")
    assert f"{rate(c.conservative.goodput_rps)} of 33 requests/s" in told


def test_the_narrowest_margin_and_full_replicas_are_named():
    read = read_instance("sim-four-class-64gpu")
    c = certified(read.instance, read.measurements)
    least = margins(c)[0]
    assert least.share == min(
        1.0 - c.envelope[key].tails_s[metric].hi / limit
        for key in c.conservative.replica_counts
        for metric in ("ttft", "e2e", "tpot")
        if (limit := read.instance.class_by_name[key.class_name].slo.limit_s(metric)) is not None
    )
    told = " ".join(room(c))
    assert least.share < 0.05
    assert f"{least.class_name}'s {least.metric}" in told
    assert "under 5 %: another run may exceed it" in told
    assert ("No spare capacity" in told) == (max(utilisations(c).values()) == 1.0)


def test_what_a_fleet_lacks_is_said_to_be_the_least(too_much):
    """Without a measurement the bounds ask for 16 GPUs more; the whole table asks for 24."""
    c = certified(too_much)
    told = " ".join(why_short(c))
    assert c.verdict is Verdict.INFEASIBLE
    assert "at least 16 GPUs more: 32 not 16. Measuring may show that more are needed." in told
    assert certified(with_gpus(too_much, 31)).verdict is Verdict.INFEASIBLE
    assert certified(with_gpus(too_much, 32)).verdict is Verdict.UNDECIDED
    assert lead(c).startswith("No plan on these GPUs keeps every floor (chat 40 and code 40 requests/s)")


def test_the_largest_floors_are_not_ruled_out_and_larger_ones_are(too_much):
    (told,) = largest_floors(certified(too_much))
    low, high = (float(part.split(" %")[0]) / 100.0 for part in told.split("loors of ")[1:])
    assert 0.0 < high - low < 0.00101

    def verdict(part):
        return certified(with_floors(too_much, {"chat": 40.0 * part, "code": 40.0 * part})).verdict

    assert verdict(low) is Verdict.UNDECIDED
    assert verdict(high) is Verdict.INFEASIBLE


def test_without_a_plan_nothing_is_said_to_add_nothing(table, too_much):
    rows = moves(replace(table, instance=too_much, measurements=()), planned=False)
    gpus = next(row for row in rows if row["what"] == "GPUs of the fleet")
    assert gpus["beyond"] == "the verdict: certified-infeasible from 8 to 31 GPUs, undecided at 32 GPUs"
    assert {row["holds"] for row in rows} == {"there is no plan"}


@pytest.fixture(scope="module")
def failing(table):
    """Two flaky cells that a better plan might use, and one server that never starts."""
    rows = []
    for row in table.measurements:
        key = (row.key.class_name, row.key.tp, row.key.load)
        bad = {"throughput_rps": NOTHING_READ, "requests": None}
        if key in {("chat", 4, "r8"), ("chat", 4, "r11")}:
            rows += [replace(row, seed=look, status=Status.CRASHED, source="signal 11", **bad) for look in (0, 1)]
        elif key == ("code", 8, "r18"):
            rows.append(replace(row, status=Status.FAILED_START, source="36 heads", **bad))
        else:
            rows.append(row)
    start = Sieve.start(table.instance, policy=DecisionGap(), engine=Frontier(), looks={})
    return account(start.tell(*rows)), rows


def test_failures_are_told_by_their_cause_with_what_they_cost(table, failing):
    told, rows = failing
    causes = failures(told.certificate, rows)
    assert [(row["ended"], row["count"], row["measurements"]) for row in causes] == [
        ("the server crashed", 2, 4),
        ("the server did not start", 1, 1),
    ]
    assert sum(row["lost_gpu_s"] for row in causes) == sum(lost_gpu_s(table.instance, rows).values()) == 4 * 1200 + 2400
    assert failed_line(told, rows) == (
        "3 of 21 cells failed (the server crashed: 2, the server did not start: 1); failed measurements took 7,200 GPU-seconds."
    )


def test_a_verdict_that_waits_for_failed_cells_says_so_and_what_to_do(failing):
    told, _ = failing
    words = undecided_by_failures(told)
    assert words.startswith("Undecided because of chat TP4 r8 (the server crashed, 2 times) and chat TP4 r11")
    assert "exclude them in cells.csv: then the verdict would be certified-feasible" in words
    vetoed = tuple(
        replace(cell, excluded=cell.excluded or cell.key in told.failed)
        for cell in told.certificate.envelope.instance.cells
    )
    instance = replace(told.certificate.envelope.instance, cells=vetoed)
    assert certified(instance, failing[1]).verdict is Verdict.FEASIBLE


def test_guaranteed_figures_go_down_and_the_gap_goes_up():
    assert (rate(9.6449), share(0.70588), share(0.70588, lower=False)) == ("9.644", "70.5\u00a0%", "70.6\u00a0%")
    assert (gap_part(0.0301), gap_part(1e-7), points(0.2941)) == ("0.031", "0", "29.5\u00a0points")


def test_a_floor_above_the_demand_counts_as_the_demand_and_the_page_says_so(table):
    capped = with_floors(with_demands(table.instance, {"chat": 10.0}), {"chat": 17.0})
    said = "Every floor is kept (a floor above its class's demand counts as the demand: chat 17 as 10 requests/s)."
    assert said in lead(certified(capped, table.measurements))
    assert "Every floor is kept. " in lead(certified(with_floors(capped, {"chat": 10.0}), table.measurements))


def test_one_measured_cell_is_spoken_of_as_one(table):
    one, two = (_confidence(certified(table.instance, table.measurements[:count])) for count in (1, 2))
    assert one.startswith("1 of 1 measured cells was measured once and is taken at face value")
    assert two.startswith("2 of 2 measured cells were measured once and are taken at face value")
    several = certified(table.instance, (*table.measurements[:2], table.measurements[0]))
    assert "1 of 2 measured cells is taken at the range of its repeats" in _confidence(several)
