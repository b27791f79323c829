"""Each named assumption: what it bounds, what contradicts it, where it is dropped, and that it never excludes a truth it allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsieve.bounds.assumptions import DEFAULTS, assumptions_of
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.errors import UsageError
from fleetsieve.instance import (
    Cell,
    CellKey,
    Facts,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    Pool,
    Reading,
    ServerKey,
    Slo,
    WorkloadClass,
)

LOADS = (1.0, 2.0, 4.0, 8.0)
Assumptions = Mapping[str, Mapping[str, float | bool]]
NONE: Assumptions = {name: {"enabled": False} for name in DEFAULTS}


def only(name: str, **more: float) -> Assumptions:
    return {**NONE, name: {"enabled": True, **more}}


def ladder(
    tp: int = 1, kind: LoadKind = LoadKind.CONCURRENCY, loads: Sequence[float] = LOADS, name: str = "chat"
) -> list[Cell]:
    return [Cell(CellKey(name, tp, f"x{load:g}"), tp, kind, load) for load in loads]


def instance_of(
    cells: Sequence[Cell], assumptions: Assumptions, facts: Facts | None = None, slo: Slo | None = None
) -> Instance:
    workload = WorkloadClass("chat", 50.0, slo or Slo(2.0, 30.0, 0.1, 0.99), input_tokens=1000.0, output_tokens=100.0)
    pools = (Pool("default", 64), Pool("other", 64))
    return Instance("drawn", Fleet(pools), (workload,), tuple(cells), facts=facts or Facts(), assumptions=assumptions)


def row(
    cell: Cell, rps: float, ttft_s: float = 0.5, *, e2e_s: float = 5.0, tpot_s: float = 0.02, success: float = 1.0
) -> Measurement:
    return Measurement(
        cell.key,
        throughput_rps=Reading(rps),
        success_rate=Reading(success),
        ttft_p99_s=Reading(ttft_s),
        e2e_p99_s=Reading(e2e_s),
        tpot_p99_s=Reading(tpot_s),
    )


def most(envelope: Envelope, cells: Sequence[Cell]) -> list[float]:
    return [envelope[c.key].capacity_rps.hi for c in cells]


def least_tail(envelope: Envelope, cells: Sequence[Cell], metric: str) -> list[float]:
    return [envelope[c.key].tails_s[metric].lo for c in cells]


def named(envelope: Envelope) -> set[str]:
    return {a.name for a in envelope.in_force}


# What is on, and what is refused


def test_what_is_on_by_default() -> None:
    on = {a.name for a in assumptions_of(instance_of(ladder(), {}))}
    assert on == {
        "offered_ceiling",
        "tail_monotone",
        "capacity_monotone",
        "capacity_star",
        "memory_monotone",
        "roofline",
    }
    assert set(DEFAULTS) - on == {"ceiling", "interior_knee", "tail_monotone_tp"}


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_assumption_can_be_switched(name: str) -> None:
    assert {a.name for a in assumptions_of(instance_of(ladder(), only(name)))} == {name}
    off = assumptions_of(instance_of(ladder(), {name: {"enabled": False}}))
    assert name not in {a.name for a in off}


def test_a_setting_alone_switches_an_assumption_on() -> None:
    (ceiling,) = assumptions_of(instance_of(ladder(), {**NONE, "ceiling": {"factor": 3.0}}))
    assert "3" in ceiling.describe()


@pytest.mark.parametrize(
    ("assumptions", "message"),
    [
        ({"tail_monoton": {"enabled": True}}, "unknown assumption 'tail_monoton'"),
        ({"ceiling": {"facto": 2.0}}, "unknown setting 'facto' of assumption ceiling"),
        ({"roofline": {"slack": 0.1}}, "unknown setting 'slack' of assumption roofline"),
    ],
)
def test_unknown_names_and_settings_are_refused(assumptions: Assumptions, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        Envelope.of(instance_of(ladder(), assumptions))
    assert "known: " in str(refused.value)


# What each says


def test_without_assumptions_and_data_nothing_is_known() -> None:
    cells = ladder()
    envelope = Envelope.of(instance_of(cells, NONE))
    assert most(envelope, cells) == [math.inf] * 4
    assert least_tail(envelope, cells, "ttft") == [0.0] * 4
    assert all(envelope[c.key].possible and not envelope[c.key].committable for c in cells)
    assert not envelope.in_force


def test_offered_ceiling_bounds_unmeasured_open_loops_only() -> None:
    open_loop, closed = ladder(kind=LoadKind.RATE), ladder(tp=2)
    envelope = Envelope.of(instance_of([*open_loop, *closed], only("offered_ceiling")))
    assert most(envelope, open_loop) == list(LOADS)
    assert most(envelope, closed) == [math.inf] * 4
    assert named(envelope) == {"offered_ceiling"}


@pytest.mark.parametrize(("measured", "known", "dropped"), [(3.9, 3.9, False), (4.19, 4.0, False), (4.3, 4.3, True)])
def test_a_run_may_complete_a_little_more_than_offered(measured: float, known: float, dropped: bool) -> None:
    cells = ladder(kind=LoadKind.RATE)
    envelope = Envelope.of(instance_of(cells, only("offered_ceiling")), [row(cells[2], measured)])
    assert envelope[cells[2].key].capacity_rps.hi == known
    assert bool(envelope.contradictions) == dropped
    assert most(envelope, cells)[3] == (math.inf if dropped else 8.0)


def test_tail_monotone_bounds_higher_loads_from_below() -> None:
    cells = ladder()
    envelope = Envelope.of(
        instance_of(cells, only("tail_monotone", slack_ttft=0.25)), [row(cells[1], 9.0, 1.0, e2e_s=23.0)]
    )
    assert least_tail(envelope, cells, "ttft") == [0.0, 1.0, 0.8, 0.8]
    assert least_tail(envelope, cells, "e2e") == pytest.approx([0.0, 23.0, 20.0, 20.0])


def test_the_default_slack_of_ttft_is_three_quarters() -> None:
    cells = ladder()
    envelope = Envelope.of(instance_of(cells, only("tail_monotone")), [row(cells[0], 9.0, 3.6)])
    assert least_tail(envelope, cells, "ttft")[3] == pytest.approx(3.6 / 1.75)
    assert not envelope[cells[3].key].possible


def test_one_slack_can_stand_for_all_metrics() -> None:
    cells = ladder()
    envelope = Envelope.of(instance_of(cells, only("tail_monotone", slack=0.0)), [row(cells[0], 9.0, 1.0, e2e_s=3.0)])
    assert least_tail(envelope, cells, "ttft")[1] == 1.0
    assert least_tail(envelope, cells, "e2e")[1] == 3.0


def test_a_contradicted_tail_is_dropped_for_its_arm_and_metric_alone() -> None:
    narrow, wide = ladder(), ladder(tp=2)
    rows = [row(narrow[0], 1.0, 1.0, e2e_s=10.0), row(narrow[2], 2.0, 0.5, e2e_s=11.0), row(wide[0], 1.0, 1.0)]
    envelope = Envelope.of(instance_of([*narrow, *wide], only("tail_monotone")), rows)
    (found,) = envelope.contradictions
    assert (found.assumption, found.arm, found.quantity) == ("tail_monotone", narrow[0].arm, "ttft")
    assert found.rows == (narrow[0].key, narrow[2].key)
    assert least_tail(envelope, narrow, "ttft")[3] == 0.0
    assert least_tail(envelope, narrow, "e2e")[3] == pytest.approx(11.0 / 1.15)
    assert least_tail(envelope, wide, "ttft")[3] == pytest.approx(1.0 / 1.75)


def test_capacity_monotone_bounds_lower_loads_from_above() -> None:
    cells = ladder()
    envelope = Envelope.of(instance_of(cells, only("capacity_monotone")), [row(cells[2], 5.0)])
    assert most(envelope, cells) == [pytest.approx(5.1), pytest.approx(5.1), 5.0, math.inf]


@pytest.mark.parametrize("name", ["capacity_monotone", "capacity_star"])
def test_an_overloaded_cell_bounds_nothing(name: str) -> None:
    cells = ladder()
    envelope = Envelope.of(instance_of(cells, only(name)), [row(cells[2], 5.0, success=0.9)])
    assert most(envelope, cells) == [math.inf, math.inf, 5.0, math.inf]


def test_overload_does_not_contradict_capacity_monotone() -> None:
    cells = ladder()
    rows = [row(cells[0], 5.0), row(cells[2], 3.0, success=0.9)]
    assert not Envelope.of(instance_of(cells, only("capacity_monotone")), rows).contradictions
    rows = [row(cells[0], 5.0), row(cells[2], 3.0)]
    (found,) = Envelope.of(instance_of(cells, only("capacity_monotone")), rows).contradictions
    assert found.rows == (cells[0].key, cells[2].key)


def test_capacity_star_bounds_higher_loads_from_above() -> None:
    cells = ladder()
    envelope = Envelope.of(instance_of(cells, only("capacity_star")), [row(cells[1], 4.0)])
    assert most(envelope, cells) == [math.inf, 4.0, pytest.approx(8.4), pytest.approx(16.8)]


def test_capacity_star_is_contradicted_by_superlinear_growth() -> None:
    cells = ladder()
    envelope = Envelope.of(instance_of(cells, only("capacity_star")), [row(cells[0], 1.0), row(cells[1], 2.2)])
    assert [c.quantity for c in envelope.contradictions] == ["capacity"]
    assert most(envelope, cells)[3] == math.inf


FACTS = Facts(weight_bytes=100e9, hbm_bytes_per_s=2e12, flops_per_s=1e15, prefill_flop_per_token=1e12)


def test_roofline_reads_the_weights_once_an_iteration() -> None:
    """100 GB over TP2 x 2 TB/s is 25 ms an iteration: 8 in flight, 100 tokens each, are at most 3.2 requests/s."""
    cells = ladder(tp=2)
    facts = replace(FACTS, flops_per_s=None)
    envelope = Envelope.of(instance_of(cells, only("roofline"), facts))
    assert most(envelope, cells) == pytest.approx([0.4, 0.8, 1.6, 3.2])
    assert least_tail(envelope, cells, "tpot") == pytest.approx([0.025] * 4)
    assert least_tail(envelope, cells, "ttft") == [0.0] * 4


def test_roofline_counts_the_flops_of_prefill() -> None:
    """1,000 tokens x 1 TFLOP on 2 x 1 PFLOP/s: at most 2 requests/s at any load."""
    cells, rated = ladder(tp=2), ladder(tp=4, kind=LoadKind.RATE)
    envelope = Envelope.of(instance_of([*cells, *rated], only("roofline"), FACTS))
    assert most(envelope, cells) == pytest.approx([0.4, 0.8, 1.6, 2.0])
    assert most(envelope, rated) == pytest.approx([4.0] * 4)


def test_roofline_takes_the_figures_of_the_pool_first() -> None:
    own = Cell(CellKey("chat", 1, "x1", "other"), 1, LoadKind.CONCURRENCY, 1.0)
    instance = instance_of([*ladder(), own], only("roofline"), replace(FACTS, flops_per_s=None))
    fleet = Fleet((Pool("default", 64), Pool("other", 64, hbm_bytes_per_s=4e12)))
    envelope = Envelope.of(replace(instance, fleet=fleet))
    assert envelope[own.key].capacity_rps.hi == pytest.approx(0.4)
    assert envelope[ladder()[0].key].capacity_rps.hi == pytest.approx(0.2)


def test_roofline_says_nothing_without_facts_or_with_speculation() -> None:
    cells = ladder()
    for facts in (Facts(), replace(FACTS, flops_per_s=None, speculative_decoding=True)):
        assert most(Envelope.of(instance_of(cells, only("roofline"), facts)), cells) == [math.inf] * 4


def test_roofline_is_dropped_where_the_datasheet_is_beaten() -> None:
    narrow, wide = ladder(), ladder(tp=2)
    envelope = Envelope.of(instance_of([*narrow, *wide], only("roofline"), FACTS), [row(narrow[0], 5.0, tpot_s=0.001)])
    assert {(c.arm.tp, c.quantity) for c in envelope.contradictions} == {(1, "capacity"), (1, "tpot")}
    assert most(envelope, narrow)[3] == math.inf
    assert least_tail(envelope, narrow, "tpot")[3] == 0.0
    assert most(envelope, wide)[3] == pytest.approx(2.0)


def test_ceiling_bounds_the_class_by_its_best_measured_cell() -> None:
    narrow, wide = ladder(), ladder(tp=4)
    envelope = Envelope.of(instance_of([*narrow, *wide], only("ceiling", factor=1.5)), [row(narrow[0], 2.0)])
    assert most(envelope, wide) == [pytest.approx(12.0)] * 4
    late = Envelope.of(
        instance_of([*narrow, *wide], only("ceiling", factor=1.5)), [row(narrow[0], 2.0), row(wide[0], 13.0)]
    )
    assert late.contradictions
    assert most(late, wide)[1:] == [math.inf] * 3


def test_the_audit_of_the_ceiling_does_not_depend_on_the_order_of_the_rows() -> None:
    narrow, wide = ladder(), ladder(tp=2)
    rows = [row(narrow[0], 2.0), row(wide[0], 13.0)]
    found = [
        Envelope.of(instance_of([*narrow, *wide], only("ceiling", factor=1.5)), r).contradictions
        for r in (rows, rows[::-1])
    ]
    assert found[0] == found[1]
    assert {c.rows for c in found[0]} == {(wide[0].key,)}
    assert not Envelope.of(instance_of([*narrow, *wide], only("ceiling", factor=1.5)), rows[1:]).contradictions


def test_interior_knee_needs_three_degrees_and_a_peak() -> None:
    arms = [ladder(tp=tp) for tp in (1, 2, 4, 8)]
    instance = instance_of([c for arm in arms for c in arm], only("interior_knee"))
    peak = [row(arms[0][0], 1.0), row(arms[1][0], 4.0), row(arms[2][0], 4.0)]
    assert not Envelope.of(instance, peak[:2]).in_force
    envelope = Envelope.of(instance, peak)
    # Per GPU 1, 2, 1 at TP1, 2, 4: the parabola in log TP falls to 1/8 at TP8, and the band is 2 x 0.1.
    assert most(envelope, arms[3]) == [pytest.approx(8 * 0.125 * math.exp(0.2))] * 4
    valley = [row(arms[0][0], 4.0), row(arms[1][0], 2.0), row(arms[2][0], 16.0)]
    dropped = Envelope.of(instance, valley)
    assert {c.arm.tp for c in dropped.contradictions} == {1, 2, 4, 8}
    assert most(dropped, arms[3]) == [math.inf] * 4


def test_tail_monotone_tp_bounds_narrower_replicas_at_the_same_load() -> None:
    narrow, wide = ladder(), ladder(tp=2)
    envelope = Envelope.of(instance_of([*narrow, *wide], only("tail_monotone_tp")), [row(wide[1], 9.0, 2.1)])
    assert least_tail(envelope, narrow, "ttft") == [0.0, pytest.approx(2.0), 0.0, 0.0]
    both = Envelope.of(
        instance_of([*narrow, *wide], only("tail_monotone_tp")),
        [row(wide[1], 9.0, 2.1), row(narrow[0], 9.0, 0.5), row(wide[0], 9.0, 1.0)],
    )
    assert {(c.arm.tp, c.quantity) for c in both.contradictions} == {(1, "ttft"), (2, "ttft")}
    assert least_tail(both, narrow, "ttft")[1] == 0.0


def test_pools_are_arms_of_their_own() -> None:
    here = ladder()
    there = [replace(c, key=c.key._replace(server=ServerKey(c.key.tp, "other"))) for c in here]
    envelope = Envelope.of(instance_of([*here, *there], {}), [row(here[0], 1.0, 1.9)])
    assert least_tail(envelope, here, "ttft")[3] > 0.0
    assert least_tail(envelope, there, "ttft")[3] == 0.0
    assert most(envelope, there) == [math.inf] * 4


def test_a_cell_outside_the_ladder_takes_part_in_no_ladder_assumption() -> None:
    cells = ladder()
    peak = Cell(CellKey("chat", 1, "peak"), 1)
    wide = [*ladder(tp=2), Cell(CellKey("chat", 2, "peak"), 2)]
    everything = {**{name: {"enabled": True} for name in DEFAULTS}, "ceiling": {"enabled": False}}
    rows = [row(peak, 3.0, 9.0, e2e_s=50.0)]
    envelope = Envelope.of(instance_of([*cells, peak, *wide], everything), rows)
    assert not envelope.in_force
    assert not envelope.contradictions
    back = Envelope.of(instance_of([*cells, peak, *wide], everything), [row(c, 3.0, 9.0) for c in cells])
    assert back[peak.key].capacity_rps.hi == math.inf
    assert back[peak.key].tails_s["ttft"].lo == 0.0


# No assumption excludes a truth that it allows


Table = dict[CellKey, Measurement]
ARMS = [ladder(tp=tp) for tp in (1, 2, 4)]
CELLS = [c for arm in ARMS for c in arm]
UNIT = st.floats(0.0, 1.0, allow_nan=False)


@st.composite
def monotone_tails(draw: st.DrawFn) -> Table:
    table = {}
    for arm in ARMS:
        highest = {"ttft": 0.1, "e2e": 1.0, "tpot": 0.01}
        slack = {"ttft": 0.75, "e2e": 0.05, "tpot": 0.05}
        for cell in arm:
            tails = {m: top / (1.0 + slack[m]) * (1.0 + 2.0 * draw(UNIT)) for m, top in highest.items()}
            highest = {m: max(top, tails[m]) for m, top in highest.items()}
            table[cell.key] = row(cell, 1.0, tails["ttft"], e2e_s=tails["e2e"], tpot_s=tails["tpot"])
    return table


@st.composite
def rising_capacities(draw: st.DrawFn) -> Table:
    """Capacities that rise, never more than concurrency does, each within its slack; some cells overloaded, and lower."""
    table = {}
    for arm in ARMS:
        low, ratio = 0.0, 5.0
        for cell in arm:
            n = cell.offered or 1.0
            capacity = draw(st.floats(low / 1.02, max(ratio * n * 1.05, low / 1.02)))
            if draw(UNIT) < 0.2:
                table[cell.key] = row(cell, min(0.5 * capacity, ratio * n), success=0.5)
                low = max(low, min(0.5 * capacity, ratio * n))
                continue
            table[cell.key] = row(cell, capacity)
            low, ratio = max(low, capacity), min(ratio, capacity / n)
    return table


@st.composite
def within_the_datasheet(draw: st.DrawFn) -> Table:
    table = {}
    for cell in CELLS:
        iteration = 100e9 / (cell.key.tp * 2e12)
        top = min((cell.offered or 0.0) / (100.0 * iteration), float(cell.gpus))
        table[cell.key] = row(cell, top * draw(UNIT), tpot_s=iteration * (1.0 + draw(UNIT)))
    return table


@st.composite
def within_a_factor(draw: st.DrawFn) -> Table:
    return {c.key: row(c, c.gpus * (1.0 + 0.5 * draw(UNIT))) for c in CELLS}


@st.composite
def falling_with_tp(draw: st.DrawFn) -> Table:
    table = {}
    for place in range(len(LOADS)):
        least = math.inf
        for arm in ARMS:
            tail = min(least * 1.05, 3.0) * (0.2 + 0.8 * draw(UNIT))
            least = min(least, tail)
            table[arm[place].key] = row(arm[place], 1.0, tail)
    return table


@st.composite
def parabolas(draw: st.DrawFn) -> Table:
    curvature, peak = 0.1 + draw(UNIT), 1.5 * draw(UNIT)
    return {c.key: row(c, c.gpus * math.exp(-curvature * (math.log(c.key.tp) - peak) ** 2)) for c in CELLS}


TABLES: dict[str, tuple[Callable[[], st.SearchStrategy[Table]], Assumptions]] = {
    "tail_monotone": (monotone_tails, only("tail_monotone")),
    "capacity": (rising_capacities, {**NONE, "capacity_monotone": {}, "capacity_star": {}}),
    "roofline": (within_the_datasheet, only("roofline")),
    "ceiling": (within_a_factor, only("ceiling", factor=1.5)),
    "tail_monotone_tp": (falling_with_tp, only("tail_monotone_tp")),
    "interior_knee": (parabolas, only("interior_knee")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_truth_that_an_assumption_allows_lies_inside_the_bounds(name: str) -> None:
    tables, assumptions = TABLES[name]
    instance = instance_of(CELLS, assumptions, FACTS, Slo(2.0, 30.0, 0.1, 0.99))
    bounded = 0

    @settings(max_examples=150)
    @given(tables(), st.lists(st.booleans(), min_size=len(CELLS), max_size=len(CELLS)))
    def check(table: Table, revealed: list[bool]) -> None:
        nonlocal bounded
        rows = [table[c.key] for c, told in zip(CELLS, revealed, strict=True) if told]
        envelope = Envelope.of(instance, rows)
        assert not envelope.contradictions
        for cell in CELLS:
            b, truth = envelope[cell.key], table[cell.key]
            assert truth.throughput_rps.value is not None
            assert b.capacity_rps.lo <= truth.throughput_rps.value <= b.capacity_rps.hi * (1.0 + 1e-9)
            for metric, bounds in b.tails_s.items():
                value = truth.tail(metric).value
                assert value is not None
                assert bounds.lo * (1.0 - 1e-9) <= value <= bounds.hi
            bounded += bool(b.origins)

    check()
    assert bounded > 200
