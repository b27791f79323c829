"""Several looks at one cell: what they spend, what the spread between runs widens, and what stays exact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.standing import candidates
from fleetsieve.bounds.statistics import REFERENCE_SPREAD, Rules, Spread, imagine, shares, summarise
from fleetsieve.bounds.statistics.intervals import batch_rates_rps
from fleetsieve.certificate.sentence import rests_on_bounds
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
    WorkloadClass,
)
from fleetsieve.interval import Interval
from fleetsieve.records import RequestRecords

CELLS = tuple(Cell(CellKey("chat", 2, f"c{n}"), 2, LoadKind.CONCURRENCY, float(n)) for n in (1, 2, 4, 8))
CELL = CELLS[0]
SLO = Slo(max_ttft_p99_s=1.0)
INSTANCE = Instance("looks", Fleet((Pool("default", 8),)), (WorkloadClass("chat", 10.0, SLO),), CELLS)
NOISY = replace(INSTANCE, noise=REFERENCE_SPREAD)
VALUES = st.floats(0.01, 100.0)


def look(seed: int, rate: float = 2.0, ttft: float = 0.5, cell: Cell = CELL) -> Measurement:
    return Measurement(cell.key, seed, throughput_rps=Reading(rate), ttft_p99_s=Reading(ttft))


def told(rows: list[Measurement], instance: Instance = NOISY) -> Envelope:
    return Envelope.of(instance, rows)


def test_sides_in_use_share_the_error() -> None:
    assert shares(INSTANCE) == 4 * 4
    assert shares(replace(INSTANCE, certificate=CertificateSettings(family="cell"))) == 4
    both = replace(INSTANCE, classes=(WorkloadClass("chat", 10.0, Slo(1.0, 2.0, None, 0.99)),))
    assert shares(both) == 4 * 8
    assert shares(replace(INSTANCE, cells=(replace(CELL, excluded=True), *CELLS[1:]))) == 3 * 4


def test_looks_spend_no_more_than_the_error_in_all() -> None:
    rules = Rules(0.01)
    spent = [rules.spent(k) for k in range(1, 100_000)]
    assert spent == sorted(spent, reverse=True)
    assert math.fsum(spent) < 0.01
    assert math.fsum(spent) == pytest.approx(0.01, rel=1e-4)


@given(st.lists(VALUES, min_size=1, max_size=6), st.randoms())
def test_the_order_of_looks_does_not_matter(values: list[float], random: object) -> None:
    rules = Rules.of(NOISY)
    rows = [look(seed, value) for seed, value in enumerate(values)]
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = summarise(CELL, rows, rules).capacity_rps, summarise(CELL, shuffled, rules).capacity_rps
    assert one is not None
    assert other is not None
    assert (one.lo, one.hi) == pytest.approx((other.lo, other.hi))


def test_a_declared_spread_widens_and_repeats_narrow() -> None:
    rules = Rules.of(NOISY)
    widths = []
    for count in range(1, 9):
        capacity = summarise(CELL, [look(seed) for seed in range(count)], rules).capacity_rps
        assert capacity is not None
        assert 2.0 in capacity
        widths.append(math.log(capacity.hi / capacity.lo))
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == pytest.approx(2 * Spread(0.01).half_width(rules.spent(1), 1))


def test_intervals_of_noisy_looks_hold_at_every_look() -> None:
    generator, rules = np.random.default_rng(3), Rules(0.05, {"ttft": Spread(0.3)})
    trials, wrong = 3000, 0
    for _ in range(trials):
        rows = [look(seed, ttft=math.exp(0.3 * error)) for seed, error in enumerate(generator.standard_normal(5))]
        tails = [summarise(CELL, rows[: k + 1], rules).ttft_p99_s for k in range(5)]
        wrong += any(tail is not None and tail.hi < 1.0 for tail in tails)
    assert 0 < wrong / trials < 0.05


def test_without_a_known_spread_points_are_exact_and_repeats_their_hull() -> None:
    rules = Rules.of(INSTANCE)
    known = summarise(CELL, [look(0, 2.0), look(1, 3.0)], rules)
    assert known.capacity_rps == Interval(2.0, 3.0)
    assert summarise(CELL, [look(0)], rules).ttft_p99_s == Interval.point(0.5)


def test_the_spread_is_estimated_from_repeats_once_they_are_enough() -> None:
    few = [look(seed, 2.0 + 0.1 * seed) for seed in range(4)]
    assert not Rules.of(INSTANCE, few).spreads
    enough = [look(seed, 2.0 + 0.1 * seed) for seed in range(5)]
    spread = Rules.of(INSTANCE, enough).spreads["throughput"]
    logs = np.log([2.0, 2.1, 2.2, 2.3, 2.4])
    assert spread.dof == 4
    assert spread.sigma == pytest.approx(float(np.std(logs, ddof=1)))
    assert Rules.of(NOISY, enough).spreads["throughput"] == Spread(0.01)


def test_a_straddling_cell_is_a_candidate_until_the_looks_are_used_up() -> None:
    assert CELL.key not in candidates(told([look(0, ttft=1.01)], INSTANCE))
    assert CELL.key in candidates(told([look(0, ttft=1.01)]))
    assert CELL.key not in candidates(told([look(0, ttft=5.0)]))
    limited = replace(NOISY, measure=MeasureSettings(max_looks=3))
    rows = [look(seed, ttft=1.01) for seed in range(3)]
    assert CELL.key in candidates(told(rows[:2], limited))
    assert CELL.key not in candidates(told(rows, limited))


def records(count: int, *, failed: int = 0, seed: int = 0, window_s: float = 100.0) -> RequestRecords:
    generator = np.random.default_rng(seed)
    ok = np.arange(count) >= failed
    ttft = np.where(ok, generator.exponential(0.1, count), np.nan)
    sent = generator.uniform(0.0, window_s - 1.0, count)
    return RequestRecords(sent, ttft, ttft + 0.2, np.full(count, np.nan), ok, window_s)


def test_records_decide_over_the_rows_own_figures() -> None:
    row = replace(look(0, rate=99.0, ttft=99.0), records=records(4000, failed=8))
    known = summarise(CELL, [row], Rules.of(INSTANCE), SLO)
    assert known.ttft_p99_s is not None
    assert 0.4 < known.ttft_p99_s.lo < 0.1 * math.log(100) < known.ttft_p99_s.hi < 0.7
    assert known.success is not None
    assert known.success.lo < 3992 / 4000 < known.success.hi < 1.0
    assert known.capacity_rps is not None
    assert 39.92 in known.capacity_rps
    assert known.missing_requests == 0


def test_an_open_loop_carried_what_it_was_sent_until_that_was_answered() -> None:
    offered = Cell(CellKey("chat", 2, "r40"), 2, LoadKind.RATE, 40.0)
    even = replace(records(4000), sent_at_s=np.linspace(0.0, 100.0, 4000, endpoint=False))
    served = summarise(offered, [replace(look(0), key=offered.key, records=even)], Rules(1e-6)).capacity_rps
    assert served is not None
    assert 4000 / 103.0 < served.lo <= served.hi == 40.0
    behind = replace(even, e2e_s=0.2 + 0.5 * even.sent_at_s)
    overloaded = summarise(offered, [replace(look(0), key=offered.key, records=behind)], Rules(1e-6)).capacity_rps
    assert overloaded is not None
    assert overloaded.lo == pytest.approx(40.0 / 1.5, rel=0.01)


def test_repeats_with_records_pool_the_spread_that_their_requests_do_not_explain() -> None:
    def spread(sigma: float) -> float:
        generator, rows = np.random.default_rng(5), []
        for number in range(30):
            drawn = records(2000, seed=number)
            ttft = drawn.ttft_s * math.exp(sigma * float(generator.standard_normal()))
            rows.append(
                replace(
                    look(number),
                    ttft_p99_s=Reading(float(np.quantile(ttft, 0.99))),
                    records=replace(drawn, ttft_s=ttft),
                )
            )
        pooled = Rules.of(INSTANCE, rows).spreads.get("ttft")
        return pooled.sigma if pooled is not None else 0.0

    within = 0.1 / math.sqrt(2000 * 0.01) * 10.0 / math.log(100)
    assert spread(0.0) < 0.6 * within
    assert spread(0.2) == pytest.approx(0.2, rel=0.25)


def test_a_window_is_cut_into_batches_longer_than_requests_last() -> None:
    quick = records(4000)
    slow = replace(quick, e2e_s=np.full(4000, 1.0))
    slower = replace(quick, e2e_s=np.full(4000, 30.0))
    assert [len(batch_rates_rps(one)) for one in (quick, slow, slower)] == [30, 20, 10]


def test_too_few_requests_leave_the_bound_open_and_say_how_many_are_missing() -> None:
    rules = Rules.of(INSTANCE)
    row = replace(look(0), records=records(300))
    known = summarise(CELL, [row], rules, SLO)
    assert known.ttft_p99_s is not None
    assert known.ttft_p99_s.hi == math.inf
    needed = math.ceil(math.log(rules.spent(1)) / math.log(0.99))
    assert known.missing_requests == needed - 300
    envelope = told([row], INSTANCE)
    assert any(f"needs {needed - 300} more requests" in line for line in rests_on_bounds(envelope))
    assert CELL.key in candidates(envelope)
    twice = summarise(CELL, [replace(look(k), records=records(500, seed=k)) for k in range(2)], rules, SLO)
    assert twice.ttft_p99_s is not None
    assert twice.ttft_p99_s.hi < math.inf


def test_a_failed_request_counts_against_success_and_never_into_latency() -> None:
    mixed = records(1000, failed=500)
    assert mixed.succeeded == 500
    assert len(mixed.latencies_s("ttft")) == 500
    assert len(mixed.latencies_s("tpot")) == 0


def test_what_is_taken_for_the_spread_is_said() -> None:
    lines = rests_on_bounds(told([look(0)]))
    assert any("throughput 0.01 (declared)" in line and "ttft_p99 0.12" in line for line in lines)
    assert any(line.startswith("runs: 1 of 1") for line in lines)


@given(VALUES, st.floats(0.1, 3.0))
@settings(max_examples=50)
def test_an_imagined_look_is_what_a_real_one_would_say(rate: float, ttft: float) -> None:
    for instance in (INSTANCE, NOISY):
        rules = Rules.of(instance)
        real = summarise(CELL, [look(0, rate, ttft)], rules)
        imagined = imagine(None, CELL, rules, capacity_rps=rate, tails_s={"ttft": ttft})
        for one, other in ((real.capacity_rps, imagined.capacity_rps), (real.ttft_p99_s, imagined.ttft_p99_s)):
            assert one is not None
            assert other is not None
            assert (one.lo, one.hi) == pytest.approx((other.lo, other.hi))
    rules = Rules.of(NOISY)
    before = summarise(CELL, [look(0), look(1)], rules)
    third = summarise(CELL, [look(0), look(1), look(2, rate, ttft)], rules)
    imagined = imagine(before, CELL, rules, capacity_rps=rate, tails_s={"ttft": ttft})
    assert third.ttft_p99_s is not None
    assert imagined.ttft_p99_s is not None
    assert imagined.ttft_p99_s.lo == pytest.approx(third.ttft_p99_s.lo)
    assert imagined.ttft_p99_s.hi == pytest.approx(third.ttft_p99_s.hi)
