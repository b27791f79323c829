"""Looks that are drawn: the same for the same question, centred on the truth, and scattered as stated."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fleetsieve.bounds.statistics.intervals import p99_interval
from fleetsieve.bounds.statistics.points import point_row
from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey, Measurement, Reading, Status
from fleetsieve.probes.noisy import Noisy, long_run
from fleetsieve.probes.resampled import Resampled
from fleetsieve.records import RequestRecords

KEY, OTHER = CellKey("chat", 2, "c8"), CellKey("chat", 4, "c8")
ROW = Measurement(
    KEY, throughput_rps=Reading(4.0), success_rate=Reading(0.995), ttft_p99_s=Reading(0.5), tpot_p99_s=Reading(0.05)
)
SPREAD = {"ttft": 0.12, "e2e": 0.035, "tpot": 0.03, "throughput": 0.01}


ROWS = (ROW, replace(ROW, key=OTHER))


def noisy(seed=0, trial=0, spread=SPREAD, rows=ROWS):
    return Noisy(rows, spread, seed=seed, trial=trial, looks=5)


def requests(count=400, seed=1):
    """A window of 100 s: log-normal latencies, one request in a hundred failed, a few of the warm-up."""
    rng = np.random.default_rng(seed)
    ttft = rng.lognormal(-1.0, 0.5, count)
    e2e = ttft + rng.lognormal(0.0, 0.3, count)
    ok = rng.random(count) > 0.01
    return RequestRecords(rng.uniform(-2.0, 100.0, count), ttft, e2e, (e2e - ttft) / 20.0, ok, 100.0)


def test_a_look_is_the_same_whenever_it_is_asked_for():
    forwards, backwards = noisy(), noisy()
    first = [forwards.measure(key, look) for key in (KEY, OTHER) for look in range(3)]
    second = [backwards.measure(key, look) for key in (OTHER, KEY) for look in reversed(range(3))]
    assert sorted(first, key=lambda row: (row.key, row.seed)) == sorted(second, key=lambda row: (row.key, row.seed))


def test_looks_cells_trials_and_seeds_differ():
    drawn = [
        noisy(seed, trial).measure(key, look).ttft_p99_s.value
        for seed in (0, 1)
        for trial in (0, 1)
        for key in (KEY, OTHER)
        for look in (0, 1)
    ]
    assert len(set(drawn)) == 16


def test_the_draws_scatter_as_stated_around_the_truth():
    probe = Noisy([ROW], SPREAD, seed=7, trial=0, looks=4000)
    rows = [probe.measure(KEY, look) for look in range(4000)]
    columns = []
    for name, sigma, truth in (("ttft_p99_s", 0.12, 0.5), ("tpot_p99_s", 0.03, 0.05), ("throughput_rps", 0.01, 4.0)):
        logs = np.log([getattr(row, name).value / truth for row in rows])
        columns.append(logs)
        assert abs(np.mean(logs)) < 4.0 * sigma / math.sqrt(4000)
        assert np.std(logs) == pytest.approx(sigma, rel=0.05)
    assert np.abs(np.corrcoef(columns)[np.triu_indices(3, 1)]).max() < 0.07
    assert {row.success_rate for row in rows} == {ROW.success_rate}
    assert {row.e2e_p99_s for row in rows} == {ROW.e2e_p99_s}
    assert len({row.seed for row in rows}) == 4000


def test_without_a_spread_the_truth_is_seen():
    assert noisy(spread={}).measure(KEY, 0) == ROW


def test_the_draw_of_one_quantity_does_not_hang_on_the_others():
    alone = noisy(spread={"tpot": 0.03}).measure(KEY, 0)
    assert alone.tpot_p99_s == noisy().measure(KEY, 0).tpot_p99_s
    assert alone.ttft_p99_s == ROW.ttft_p99_s


def test_a_failure_stays_one():
    failed = Measurement(KEY, status=Status.OOM)
    assert noisy(rows=(failed,)).measure(KEY, 3) == replace(failed, seed=3)


def test_every_cell_of_the_truth_can_be_looked_at_so_often():
    assert noisy().looks == {KEY: 5, OTHER: 5}


@pytest.mark.parametrize("spread", [{"ttfd": 0.1}, {"ttft": -0.1}, {"ttft": math.inf}, {"ttft": math.nan}])
def test_a_spread_that_cannot_be_is_refused(spread):
    with pytest.raises(UsageError, match="a spread of"):
        noisy(spread=spread)


def test_the_long_run_of_several_rows():
    twice = [
        replace(ROW, seed=k, throughput_rps=Reading(v), success_rate=Reading(s))
        for k, v, s in ((0, 2.0, 1.0), (1, 8.0, 0.9))
    ]
    failed = Measurement(KEY, 2, Status.CRASHED)
    (row,) = long_run([*twice, failed])
    assert row.throughput_rps.value == pytest.approx(4.0)
    assert row.success_rate.value == pytest.approx(0.95)
    assert (row.ttft_p99_s, row.e2e_p99_s.value) == (ROW.ttft_p99_s, None)
    assert long_run([Measurement(OTHER, 0, Status.OOM), Measurement(OTHER, 1, Status.OOM)])[0].status is Status.OOM


def test_a_resample_has_the_requests_of_its_cell():
    table = replace(ROW, records=requests())
    probe = Resampled([table], seed=0, trial=0, looks=3)
    drawn = [probe.measure(KEY, look) for look in (0, 1)]
    for row in drawn:
        assert row.records is not None
        assert len(row.records.ok) == 400
        assert set(zip(row.records.sent_at_s, row.records.e2e_s, row.records.ok, strict=True)) < set(
            zip(table.records.sent_at_s, table.records.e2e_s, table.records.ok, strict=True)
        )
        assert row == replace(point_row(table, row.records), seed=row.seed)
    assert drawn[0].ttft_p99_s != drawn[1].ttft_p99_s
    assert drawn[0] == Resampled([table], seed=0, trial=0, looks=1, with_records=False).measure(KEY, 0)
    assert Resampled([table], seed=0, trial=0, looks=1, with_records=False).measure(KEY, 0).records is None


def test_point_values_of_records():
    ttft = np.arange(1.0, 201.0)
    ok = np.arange(200) != 199
    records = RequestRecords(np.linspace(0.0, 50.0, 200), ttft, ttft, np.full(200, np.nan), ok, 100.0)
    row = point_row(ROW, records)
    assert row.ttft_p99_s.value == 198.0  # the 198th of 199: ceil(0.99 x 199)
    assert row.tpot_p99_s.value is None
    assert row.success_rate.value == 199 / 200
    assert (
        row.throughput_rps.value
        == sum(sent + e2e <= 100.0 for sent, e2e in zip(records.sent_at_s, ttft, strict=True)) / 100
    )


def test_order_statistics_of_resamples_hold_the_table_p99_as_often_as_they_say():
    table = replace(ROW, records=requests(1200))
    truth = point_row(table, table.records).ttft_p99_s.value
    probe = Resampled([table], seed=3, trial=0, looks=400)
    intervals = [p99_interval(probe.measure(KEY, look).records.latencies_s("ttft"), 0.05) for look in range(400)]
    # At most 5 % a side, four standard errors above it.
    assert sum(truth > i.hi for i in intervals) / 400 <= 0.05 + 4.0 * math.sqrt(0.05 * 0.95 / 400)
    assert sum(truth < i.lo for i in intervals) / 400 <= 0.05 + 4.0 * math.sqrt(0.05 * 0.95 / 400)
    assert sum(truth > i.hi or truth < i.lo for i in intervals) > 0


def test_a_cell_without_records_cannot_be_resampled():
    with pytest.raises(UsageError, match="no per-request records of chat TP2 c8"):
        Resampled([ROW], seed=0, trial=0, looks=1)
