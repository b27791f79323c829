"""What a measurement's status, its missing values and repeated looks do to a cell's bounds and to what may be asked next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest

from fleetsieve.answers.what_if import with_demand_scale
from fleetsieve.bounds.assumptions import MEMORY, ClassView, Contradiction, Limit
from fleetsieve.bounds.assumptions.memory_monotone import MemoryMonotone
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.standing import candidates
from fleetsieve.certificate import rests_on_bounds
from fleetsieve.instance import (
    ArmKey,
    Cell,
    CellKey,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    Pool,
    Reading,
    ServerKey,
    Slo,
    Status,
    WorkloadClass,
)
from fleetsieve.interval import Interval

CELLS = tuple(Cell(CellKey("chat", 1, f"c{n}"), 1, LoadKind.CONCURRENCY, float(n)) for n in (1, 2, 4))
LOW, MIDDLE, HIGH = (c.key for c in CELLS)
FLAKES = (Status.TIMEOUT, Status.CRASHED, Status.REJECTED)


def instance(slo: Slo | None = None, *cells: Cell) -> Instance:
    workload = WorkloadClass("chat", 10.0, slo or Slo(max_ttft_p99_s=1.0))
    return Instance("drawn", Fleet((Pool("default", 8),)), (workload,), cells or CELLS)


def good(key: CellKey, rps: float = 1.0, ttft_s: float | None = 0.5, **more: Reading) -> Measurement:
    return Measurement(key, throughput_rps=Reading(rps), ttft_p99_s=Reading(ttft_s), **more)


def ended(key: CellKey, *statuses: Status) -> list[Measurement]:
    return [good(key) if s is Status.OK else Measurement(key, seed=k, status=s) for k, s in enumerate(statuses)]


def envelope(*rows: Measurement, slo: Slo | None = None) -> Envelope:
    return Envelope.of(instance(slo), rows)


@pytest.mark.parametrize(
    ("statuses", "committable", "possible", "asked_again"),
    [
        ((), False, True, True),
        ((Status.OK,), True, True, False),
        ((Status.FAILED_START, Status.CRASHED), False, False, False),
        ((Status.OOM,), False, True, True),
        ((Status.OOM, Status.OOM), False, False, False),
        *[((flake,), False, True, True) for flake in FLAKES],
        *[((flake, flake), False, True, False) for flake in FLAKES],
        ((Status.TIMEOUT, Status.CRASHED), False, True, False),
        ((Status.CRASHED, Status.OK), True, True, False),
        ((Status.CRASHED, Status.OOM, Status.OOM), False, False, False),
        ((Status.OK, Status.CRASHED), False, True, True),
        ((Status.OK, Status.CRASHED, Status.CRASHED), False, True, False),
        ((Status.OK, Status.FAILED_START, Status.FAILED_START), False, True, False),
        ((Status.OK, Status.OOM, Status.OOM), False, True, False),
    ],
    ids=lambda value: "+".join(value) or "nothing" if isinstance(value, tuple) else None,
)
def test_how_a_look_ended(statuses: tuple[Status, ...], committable: bool, possible: bool, asked_again: bool) -> None:
    found = envelope(*ended(LOW, *statuses))
    assert (found[LOW].committable, found[LOW].possible) == (committable, possible)
    assert (LOW in candidates(found)) == asked_again


def test_no_sequence_of_failures_is_asked_for_ever() -> None:
    """Whatever comes back, in whatever order, a failing cell is left alone after a few looks."""
    for first in Status:
        for second in Status:
            for again in set(Status) - {Status.OK}:
                rows = ended(LOW, first, second, *[again] * 3)
                assert LOW not in candidates(envelope(*rows)), (first, second, again)


def test_two_oom_close_the_higher_loads_of_the_arm_alone() -> None:
    wide = replace(CELLS[2], key=HIGH._replace(server=ServerKey(2)), gpus=2)
    found = Envelope.of(instance(None, *CELLS, wide), ended(MIDDLE, Status.OOM, Status.OOM))
    assert [found[key].possible for key in (LOW, MIDDLE, HIGH, wide.key)] == [True, False, False, True]


def test_one_oom_or_a_failed_start_closes_no_other_load() -> None:
    for statuses in ((Status.OOM,), (Status.FAILED_START,), (Status.OOM, Status.CRASHED)):
        assert envelope(*ended(MIDDLE, *statuses))[HIGH].possible


def test_a_higher_load_that_ran_contradicts_an_oom() -> None:
    """Memory did not grow with load here, so the OOM says nothing of the loads between or above."""
    cells = (*CELLS, Cell(CellKey("chat", 1, "c8"), 1, LoadKind.CONCURRENCY, 8.0))
    found = Envelope.of(instance(None, *cells), [*ended(LOW, Status.OOM, Status.OOM), good(HIGH)])
    assert not found[LOW].possible
    assert found[MIDDLE].possible
    assert found[HIGH].committable
    assert found[cells[3].key].possible


def test_an_excluded_cell_is_neither_committed_nor_hoped_for_nor_asked() -> None:
    veto = replace(CELLS[0], excluded=True)
    for rows in ([], [good(LOW)]):
        found = Envelope.of(instance(None, veto, *CELLS[1:]), rows)
        assert not found[LOW].committable
        assert not found[LOW].possible
        assert LOW not in candidates(found)


def test_a_missing_slo_value_leaves_the_cell_unresolved() -> None:
    found = envelope(good(LOW, ttft_s=None))
    assert not found[LOW].committable
    assert found[LOW].possible
    assert LOW in candidates(found)


def test_an_empty_slo_is_no_limit() -> None:
    found = envelope(good(LOW, ttft_s=None), slo=Slo())
    assert found[LOW].committable
    assert found[LOW].resolved


def test_a_missing_success_rate_is_unresolved_only_where_a_floor_asks_for_it() -> None:
    assert envelope(good(LOW))[LOW].committable
    strict = Slo(max_ttft_p99_s=1.0, min_success=0.99)
    assert not envelope(good(LOW), slo=strict)[LOW].committable
    assert envelope(good(LOW, success_rate=Reading(0.99)), slo=strict)[LOW].committable
    assert not envelope(good(LOW, success_rate=Reading(0.98)), slo=strict)[LOW].possible


@pytest.mark.parametrize("metric", ["ttft", "e2e", "tpot"])
def test_each_tail_limit_is_kept_to_the_letter(metric: str) -> None:
    slo = Slo(**{f"max_{metric}_p99_s": 1.0})
    for value, meets in ((1.0, True), (math.nextafter(1.0, 2.0), False)):
        rows = Measurement(LOW, throughput_rps=Reading(1.0), **{f"{metric}_p99_s": Reading(value)})
        assert envelope(rows, slo=slo)[LOW].committable == meets
        assert envelope(rows, slo=slo)[LOW].possible == meets


def test_a_row_without_throughput_is_not_committed() -> None:
    found = envelope(Measurement(LOW, ttft_p99_s=Reading(0.5)))
    assert not found[LOW].committable
    assert found[LOW].capacity_rps == Interval(0.0, math.inf)
    assert LOW in candidates(found)


def test_rows_bring_bounds_of_their_own() -> None:
    row = Measurement(LOW, throughput_rps=Reading(1.0, 0.9, 1.1), ttft_p99_s=Reading(0.9, 0.8, 1.2))
    found = envelope(row)[LOW]
    assert found.capacity_rps == Interval(0.9, 1.1)
    assert found.tails_s["ttft"] == Interval(0.8, 1.2)
    assert not found.committable
    assert found.possible


def test_one_sided_bounds_take_the_value_or_the_end_of_the_range() -> None:
    found = envelope(Measurement(LOW, throughput_rps=Reading(lo=0.5), ttft_p99_s=Reading(0.5, hi=0.7)))[LOW]
    assert found.capacity_rps == Interval(0.5, math.inf)
    assert found.tails_s["ttft"] == Interval(0.5, 0.7)


def test_several_looks_give_the_hull() -> None:
    found = envelope(good(LOW, 1.0, 0.5), good(LOW, 1.2, 0.4), good(LOW, 1.1, 1.1))[LOW]
    assert found.capacity_rps == Interval(1.0, 1.2)
    assert found.tails_s["ttft"] == Interval(0.4, 1.1)
    assert not found.committable


def test_failed_looks_add_nothing_to_the_hull() -> None:
    broken = Measurement(LOW, status=Status.REJECTED, throughput_rps=Reading(9.0), ttft_p99_s=Reading(9.0))
    found = envelope(broken, good(LOW))[LOW]
    assert found.capacity_rps == Interval.point(1.0)
    assert found.tails_s["ttft"] == Interval.point(0.5)


def test_one_look_far_above_the_offered_rate_is_told_although_another_is_below() -> None:
    cell = Cell(CellKey("chat", 1, "r4"), 1, LoadKind.RATE, 4.0)
    found = Envelope.of(instance(None, cell), [good(cell.key, 3.5), good(cell.key, 8.0)])
    assert found[cell.key].capacity_rps == Interval(3.5, 8.0)


def test_a_larger_replica_than_the_pool_serves_nothing() -> None:
    huge = Cell(CellKey("chat", 16, "c1"), 16, LoadKind.CONCURRENCY, 1.0)
    found = Envelope.of(instance(None, huge), [good(huge.key)])
    assert found.unservable == ("chat",)


def test_what_no_plan_can_use_is_not_asked() -> None:
    huge = Cell(CellKey("chat", 16, "c1"), 16, LoadKind.CONCURRENCY, 1.0)
    split = replace(huge, key=CellKey("chat", 8, "c1"), gpus=8)
    assert candidates(Envelope.of(instance(None, *CELLS, huge))) == (LOW, MIDDLE, HIGH)
    noded = replace(instance(None, *CELLS, split), fleet=Fleet((Pool("default", 16, gpus_per_node=4),)))
    assert candidates(Envelope.of(noded)) == (LOW, MIDDLE, HIGH)
    assert candidates(Envelope.of(with_demand_scale(instance(), 0.0))) == ()


def test_a_cell_that_straddles_its_slo_is_not_asked_again() -> None:
    """A row without statistics behind it narrows nothing: asking again would never end."""
    straddling = Measurement(LOW, throughput_rps=Reading(1.0), ttft_p99_s=Reading(lo=0.5, hi=2.0))
    assert not envelope(straddling)[LOW].resolved
    assert candidates(envelope(straddling)) == (MIDDLE, HIGH)


def test_a_missing_slo_value_is_looked_for_once_more() -> None:
    silent = [good(LOW, ttft_s=None), replace(good(LOW, ttft_s=None), seed=1)]
    assert LOW in candidates(envelope(silent[0]))
    assert LOW not in candidates(envelope(*silent))
    assert envelope(silent[0], replace(good(LOW), seed=1))[LOW].committable


def test_cells_closed_by_memory_are_told() -> None:
    closed = envelope(*ended(MIDDLE, Status.OOM, Status.OOM))
    assert "closed for good, out of memory twice: chat TP1 c2" in rests_on_bounds(closed)
    assert "closed for good, a higher load than one that ran out of memory twice: chat TP1 c4" in rests_on_bounds(
        closed
    )
    started = envelope(*ended(MIDDLE, Status.FAILED_START), good(LOW))
    assert "closed for good, its server failed to start: chat TP1 c2" in rests_on_bounds(started)
    assert not any(line.startswith("closed for good") for line in rests_on_bounds(envelope(good(LOW))))


def test_what_a_verdict_rests_on_tells_points_bounds_and_repeats_apart() -> None:
    bounded = replace(good(HIGH), throughput_rps=Reading(1.0, lo=0.9))
    rows = [good(LOW), replace(good(LOW, 1.1), seed=1), good(MIDDLE), bounded]
    lines = "\n".join(rests_on_bounds(envelope(*rows)))
    assert "point values: 1 of 3" in lines
    assert "stated bounds: 1 of 3" in lines
    assert "repeats: 1 of 3" in lines


@dataclass(frozen=True)
class TooSmall:
    """Another assumption about memory: loads of 4 and more do not fit."""

    name: str = "kv_cache"
    across_arms: bool = False

    def describe(self) -> str:
        return "loads of 4 and more do not fit"

    def audit(self, view: ClassView) -> Iterable[Contradiction]:
        return ()

    def limits(self, view: ClassView, holds: Callable[[ArmKey, str], bool]) -> Iterable[Limit]:
        return (Limit(c.key, MEMORY, 0.0) for cells in view.ladders.values() for c in cells if (c.offered or 0.0) >= 4)


def test_what_memory_rules_out_names_the_assumption_that_said_it() -> None:
    found = Envelope.of(instance()).assuming((MemoryMonotone(), TooSmall()))
    assert (found[HIGH].possible, found[HIGH].origins) == (False, {MEMORY: "kv_cache"})
    assert [a.name for a in found.in_force] == ["kv_cache"]
    assert found.classes["chat"].closed == {HIGH: "memory, by kv_cache"}
    twice = envelope(*ended(MIDDLE, Status.OOM, Status.OOM)).assuming((MemoryMonotone(), TooSmall()))
    assert twice[HIGH].origins == {MEMORY: "memory_monotone"}
