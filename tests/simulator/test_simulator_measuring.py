"""What a cell's measurement says: honest, repeatable, and the same alone as in a grid."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import replace

import numpy as np
import pytest

from fleetsieve.errors import UsageError
from fleetsieve.instance import LoadKind, Status
from fleetsieve.simulator import RECORD_COLUMNS, CellRun, Simulation, simulate_cell
from fleetsieve.simulator.traffic import Lengths, segment_arrivals


def ladder(spec: Simulation, class_name: str, tp: int) -> list[CellRun]:
    keys = [cell.key for cell in spec.instance().cells]
    return [
        simulate_cell(spec, key.class_name, key.tp, key.load)
        for key in keys
        if (key.class_name, key.tp) == (class_name, tp)
    ]


def test_same_seed_same_bytes_and_another_seed_other_bytes(chat_code: Simulation) -> None:
    first, again = (simulate_cell(chat_code, "chat", 4, "r6") for _ in range(2))
    assert first.records_csv_gz() == again.records_csv_gz()
    assert first.measurement == again.measurement
    other = simulate_cell(replace(chat_code, seed=32), "chat", 4, "r6")
    repeated = simulate_cell(chat_code, "chat", 4, "r6", repeat=1)
    assert len({first.records_csv_gz(), other.records_csv_gz(), repeated.records_csv_gz()}) == 3
    assert repeated.measurement.seed == 1


def test_a_cell_alone_equals_the_cell_in_the_grid(chat_code: Simulation) -> None:
    chat = chat_code.classes[0]
    alone = replace(chat_code, classes=(replace(chat, loads={4: chat.loads[4]}),))
    assert simulate_cell(alone, "chat", 4, "r6").measurement == simulate_cell(chat_code, "chat", 4, "r6").measurement


def test_the_row_follows_from_the_records(chat_code: Simulation) -> None:
    run = simulate_cell(chat_code, "code", 4, "r8")
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(run.records_csv_gz()).decode())))
    row = run.measurement
    assert tuple(rows[0]) == RECORD_COLUMNS
    warm_up = [r for r in rows if float(r["sent_at_s"]) < 0.0]
    assert warm_up
    assert all(r["status"] == "ok" and float(r["sent_at_s"]) + float(r["e2e_s"]) >= -2e-6 for r in warm_up)
    rows = [r for r in rows if r not in warm_up]
    assert all(float(r["sent_at_s"]) < 270.0 for r in rows)
    assert len(rows) == row.requests
    assert row.throughput_rps.value == pytest.approx(sum(r["status"] == "ok" for r in rows) / 270.0, abs=1e-6)
    ttft = [float(r["ttft_s"]) for r in rows]
    tpot = [
        (float(r["e2e_s"]) - float(r["ttft_s"])) / (int(r["output_tokens"]) - 1)
        for r in rows
        if int(r["output_tokens"]) > 1
    ]
    assert row.ttft_p99_s.value == pytest.approx(np.percentile(ttft, 99), abs=2e-6)
    assert row.tpot_p99_s.value == pytest.approx(np.percentile(tpot, 99), abs=2e-6)


def test_an_overloaded_cell_says_so(chat_code: Simulation) -> None:
    spec = replace(chat_code, timeout_s=20.0)
    run = simulate_cell(spec, "chat", 2, "r4")
    row = run.measurement
    failed = [r for r in run.records() if r[5] == "timeout"]
    assert row.success_rate.value == pytest.approx(1 - len(failed) / len(run.requests), abs=1e-6)
    assert failed
    assert all(e2e is None for *_, e2e, _ in failed)
    assert row.e2e_p99_s.value is not None
    assert row.e2e_p99_s.value <= 20.5


def test_no_success_at_all_is_a_timeout(chat_code: Simulation) -> None:
    row = simulate_cell(replace(chat_code, timeout_s=0.01), "chat", 2, "r1").measurement
    assert row.status is Status.TIMEOUT
    assert row.throughput_rps.value == 0.0
    assert row.ttft_p99_s.value is None


def test_a_model_that_does_not_fit_fails_to_start(chat_code: Simulation) -> None:
    chat = replace(chat_code.classes[0], loads={1: (1.0,)})
    spec = replace(chat_code, llm=replace(chat_code.llm, weight_bytes=70e9), classes=(chat,))
    run = simulate_cell(spec, "chat", 1, "r1")
    assert run.measurement.status is Status.FAILED_START
    assert run.served is None
    assert run.records() == []


def test_an_unknown_cell_is_told(chat_code: Simulation) -> None:
    with pytest.raises(UsageError, match="has no cell"):
        simulate_cell(chat_code, "chat", 4, "r5")


@pytest.mark.parametrize(("class_name", "tp"), [("chat", 2), ("chat", 4), ("chat", 8), ("code", 4)])
def test_tails_rise_with_load_and_throughput_stays_under_the_offer(
    chat_code: Simulation, class_name: str, tp: int
) -> None:
    runs = ladder(chat_code, class_name, tp)
    for run, offered in zip(runs, chat_code.classes[class_name == "code"].loads[tp], strict=True):
        served = run.measurement.throughput_rps.value
        assert served is not None
        assert served <= offered
    lowest, highest = runs[0].measurement, runs[-1].measurement
    for metric in ("ttft", "e2e", "tpot"):
        low, high = lowest.tail(metric).value, highest.tail(metric).value
        assert low is not None
        assert high is not None
        assert low < high


def test_more_gpus_lower_the_time_per_token_at_low_load(chat_code: Simulation) -> None:
    chat = replace(chat_code.classes[0], loads=dict.fromkeys((2, 4, 8), (1.0,)))
    spec = replace(chat_code, classes=(chat,))
    tpot = [simulate_cell(spec, "chat", tp, "r1").measurement.tpot_p99_s.value for tp in (2, 4, 8)]
    assert tpot == sorted(tpot, reverse=True)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_a_closed_loop_keeps_to_the_roofline_and_to_little(four_class: Simulation, tp: int) -> None:
    workload = next(c for c in four_class.classes if c.stated.name == "summarise")
    assert workload.load_kind is LoadKind.CONCURRENCY
    best_step = four_class.llm.weight_bytes / (tp * four_class.gpu.hbm_bytes_per_s)
    previous = 0.0
    for run, offered in zip(ladder(four_class, "summarise", tp), workload.loads[tp], strict=True):
        row = run.measurement
        outputs = float(np.mean([r.output_tokens for r in run.requests]))
        e2e = float(np.mean([r.ended_s - r.sent_s for r in run.requests if r.ended_s is not None]))
        rate = row.throughput_rps.value
        assert rate is not None
        assert rate <= 1.02 * offered / (outputs * best_step)
        assert rate * e2e == pytest.approx(offered, rel=0.1)
        assert rate >= 0.98 * previous
        assert row.tpot_p99_s.value is not None
        assert row.tpot_p99_s.value >= best_step
        previous = rate


def test_lengths_have_the_mean_that_they_state() -> None:
    lengths = Lengths(350, 0.8, 16, 1024)
    drawn = lengths.draw(np.random.default_rng(0), 200_000)
    assert np.mean(drawn) == pytest.approx(lengths.mean, rel=0.01)
    assert Lengths(40, 0.0, 1, 30).mean == 30


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 3.0])
def test_arrivals_have_the_count_and_the_burstiness_asked_for(cv: float) -> None:
    times = segment_arrivals(np.random.default_rng(1), 5.0, 4005.0, 5.0, cv)
    gaps = np.diff(times)
    assert len(times) == 20_000
    assert times[0] >= 5.0
    assert times[-1] < 4005.0
    assert gaps.min() >= 0.0
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05, abs=1e-3)
