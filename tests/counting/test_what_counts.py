"""Which measurements count, one case for each reason; the same rule reads what was measured live and what was imported."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.standing import candidates
from fleetsieve.bounds.statistics import why_not_counted
from fleetsieve.bounds.statistics.counting import NEVER_STARTED, allowed_late_s
from fleetsieve.certificate import Verdict, certify, rests_on_bounds
from fleetsieve.certificate.sentence import verdict_sentence
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.instance import (
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
from fleetsieve.records import RequestRecords

SHARED = Path(__file__).resolve().parents[3] / "shared"
LOOP = Cell(CellKey("chat", 2, "c32"), 2, LoadKind.CONCURRENCY, 32.0)
RATE = Cell(CellKey("chat", 2, "r8"), 2, LoadKind.RATE, 8.0)
CHAT = WorkloadClass("chat", 10.0, Slo(max_ttft_p99_s=2.0, max_e2e_p99_s=30.0), floor_rps=8.0, output_tokens=200.0)


def points(cell: Cell, rps: float, *, success: float | None = 1.0, **more: object) -> Measurement:
    given = {name: Reading(value) if name.endswith("p99_s") else value for name, value in more.items()}
    told = Reading(success) if success is not None else Reading()
    return Measurement(cell.key, throughput_rps=Reading(rps), success_rate=told, **given)  # type: ignore[arg-type]


def recorded(
    cell: Cell,
    rate_rps: float,
    *,
    pace: float = 1.0,
    late_s: float = 0.0,
    e2e_s: float = 2.0,
    tokens: float = 200.0,
    ok: bool = True,
) -> Measurement:
    """A window of 100 s, sent at `pace` of its schedule and `late_s` after it."""
    sent = np.arange(0.0, 100.0, 1.0 / rate_rps)
    count = len(sent)
    latency = np.full(count, e2e_s)
    due = sent * pace - late_s if cell.load_kind is LoadKind.RATE else None
    records = RequestRecords.from_requests(
        sent, latency / 10.0, latency, np.full(count, tokens), np.full(count, ok), 100.0, due
    )
    return Measurement(cell.key, window_s=100.0, records=records)


def filled(row: Measurement) -> Measurement:
    """The row with 64 more requests that were refused before the window and never ended: they hold no loop."""
    r, more = row.records, 64
    assert r is not None
    nothing, before = np.full(more, np.nan), np.full(more, -5.0)
    columns = zip((r.sent_at_s, r.ttft_s, r.e2e_s, r.tpot_s), (before, nothing, nothing, nothing), strict=True)
    joined = [np.concatenate(pair) for pair in columns]
    return replace(row, records=RequestRecords(*joined, np.concatenate([r.ok, np.zeros(more, bool)]), r.window_s))


@pytest.mark.parametrize(
    ("cell", "row", "word"),
    [
        (LOOP, points(LOOP, 2.0, e2e_p99_s=20.0), ""),
        (LOOP, points(LOOP, 0.5, e2e_p99_s=1.0), "at most 0.5 requests were in flight, of 32"),
        (LOOP, points(LOOP, 0.5, success=None, e2e_p99_s=1.0), "not held"),
        (LOOP, points(LOOP, 1.0, e2e_p50_s=5.0, e2e_p99_s=30.0), "at most 17.5 requests"),
        (LOOP, points(LOOP, 0.5), ""),
        (LOOP, points(LOOP, 0.5, success=0.6, e2e_p99_s=1.0), "at most 1.17 requests"),
        (LOOP, points(LOOP, 0.5, success=0.98, e2e_p99_s=1.0), "at most 0.52 requests"),
        (LOOP, points(LOOP, 1.0, success=0.3, e2e_p99_s=20.0), ""),
        (LOOP, points(LOOP, 100.0, e2e_p50_s=10.0, e2e_p99_s=11.0), "at least 500 requests were in flight, of 32"),
        (LOOP, points(LOOP, 2.0, requests=0, e2e_p99_s=20.0), "no request succeeded"),
        (LOOP, recorded(LOOP, 160.0), "requests were in flight, of 32"),
        (LOOP, recorded(LOOP, 0.64, e2e_s=50.0), ""),
        (LOOP, filled(recorded(LOOP, 1.0, e2e_s=1.0)), "requests were in flight, of 32"),
        (RATE, points(RATE, 30.0), "30 requests/s were served, of 8 offered"),
        (LOOP, points(LOOP, 1.0, success=0.0, e2e_p99_s=1.0), "no request succeeded"),
        (LOOP, points(LOOP, 0.0, success=None), "no request succeeded"),
        (LOOP, recorded(LOOP, 16.0), ""),
        (LOOP, recorded(LOOP, 8.0), "requests were in flight, of 32"),
        (LOOP, recorded(LOOP, 16.0, ok=False), "no request succeeded"),
        (RATE, points(RATE, 8.0, e2e_p99_s=1.0, window_s=270.0), ""),
        (RATE, points(RATE, 4.0, e2e_p99_s=100.0, window_s=270.0), ""),
        (RATE, points(RATE, 4.0, e2e_p99_s=1.0, window_s=270.0), "4 of 8 requests/s were served for 270 s"),
        (RATE, points(RATE, 4.0, e2e_p99_s=1.0), ""),
        (RATE, recorded(RATE, 8.0), ""),
        (RATE, recorded(RATE, 6.0, pace=0.6), "at 60% of their scheduled rate"),
        (RATE, recorded(RATE, 8.0, late_s=0.6), "1 % of the requests were sent 0.6 s off their time or more (limit 0.5 s)"),
        (RATE, recorded(RATE, 8.0, late_s=0.4), ""),
        (RATE, recorded(RATE, 8.0, late_s=-20.0), "20 s off their time"),
        (RATE, recorded(RATE, 2.0), "2 requests/s were sent, of 8"),
        (RATE, recorded(RATE, 20.0), "20 requests/s were sent, of 8"),
        (RATE, recorded(RATE, 8.0, tokens=1.0), "1 output tokens on average, of 200"),
        (RATE, Measurement(RATE.key, status=Status.TIMEOUT), ""),
    ],
)  # fmt: skip
def test_why_a_measurement_does_not_count(cell: Cell, row: Measurement, word: str) -> None:
    said = why_not_counted(cell, row, CHAT)
    assert bool(said) == bool(word)
    assert word in said


def test_how_late_a_client_may_be_follows_its_ttft_limit() -> None:
    assert allowed_late_s(CHAT, 270.0) == 0.5
    assert allowed_late_s(replace(CHAT, slo=Slo(max_ttft_p99_s=0.02)), 270.0) == 0.01
    assert allowed_late_s(replace(CHAT, slo=Slo()), 270.0) == 27.0
    assert allowed_late_s(replace(CHAT, slo=Slo()), 1.0) == 0.25


def fleet(*cells: Cell, workload: WorkloadClass = CHAT) -> Instance:
    return Instance("drawn", Fleet((Pool("default", 8),)), (workload,), cells)


def higher(cell: Cell) -> Cell:
    return replace(cell, key=cell.key._replace(load="high"), offered=2.0 * (cell.offered or 1.0))


@pytest.mark.parametrize("floor", [None, 0.5, 0.99])
@pytest.mark.parametrize("success", [0.3, 0.9, 0.98])
def test_what_many_failures_let_through_bounds_no_other_cell(floor: float | None, success: float) -> None:
    """With and without a success floor of the class; the tails of such a row may still close higher loads."""
    workload = replace(CHAT, slo=replace(CHAT.slo, min_success=floor))
    row = replace(points(LOOP, 1.0, success=success, e2e_p99_s=29.0), ttft_p99_s=Reading(9.0))
    top = higher(LOOP)
    lower = replace(LOOP, key=LOOP.key._replace(load="low"), offered=16.0)
    found = Envelope.of(fleet(lower, LOOP, top, workload=workload), [row])
    assert found[top.key].capacity_rps.hi == found[lower.key].capacity_rps.hi == np.inf
    assert not found[top.key].possible
    assert found[lower.key].possible
    assert any("too many requests failed" in line for line in rests_on_bounds(found))


def test_a_load_that_was_not_held_commits_nothing_and_closes_nothing_and_is_tried_once_more() -> None:
    row = points(LOOP, 0.5, e2e_p99_s=1.0)
    found = Envelope.of(fleet(LOOP, higher(LOOP)), [row])
    b = found[LOOP.key]
    assert (b.committable, b.possible, b.measured) == (False, True, False)
    assert found[higher(LOOP).key].capacity_rps.hi == np.inf
    assert LOOP.key in candidates(found)
    assert LOOP.key not in candidates(Envelope.of(fleet(LOOP), [row, replace(row, seed=1)]))
    verdict = certify(found, Frontier())
    assert verdict.verdict is Verdict.UNDECIDED
    assert any("not counted, because the load was not held" in line for line in rests_on_bounds(found))
    again = Envelope.of(fleet(LOOP), [row, points(LOOP, 2.0, e2e_p99_s=20.0)])
    assert again[LOOP.key].capacity_rps.hi == 2.0


def test_requests_without_a_record_failed_and_prove_nothing() -> None:
    """They keep a cell out of the plan; that they failed is not known, so they close no cell. The warm-up may be counted."""
    whole = recorded(RATE, 8.0)
    workload = replace(CHAT, slo=replace(CHAT.slo, min_success=0.9))
    few = Envelope.of(fleet(RATE, workload=workload), [replace(whole, requests=1600)])[RATE.key]
    assert (few.success.lo < 0.6, few.success.hi) == (True, 1.0)
    assert (few.committable, few.possible) == (False, True)
    assert Envelope.of(fleet(RATE, workload=workload), [replace(whole, requests=800)])[RATE.key].success.lo > 0.9


@pytest.mark.parametrize(
    "row", [points(RATE, 5.0), points(RATE, 5.0, window_s=270.0), points(RATE, 5.0, e2e_p99_s=1.0), recorded(RATE, 5.0)]
)
def test_less_than_was_offered_bounds_no_capacity_without_a_sign_of_overload(row: Measurement) -> None:
    """Fewer may have been sent: what was served is what the replica can do at least."""
    b = Envelope.of(fleet(RATE), [row])[RATE.key]
    assert b.capacity_rps.lo == pytest.approx(5.0, rel=0.05)
    assert b.capacity_rps.hi == pytest.approx(8.0, rel=0.05)


def test_a_backlog_bounds_the_capacity_of_an_open_loop() -> None:
    b = Envelope.of(fleet(RATE), [points(RATE, 5.0, e2e_p99_s=90.0, window_s=270.0)])[RATE.key]
    assert b.capacity_rps.is_point


def test_failed_starts_say_nothing_of_gpus_where_no_server_ever_started() -> None:
    one, two = (replace(RATE, key=RATE.key._replace(server=ServerKey(tp)), gpus=tp) for tp in (1, 2))
    starts = [Measurement(cell.key, status=Status.FAILED_START) for cell in (one, two)]
    nothing = certify(Envelope.of(fleet(one, two), starts), Frontier())
    assert nothing.verdict is Verdict.UNDECIDED
    assert any(NEVER_STARTED in line for line in rests_on_bounds(nothing.envelope))
    ran = points(two, 8.0, e2e_p99_s=1.0)
    about_one = Envelope.of(fleet(one, two), [starts[0], ran])
    assert not about_one[one.key].possible
    assert about_one.classes["chat"].closed == {one.key: "its server failed to start"}


def test_what_cannot_start_is_said_without_an_slo() -> None:
    code = replace(CHAT, name="code")
    dead = replace(RATE, key=CellKey("code", 1, "r8"), gpus=1)
    instance = Instance("drawn", Fleet((Pool("default", 8),)), (CHAT, code), (RATE, dead))
    rows = [points(RATE, 8.0, e2e_p99_s=1.0), Measurement(dead.key, status=Status.FAILED_START)]
    found = certify(Envelope.of(instance, rows), Frontier())
    assert found.verdict is Verdict.INFEASIBLE
    assert "no server for code can run on this fleet" in verdict_sentence(found)
    assert "SLO" not in verdict_sentence(found)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public measurements are not beside the project")
def test_every_public_row_counts() -> None:
    """Rows of two benchmarks of others were sent as they say; the rule must not refuse one."""
    refused, count = [], 0
    for folder in sorted((SHARED / "instances").iterdir()):
        read = read_instance(folder)
        for row in read.measurements:
            count += 1
            cell, workload = read.instance.cell_by_key[row.key], read.instance.class_by_name[row.key.class_name]
            refused += [(folder.name, row.key)] if why_not_counted(cell, row, workload) else []
    for name in ("inferencemax_llama70b", "inferencemax_repeated_cells", "llmpilot"):
        with (SHARED / "data" / "grids" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                if (told := _public(line)) is not None:
                    count += 1
                    refused += [(name, told[1].key)] if why_not_counted(*told) else []
    assert count > 800
    assert refused == []


def _public(line: dict[str, str]) -> tuple[Cell, Measurement, WorkloadClass] | None:
    tokens = float(line["osl"])
    served = float(line["request_rps"] or 0.0) or float(line["output_tps"] or 0.0) / tokens
    if not served:
        return None
    key = CellKey(line["workload"], int(line["tp"]), line["load"])
    cell = Cell(key, int(line["gpus"]), LoadKind(line["load_kind"]), float(line["load"]))
    tails = {f"{m}_p99_s": Reading(float(v) / 1e3) for m in ("ttft", "e2e", "tpot") if (v := line[f"{m}_p99_ms"])}
    success = Reading(float(line["success_rate"])) if line["success_rate"] else Reading()
    window_s = float(line["duration_s"]) if line["duration_s"] else None
    row = Measurement(key, throughput_rps=Reading(served), success_rate=success, window_s=window_s, **tails)  # type: ignore[arg-type]
    return cell, row, WorkloadClass(line["workload"], 1.0, output_tokens=tokens)
